// Any bytes as a tokenizer.json and as a SentencePiece model: either a tokenizer that encodes, decodes and
// exports, or an Error; never anything else. The first byte chooses the format.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

void use(const quaver::Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("It's 7:45, h\u00e9 \U0001F600 <s> \xFF", true);
  quaver::Detokenizer detokenizer(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) streamed += detokenizer.push(id);
  if (streamed + detokenizer.finish() != tokenizer.decode(ids, false)) std::abort();
  for (const int32_t id : tokenizer.encode("<s></s>", false, false)) tokenizer.token_text(id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    use(data[0] & 1 ? *quaver::tokenizer_from_json(rest, "t.json")
                    : *quaver::tokenizer_from_sentencepiece(std::as_bytes(std::span(rest)), "t.model"));
  } catch (const quaver::Error&) {
  }
  return 0;
}
