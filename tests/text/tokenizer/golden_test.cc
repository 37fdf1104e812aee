// Tokenizers of every kind answer as the `tokenizers` and `sentencepiece` libraries do. On a failure,
// `python tests/golden/text/make_tokenizers.py --show KIND N` prints what the library answers to text N.
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/fixtures.h"

namespace quaver::text {
namespace {

using Lists = std::vector<std::vector<int32_t>>;

std::string listed(const Lists& lists) {
  std::string out;
  for (const auto& ids : lists) out += cat(ids, "\n");
  return out;
}

std::string joined_pieces(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                          bool skip_special_tokens) {
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

class GoldenTokenizer : public testing::TestWithParam<std::string> {
 protected:
  const json& answers() const { return golden_answers().at(GetParam()); }
};

TEST_P(GoldenTokenizer, EncodesAndDecodesEveryText) {
  const auto tokenizer = golden_tokenizer(GetParam());
  const bool plain = answers().at("plain");
  const std::string expected = answers().at("texts");
  ASSERT_GE(golden_texts().size(), 2000u);
  ASSERT_EQ(expected.size(), 16 * golden_texts().size());
  for (size_t n = 0; n < golden_texts().size(); ++n) {
    const std::string& text = golden_texts()[n];
    Lists ids = {tokenizer->encode(text, true), tokenizer->encode(text, false)};
    if (plain) ids.push_back(tokenizer->encode(text, false, false));
    EXPECT_EQ(hash_ids(ids), hash_at(expected, 2 * n)) << GetParam() << " " << n << "\n" << listed(ids);
    const std::vector<std::string> decoded = {tokenizer->decode(ids[0], false),
                                              tokenizer->decode(ids[0], true)};
    EXPECT_EQ(hash_texts(decoded), hash_at(expected, 2 * n + 1)) << GetParam() << " " << n << "\n"
                                                                 << decoded[0];
    if (HasFailure()) return;
  }
}

TEST_P(GoldenTokenizer, DecodesRandomIdsWholeAndPiecewise) {
  const auto tokenizer = golden_tokenizer(GetParam());
  const std::string expected = answers().at("id_lists");
  const auto lists = golden_id_lists(tokenizer->vocab_size(), expected.size() / 8);
  ASSERT_EQ(lists.size(), 500u);
  for (size_t n = 0; n < lists.size(); ++n) {
    const std::vector<std::string> decoded = {tokenizer->decode(lists[n], false),
                                              tokenizer->decode(lists[n], true)};
    ASSERT_EQ(hash_texts(decoded), hash_at(expected, n)) << GetParam() << " " << n << "\n" << cat(lists[n]);
    EXPECT_EQ(joined_pieces(*tokenizer, lists[n], false), decoded[0]);
    EXPECT_EQ(joined_pieces(*tokenizer, lists[n], true), decoded[1]);
  }
}

TEST_P(GoldenTokenizer, IsItsOwnDocument) {
  const auto tokenizer = golden_tokenizer(GetParam());
  const auto again = tokenizer_from_json(tokenizer->to_tokenizer_json(), "export");
  for (size_t n = 0; n < golden_texts().size(); n += 40)
    EXPECT_EQ(again->encode(golden_texts()[n], true), tokenizer->encode(golden_texts()[n], true));
}

std::vector<std::string> kinds(bool sentencepiece) {
  std::vector<std::string> names;
  for (const auto& [name, answers] : golden_answers().items())
    if (name.starts_with("sp_") == sentencepiece) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTokenizer, testing::ValuesIn(kinds(false)),
                         [](const auto& kind) { return kind.param; });

class GoldenSentencePiece : public testing::TestWithParam<std::string> {};

TEST_P(GoldenSentencePiece, EncodesAsTheLibraryAndAsItsExport) {
  const auto tokenizer = golden_sentencepiece(GetParam());
  const auto exported = tokenizer_from_json(tokenizer->to_tokenizer_json(), "export");
  const std::string expected = golden_answers().at(GetParam()).at("texts");
  ASSERT_EQ(expected.size(), 8 * golden_texts().size());
  for (size_t n = 0; n < golden_texts().size(); ++n) {
    const Lists ids = {tokenizer->encode(golden_texts()[n], false, false)};
    ASSERT_EQ(hash_ids(ids), hash_at(expected, n)) << GetParam() << " " << n << "\n" << listed(ids);
    EXPECT_EQ(exported->encode(golden_texts()[n], false, false), ids[0]);
    EXPECT_EQ(joined_pieces(*tokenizer, ids[0], false), tokenizer->decode(ids[0], false));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenSentencePiece, testing::ValuesIn(kinds(true)),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace quaver::text
