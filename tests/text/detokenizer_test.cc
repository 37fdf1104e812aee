// Streams of tokens: whole characters, nothing lost, the joined pieces equal to decoding all at once.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/byte_tokens.h"
#include "text/tokenizer/fixtures.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// Id b is the byte b.
std::unique_ptr<Tokenizer> byte_tokenizer(bool byte_fallback) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    if (byte_fallback)
      token = byte_token(static_cast<uint8_t>(byte));
    else
      append_byte_level(token, std::string(1, static_cast<char>(byte)));
    vocab[token] = byte;
  }
  vocab["plain"] = 256;
  const json decoder = byte_fallback ? json{{"type", "ByteFallback"}} : json{{"type", "ByteLevel"}};
  const json model = {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}};
  return tokenizer_from_json(minimal_document({{"model", model}, {"decoder", decoder}}).dump(), "bytes");
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Detokenizer detokenizer(tokenizer, false);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

// The emoji's four bytes, a two-byte letter, a lone continuation byte, then the end inside a three-byte
// character.
const std::vector<int32_t> kF078 = {0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xA9, 0x80, 0xE2, 0x82};

TEST(Detokenizer, F078CharactersAcrossTokens) {
  const auto tokenizer = byte_tokenizer(false);
  EXPECT_EQ(pieces(*tokenizer, kF078),
            (std::vector<std::string>{"", "", "", "\U0001F600", "", "é", "\uFFFD", "", "", "\uFFFD"}));
  EXPECT_EQ(joined(pieces(*tokenizer, kF078)), tokenizer->decode(kF078, false));
}

TEST(Detokenizer, ABadByteHoldsBackAtMostThree) {
  const auto tokenizer = byte_tokenizer(false);
  EXPECT_EQ(pieces(*tokenizer, {0xF0, 0x9F, 0x98, 'a', 'b'}),
            (std::vector<std::string>{"", "", "", "\uFFFDa", "b", ""}));
}

TEST(Detokenizer, ByteFallbackJudgesARunAsAWhole) {
  const auto tokenizer = byte_tokenizer(true);
  EXPECT_EQ(pieces(*tokenizer, {0xC3, 0xA9, 256}), (std::vector<std::string>{"", "", "éplain", ""}));
  EXPECT_EQ(pieces(*tokenizer, {0xC3, 0xA9, 0xFF, 256}),
            (std::vector<std::string>{"", "", "", "\uFFFD\uFFFD\uFFFDplain", ""}));
  EXPECT_EQ(joined(pieces(*tokenizer, kF078)), tokenizer->decode(kF078, false));
}

TEST(Detokenizer, RandomBytesJoinToTheWholeAndNeverSplitACharacter) {
  for (const bool byte_fallback : {false, true}) {
    const auto tokenizer = byte_tokenizer(byte_fallback);
    std::mt19937_64 random(5);
    for (int n = 0; n < 2000; ++n) {
      std::vector<int32_t> ids;
      for (size_t i = 0, length = random() % 30; i < length; ++i)
        ids.push_back(random() % 8 == 0 ? 256
                                        : static_cast<int32_t>((random() % 3 ? 0x80 : 0xC0) + random() % 64));
      const auto parts = pieces(*tokenizer, ids);
      for (const std::string& part : parts) EXPECT_TRUE(utf8_valid(part));
      EXPECT_EQ(joined(parts), tokenizer->decode(ids, false));
    }
  }
}

TEST(Detokenizer, SkipsSpecialTokensOnRequest) {
  const auto tokenizer = golden_tokenizer("qwen2");
  const auto ids = tokenizer->encode("<|im_start|>hi<|im_end|>", false);
  for (const bool skip : {false, true}) {
    Detokenizer detokenizer(*tokenizer, skip);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.push(id);
    EXPECT_EQ(text + detokenizer.finish(), skip ? "hi" : "<|im_start|>hi<|im_end|>");
  }
}

TEST(Detokenizer, RefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = byte_tokenizer(false);
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_THROW(detokenizer.push(257), Error);
  EXPECT_THROW(detokenizer.push(-1), Error);
  EXPECT_EQ(detokenizer.push('a') + detokenizer.finish(), "a");
}

TEST(Detokenizer, TakesConstantTimePerToken) {
  const auto tokenizer = golden_tokenizer("llama2");
  const auto time = [&](int count) {
    Detokenizer detokenizer(*tokenizer, false);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) detokenizer.push(300 + i % 200);
    detokenizer.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start);
  };
  const auto small = time(2000), large = time(100000);
  EXPECT_LT(large, 500 * small + std::chrono::duration<double>(0.5));
}

// A tokenizer that says nothing about streams gets the one that decodes anew.
class Plain : public Tokenizer {
 public:
  explicit Plain(std::unique_ptr<Tokenizer> inner) : inner_(std::move(inner)) {}
  std::vector<int32_t> encode(std::string_view t, bool a, bool p) const override {
    return inner_->encode(t, a, p);
  }
  std::string decode(std::span<const int32_t> ids, bool skip) const override {
    return inner_->decode(ids, skip);
  }
  std::string_view token_text(int32_t id) const override { return inner_->token_text(id); }
  std::optional<int32_t> token_id(std::string_view token) const override { return inner_->token_id(token); }
  bool is_special(int32_t id) const override { return inner_->is_special(id); }
  int32_t vocab_size() const override { return inner_->vocab_size(); }
  std::string to_tokenizer_json() const override { return inner_->to_tokenizer_json(); }

 private:
  std::unique_ptr<Tokenizer> inner_;
};

TEST(Detokenizer, FallsBackOnDecodingAnew) {
  const Plain tokenizer(byte_tokenizer(false));
  const auto parts = pieces(tokenizer, kF078);
  EXPECT_EQ(joined(parts), tokenizer.decode(kF078, false));
  for (const std::string& part : parts) EXPECT_TRUE(utf8_valid(part));
}

}  // namespace
}  // namespace quaver::text
