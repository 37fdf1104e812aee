// The plain way to decode a stream: decode all of it again with every id, and return what is new.
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace quaver {
namespace {

class RedecodingStream final : public DecodeStream {
 public:
  RedecodingStream(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  std::string push(int32_t id) override {
    ids_.push_back(id);
    std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
    // U+FFFD at the end may be the beginning of a character that the next id completes.
    size_t stable = text.size();
    while (std::string_view(text).substr(0, stable).ends_with(text::kReplacementUtf8))
      stable -= text::kReplacementUtf8.size();
    return stable > returned_ ? take(text, stable) : std::string();
  }
  std::string finish() override {
    const std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
    return take(text, text.size());
  }

 private:
  std::string take(const std::string& text, size_t end) {
    std::string piece = text.substr(returned_, end - returned_);
    returned_ = end;
    return piece;
  }

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;
  size_t returned_ = 0;
};

}  // namespace

std::unique_ptr<DecodeStream> Tokenizer::decode_stream(bool skip_special_tokens) const {
  return std::make_unique<RedecodingStream>(*this, skip_special_tokens);
}

}  // namespace quaver
