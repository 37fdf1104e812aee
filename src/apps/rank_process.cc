#include "apps/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/log.h"

extern char** environ;

namespace quaver::apps {
namespace {

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  require(!arguments.empty(), ErrorKind::kUnavailable, "can't read /proc/self/cmdline to start other ranks");
  return arguments;
}

std::vector<std::string> with_own(const Environment& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::none_of(added, [&](const auto& pair) { return pair.first == name; }))
      all.emplace_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(cat(name, "=", value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In the child, between fork and exec: async-signal-safe calls alone.
[[noreturn]] void become_rank(pid_t parent, char** arguments, char** environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // gone before the line above
  std::signal(SIGINT, SIG_IGN);
  if (const int nowhere = ::open("/dev/null", O_RDONLY); nowhere >= 0) ::dup2(nowhere, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(127);
}

}  // namespace

RankProcesses::RankProcesses(const std::vector<Environment>& environments) {
  std::vector<std::string> arguments = own_arguments();
  for (const Environment& added : environments) {
    std::vector<std::string> environment = with_own(added);
    const std::vector<char*> argv = pointers_to(arguments), envp = pointers_to(environment);
    const pid_t self = ::getpid(), pid = ::fork();
    if (pid == 0) become_rank(self, const_cast<char**>(argv.data()), const_cast<char**>(envp.data()));
    require(pid > 0, ErrorKind::kUnavailable, "can't start another rank: ", std::strerror(errno));
    living_.push_back(pid);
  }
  const std::vector<pid_t> all = living_;  // the watchers strike out what has ended
  for (size_t i = 0; i < all.size(); ++i)
    watchers_.emplace_back([this, pid = all[i], rank = i + 1] { watch(pid, rank); });
}

RankProcesses::~RankProcesses() {
  closing_ = true;
  {
    std::unique_lock lock(mutex_);
    killing_ = !ended_.wait_for(lock, std::chrono::seconds(5), [&] { return living_.empty(); });
    if (killing_)
      for (const pid_t pid : living_) ::kill(pid, SIGKILL);
  }
  for (std::thread& watcher : watchers_) watcher.join();
}

void RankProcesses::watch(pid_t pid, size_t rank) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!killing_ && WIFSIGNALED(status))
    log_error("rank ", rank, " (process ", pid, ") was ended by signal ", WTERMSIG(status), ", ",
              ::strsignal(WTERMSIG(status)));
  if (!all_here_ && !closing_) {
    std::fprintf(stderr, "quaver: rank %zu ended before all had started\n", rank);
    std::_Exit(1);
  }
  std::lock_guard lock(mutex_);
  std::erase(living_, pid);
  ended_.notify_all();
}

}  // namespace quaver::apps
