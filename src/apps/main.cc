// quaver: one program, one subcommand per job.
int main() { return 0; }
