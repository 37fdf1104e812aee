// quaver generate: completes one prompt as it stands, without a chat template.
#include <cstdio>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"

namespace quaver::apps {
namespace {

struct GenerateFlags {
  pipeline::TextPipelineOptions model;
  std::string prompt;
  llm::SamplingParams sampling{.max_tokens = 128};
};

int run_generate(GenerateFlags flags) {
  flags.model.model = resolve_model(flags.model.model);
  std::unique_ptr<pipeline::TextPipeline> model = pipeline::open_text_pipeline(flags.model);
  print_answer(*model, model->tokenizer().encode(flags.prompt, true), flags.sampling);
  std::printf("\n");
  return 0;
}

}  // namespace

std::function<int()> add_generate(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  add_text_model_flags(app, flags->model);
  add_flag(app, "prompt", flags->prompt, "text to complete")->required();
  add_flag(app, "max-tokens", flags->sampling.max_tokens, "tokens to add at most");
  add_flag(app, "temperature", flags->sampling.temperature, "0 = always the most likely token");
  add_flag(app, "top-p", flags->sampling.top_p, "share of probability to draw from");
  add_flag(app, "top-k", flags->sampling.top_k, "number of tokens to draw from; 0 = all");
  app.add_option("--seed", flags->sampling.seed, "of the draws");
  return [flags] { return run_generate(*flags); };
}

}  // namespace quaver::apps
