// quaver pull: a model from the hub into the cache that every command looks into.
#include <cstdio>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "base/error.h"

namespace quaver::apps {
namespace {

struct PullFlags {
  std::string repo, revision, token;
  hub::FilePatterns patterns;
  bool quiet = false;
};

hub::PullOptions options_of(const PullFlags& flags) {
  auto name = hub::parse_repo_name(flags.repo);
  require(name.has_value(), ErrorKind::kInvalidInput, "'", flags.repo,
          "' is not a repository id; expected ORG/NAME, ORG/NAME@REVISION or ORG/NAME:FILE");
  if (!flags.revision.empty()) {
    require(hub::is_revision(flags.revision), ErrorKind::kInvalidInput, "--revision '", flags.revision,
            "' is not a branch, a tag or a commit");
    name->revision = flags.revision;
  }
  hub::PullOptions options{
      .settings = hub::settings_from_environment(), .repo = *name, .patterns = flags.patterns};
  if (!flags.token.empty()) options.settings.token = hub::checked_token(flags.token, "--token");
  return options;
}

int run_pull(const PullFlags& flags) {
  hub::PullOptions options = options_of(flags);
  std::string path = pull_and_tell(options, flags.quiet);
  std::printf("%s\n", path.c_str());
  return 0;
}

}  // namespace

std::function<int()> add_pull(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  app.add_option("REPO", flags->repo, "ORG/NAME, ORG/NAME@REVISION, or ORG/NAME:FILE for one file")
      ->required();
  add_flag(app, "revision", flags->revision, "branch, tag or commit; default: main");
  auto add_patterns = [&](const char* name, std::vector<std::string>& patterns, const char* help) {
    app.add_option(name, patterns, help)->allow_extra_args(false)->take_all();
  };
  add_patterns("--include", flags->patterns.include,
               "only files that fit, such as '*.json'; may be given several times");
  add_patterns("--exclude", flags->patterns.exclude, "no files that fit; may be given several times");
  add_flag(app, "token", flags->token,
           "for private and gated models; HF_TOKEN does not show in the process list");
  add_switch(app, "quiet", flags->quiet, "no progress bar");
  app.footer(
      "Examples:\n"
      "  quaver pull HuggingFaceTB/SmolLM2-135M-Instruct\n"
      "  quaver pull ORG/NAME:model-Q4_K_M.gguf           one file of several\n"
      "  quaver pull ORG/NAME --include '*' --revision v2  all files, also those Quaver does not need\n"
      "The path of the model is printed last. Where: HF_HUB_CACHE, else HF_HOME/hub, else\n"
      "~/.cache/huggingface/hub. From where: HF_ENDPOINT. HF_HUB_OFFLINE=1 looks into the cache alone. What "
      "is\n"
      "interrupted goes on with the same command.");
  return [flags] { return run_pull(*flags); };
}

}  // namespace quaver::apps
