// quaver: one program, one subcommand per job. Exit status 0 done, 1 the job failed, 2 wrong usage.
#include <csignal>
#include <cstdio>
#include <exception>

#include "apps/commands.h"
#include "apps/torch_warnings.h"
#include "base/error.h"

namespace quaver::apps {
namespace {

int status_of(const Error& error) { return error.kind() == ErrorKind::kInvalidInput ? 2 : 1; }

int run_main(int argc, char** argv) {
  CLI::App app("Quantize a model once with AutoRound and serve the folder it wrote.", "quaver");
  app.set_version_flag("--version", version_text());
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // a repeated flag: the last counts
  app.require_subcommand(1);
  app.footer(
      "Start here:\n"
      "  quaver quantize --model MODEL --scheme W4A16 --output_dir OUT   make a 4-bit folder\n"
      "  quaver serve OUT                                                serve it on port 8000\n"
      "  quaver chat OUT                                                 talk to it here\n"
      "quaver COMMAND --help explains the flags of a command.");
  std::function<int()> job;
  for (const Command& command : all_commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    std::function<int()> action = command.add(*sub);
    sub->callback([&job, action] { job = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return job();
}

}  // namespace
}  // namespace quaver::apps

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  quaver::apps::log_torch_warnings();
  try {
    return quaver::apps::run_main(argc, argv);
  } catch (const quaver::Error& e) {
    std::fprintf(stderr, "quaver: %s\n", e.what());
    return quaver::apps::status_of(e);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "quaver: internal error: %s\n", quaver::apps::first_line(e).c_str());
    return 1;
  }
}
