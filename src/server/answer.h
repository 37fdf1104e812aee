// What the answers of the text routes have in common: identity, usage, words for how a text ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/sampling_fields.h"
#include "server/served_model.h"
#include "text/chat_template.h"

namespace quaver::server {

struct AnswerHead {
  std::string id;  // "chatcmpl-..."
  int64_t created = 0;
  std::string model_name;
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<Reply> reply;
  SamplingRequest request;
};

// id, object, created, model, in this order.
ordered_json head_json(const AnswerHead& head, const char* object);

ordered_json usage_json(const llm::Usage& usage);
// Prompt tokens count once per prompt, however many samples it has.
llm::Usage add_usage(llm::Usage sum, const llm::Usage& usage, bool with_prompt);

const char* finish_word(llm::FinishReason reason);
// The stop string or token that matched, else null.
ordered_json stop_reason_json(const llm::Event& event);

// Fills id, created and name; `prefix` is "chatcmpl-" or "cmpl-".
AnswerHead make_head(const char* prefix, std::string model_name, SamplingRequest request,
                     std::shared_ptr<const ServedModel> model, std::shared_ptr<Reply> reply);
// The engine's request `index` of this answer. Names are unique even when clients repeat a request_id.
llm::Request engine_request(const AnswerHead& head, size_t index, std::vector<int32_t> prompt);

}  // namespace quaver::server
