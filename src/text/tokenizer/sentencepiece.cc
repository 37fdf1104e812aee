#include "base/error.h"
#include "text/tokenizer.h"
namespace quaver {
std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(std::span<const std::byte>, std::string_view what) {
  fail(ErrorKind::kUnsupported, what);
}
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufVocabulary&, std::string_view what) {
  fail(ErrorKind::kUnsupported, what);
}
}  // namespace quaver
