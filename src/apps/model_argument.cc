#include "apps/model_argument.h"

#include <cstdio>
#include <filesystem>
#include <map>

#include "base/byte_text.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/printable.h"
#include "hub/repo_cache.h"

namespace quaver::apps {
namespace {

// One line per reason: how many files, how much, and a few names.
void tell_skipped(const std::vector<hub::SkippedFile>& skipped) {
  struct Group {
    size_t count = 0;
    uint64_t bytes = 0;
    std::string names;
  };
  std::map<std::string, Group> groups;
  for (const hub::SkippedFile& entry : skipped) {
    Group& group = groups[entry.reason];
    group.bytes += entry.file.size_bytes.value_or(0);
    if (++group.count <= 4) group.names += cat(group.count > 1 ? ", " : "", printable(entry.file.path));
    if (group.count == 5) group.names += ", ...";
  }
  for (const auto& [reason, group] : groups)
    std::fprintf(stderr, "skipped, %s: %zu files, %s (%s)\n", reason.c_str(), group.count,
                 megabytes(group.bytes).c_str(), group.names.c_str());
}

void tell_plan(const hub::RepoName& repo, const hub::PullPlan& plan) {
  std::fprintf(stderr, "%s, revision %s, commit %.12s: %zu files, %s, of which %s are to come\n",
               repo.id.c_str(), repo.revision.c_str(), plan.commit.c_str(), plan.choice.wanted.size(),
               megabytes(plan.total_bytes).c_str(), megabytes(plan.missing_bytes).c_str());
  tell_skipped(plan.choice.skipped);
}

std::string pull_model(const std::string& argument, const hub::PullOptions& options) {
  std::fprintf(stderr, "%s: is no path, nor whole in %s; pulling it from %s\n", argument.c_str(),
               options.settings.cache.c_str(), options.settings.endpoint.c_str());
  try {
    return pull_and_tell(options, false);
  } catch (const Error& error) {
    auto partial = hub::find_cached(options.settings.cache, options.repo, false);
    if (error.kind() == ErrorKind::kUnavailable && partial) {
      log_warning(error.what(), "; going on with what the cache holds");
      return partial->string();
    }
    if (error.kind() != ErrorKind::kNotFound) throw;
    fail(ErrorKind::kNotFound, argument, ": is no folder or file here; as a repository id: ", error.what());
  }
}

}  // namespace

std::string pull_and_tell(const hub::PullOptions& options, bool quiet) {
  std::unique_ptr<ProgressSink> bar = make_terminal_progress("pulling", ProgressUnit::kBytes);
  hub::PullListener listener{.on_plan = [&](const hub::PullPlan& plan) { tell_plan(options.repo, plan); },
                             .progress = quiet ? null_progress() : *bar};
  hub::PullResult result = hub::pull(options, listener);
  if (result.received_bytes > 0)
    listener.progress.finish(cat(options.repo.id, ": received ", megabytes(result.received_bytes)));
  return result.path.string();
}

bool is_repository(const std::string& argument) {
  if (std::filesystem::exists(argument)) return false;
  auto name = hub::parse_repo_name(argument);
  return name && name->id.find('/') != std::string::npos && !name->id.ends_with(".gguf");
}

std::string resolve_model(const std::string& argument) {
  if (std::filesystem::exists(argument)) return argument;
  require(is_repository(argument), ErrorKind::kNotFound, argument,
          ": is neither a folder nor a .gguf file here, nor a repository id such as ORG/NAME");
  hub::PullOptions options{
      .settings = hub::settings_from_environment(), .repo = *hub::parse_repo_name(argument), .patterns = {}};
  auto cached = hub::find_cached(options.settings.cache, options.repo, !options.settings.offline);
  if (cached) return cached->string();
  return options.settings.offline ? hub::pull(options, {{}, null_progress()}).path.string()
                                  : pull_model(argument, options);
}

}  // namespace quaver::apps
