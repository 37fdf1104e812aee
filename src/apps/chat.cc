// quaver chat: a conversation in the terminal, through the model's chat template.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/error.h"

namespace quaver::apps {
namespace {

struct ChatFlags {
  pipeline::TextPipelineOptions model;
  std::string system;
  llm::SamplingParams sampling{.temperature = 0.7f, .top_p = 0.95f};
};

std::vector<int32_t> rendered(const pipeline::TextPipeline& model, const ordered_json& messages) {
  ChatTemplateInput input;
  input.messages = messages;
  input.bos_token = model.card().bos_token;
  input.eos_token = model.card().eos_token;
  return model.tokenizer().encode(model.chat_template()->render(input), false);
}

int run_chat(ChatFlags flags) {
  flags.model.model = resolve_model(flags.model.model);
  std::unique_ptr<pipeline::TextPipeline> model = pipeline::open_text_pipeline(flags.model);
  require(model->chat_template() != nullptr, ErrorKind::kUnsupported, flags.model.model,
          ": has no chat template; quaver generate completes plain text");
  bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) std::printf("Say something. An empty line or Ctrl-D ends the conversation.\n");
  ordered_json messages = ordered_json::array();
  if (!flags.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.system}});
  for (std::string line;;) {
    if (terminal) std::printf("\n> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line.empty()) return 0;
    messages.push_back({{"role", "user"}, {"content", line}});
    std::vector<int32_t> prompt = rendered(*model, messages);
    flags.sampling.max_tokens = room_for_answer(*model, prompt.size());
    messages.push_back(
        {{"role", "assistant"}, {"content", print_answer(*model, std::move(prompt), flags.sampling)}});
    std::printf("\n");
  }
}

}  // namespace

std::function<int()> add_chat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  add_text_model_flags(app, flags->model);
  add_flag(app, "system", flags->system, "system message to begin with");
  add_flag(app, "temperature", flags->sampling.temperature, "0 = always the most likely token");
  add_flag(app, "top-p", flags->sampling.top_p, "share of probability to draw from");
  app.add_option("--seed", flags->sampling.seed, "of the draws");
  return [flags] { return run_chat(*flags); };
}

}  // namespace quaver::apps
