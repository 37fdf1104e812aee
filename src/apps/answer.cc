#include "apps/answer.h"

#include <algorithm>
#include <cstdio>
#include <future>

#include "base/error.h"

namespace quaver::apps {

std::string print_answer(pipeline::TextPipeline& model, std::vector<int32_t> prompt,
                         const llm::SamplingParams& sampling) {
  std::promise<void> done;
  std::string text;
  std::optional<Error> error;
  model.submit({.id = "terminal", .prompt = std::move(prompt), .sampling = sampling}, [&](llm::Event event) {
    text += event.text;
    std::fputs(event.text.c_str(), stdout);
    std::fflush(stdout);
    error = event.error;
    if (event.finish != llm::FinishReason::kNone) done.set_value();
  });
  done.get_future().wait();
  if (error) throw *error;
  return text;
}

int32_t room_for_answer(const pipeline::TextPipeline& model, size_t prompt_tokens) {
  return static_cast<int32_t>(
      std::max<int64_t>(1, model.card().max_model_len - static_cast<int64_t>(prompt_tokens)));
}

}  // namespace quaver::apps
