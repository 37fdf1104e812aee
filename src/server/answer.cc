#include "server/answer.h"

#include <atomic>
#include <ctime>

#include "server/ids.h"

namespace quaver::server {

ordered_json head_json(const AnswerHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model_name}};
}

ordered_json usage_json(const llm::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

llm::Usage add_usage(llm::Usage sum, const llm::Usage& usage, bool with_prompt) {
  sum.completion_tokens += usage.completion_tokens;
  if (with_prompt) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.cached_tokens += usage.cached_tokens;
  }
  return sum;
}

const char* finish_word(llm::FinishReason reason) {
  switch (reason) {
    case llm::FinishReason::kStop:
      return "stop";
    case llm::FinishReason::kLength:
      return "length";
    case llm::FinishReason::kAbort:
      return "abort";
    case llm::FinishReason::kError:
      return "error";
    case llm::FinishReason::kNone:
      break;
  }
  return "";
}

ordered_json stop_reason_json(const llm::Event& event) {
  if (!event.stop_text.empty()) return event.stop_text;
  if (event.stop_token) return *event.stop_token;
  return nullptr;
}

AnswerHead make_head(const char* prefix, std::string model_name, SamplingRequest request,
                     std::shared_ptr<const ServedModel> model, std::shared_ptr<Reply> reply) {
  AnswerHead head;
  head.id = cat(prefix, request.request_id.empty() ? random_hex(32) : request.request_id);
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.model_name = std::move(model_name);
  head.request = std::move(request);
  head.model = std::move(model);
  head.reply = std::move(reply);
  return head;
}

llm::Request engine_request(const AnswerHead& head, size_t index, std::vector<int32_t> prompt) {
  static std::atomic<uint64_t> serial{0};
  llm::Request out;
  out.id = cat(head.id, "-", index, "#", ++serial);
  out.prompt = std::move(prompt);
  out.sampling = head.request.params;
  out.sampling.seed = sample_seed(out.sampling.seed, index % static_cast<size_t>(head.request.n));
  out.cache_salt = head.request.cache_salt;
  return out;
}

}  // namespace quaver::server
