// Renders the Jinja chat templates that checkpoints carry, as Transformers does.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace quaver {

// Key order is kept: templates iterate over objects and dump them with tojson.
using ordered_json = nlohmann::ordered_json;

struct ChatTemplateInput {
  ordered_json messages = ordered_json::array();
  ordered_json tools;      // null or a list of tools
  ordered_json documents;  // null or a list
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::string bos_token, eos_token;
  ordered_json extra = ordered_json::object();  // chat_template_kwargs and further special tokens
};

// A compiled template. Immutable and thread safe.
class ChatTemplate {
 public:
  // Throws Error(kBadFile) naming `what`, line and column on a syntax error.
  static std::unique_ptr<ChatTemplate> compile(std::string_view source, std::string_view what);
  virtual ~ChatTemplate() = default;
  // The text it was compiled from, by which tool and reasoning styles are recognised.
  virtual std::string_view source() const = 0;
  // Throws Error(kInvalidInput) with the template's own text when it calls raise_exception, and on run-away
  // output, recursion or loops (limits in the implementation).
  virtual std::string render(const ChatTemplateInput& input) const = 0;
};

}  // namespace quaver
