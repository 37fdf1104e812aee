// From a chat body to the tokens that the model reads: shared by chat and tokenize.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/call.h"
#include "server/messages.h"

namespace quaver::server {

struct ChatPrompt {
  ordered_json messages;
  ordered_json tools;  // null when there are none
  ToolChoice tool_choice;
  ChatTemplateInput input;    // what the template gets
  std::string chat_template;  // "" = the model's own
  bool add_special_tokens = false;

  bool offers_tools() const { return !tools.is_null() && tool_choice.kind != ToolChoice::Kind::kNone; }
};

// Reads the fields that shape the prompt and notes what is wrong. Throws ApiError on what is refused.
ChatPrompt read_chat_prompt(Fields& fields, const std::string& body, const Call& call);

struct RenderedChat {
  std::string text;  // as the model sees it
  std::vector<int32_t> tokens;
};

// `opening` is put behind the template's output: the start of an answer that the model must continue; a
// thinking section that the template has opened is closed before it. Throws ApiError 400 with the template's
// own words when it raises.
RenderedChat render_chat(const ChatPrompt& prompt, const ServedModel& model, std::string_view opening);

}  // namespace quaver::server
