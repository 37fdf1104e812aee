// Any bytes as a chat template: it compiles or is refused, and renders or fails with an Error; never anything
// else.
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quaver::ordered_json;
  static const quaver::ChatTemplateInput input = [] {
    quaver::ChatTemplateInput in;
    in.messages = ordered_json::parse(
        R"([{"role": "system", "content": "Sé brief"}, {"role": "user", "content": "a <b> 世"},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "n": 1, "f": 2.5, "l": [3, 1, 2]}])");
    in.tools =
        ordered_json::parse(R"([{"function": {"name": "f", "parameters": {"a": {"type": "string"}}}}])");
    in.bos_token = "<s>";
    return in;
  }();
  try {
    quaver::ChatTemplate::compile(std::string_view(reinterpret_cast<const char*>(data), size), "t")
        ->render(input);
  } catch (const quaver::Error&) {
  }
  return 0;
}
