// Text that spells special tokens stays text where it must, and many threads may share a tokenizer.
#include <gtest/gtest.h>

#include <thread>

#include "text/tokenizer/fixtures.h"

namespace quaver::text {
namespace {

TEST(SpecialTokens, F098NeverComeFromPlainText) {
  for (const auto& [kind, answers] : golden_answers().items()) {
    const auto tokenizer = kind.starts_with("sp_") ? golden_sentencepiece(kind) : golden_tokenizer(kind);
    std::vector<bool> unknown(static_cast<size_t>(tokenizer->vocab_size()));
    for (const char* name : {"<unk>", "[UNK]", "<|endoftext|>"})  // the last is CLIP's unknown token
      if (const auto id = tokenizer->token_id(name)) unknown[static_cast<size_t>(*id)] = true;
    for (const char* text : {"<s> </s>", "[CLS][SEP][MASK]", "<|im_start|>x<|im_end|>", "<|begin_of_text|>",
                             "<pad>", "<bos>", " <mask> "}) {
      for (const int32_t id : tokenizer->encode(text, false, false))
        EXPECT_FALSE(tokenizer->is_special(id) && !unknown[static_cast<size_t>(id)])
            << kind << " " << text << " " << id;
    }
  }
}

TEST(SpecialTokens, AMergeMakesOneOnlyWhereThatIsAllowed) {
  const json model = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"x", 2}, {"ab", 3}}}, {"merges", {"a b"}}};
  const json token = {{"id", 3}, {"content", "ab"}, {"special", true}, {"single_word", true}};
  const auto tokenizer =
      tokenizer_from_json(minimal_document({{"model", model}, {"added_tokens", {token}}}).dump(), "t");
  for (int again = 0; again < 2; ++again) {  // the second time from the cache
    EXPECT_EQ(tokenizer->encode("xab", false, true), (std::vector<int32_t>{2, 3}));
    EXPECT_EQ(tokenizer->encode("xab", false, false), (std::vector<int32_t>{2, 0, 1}));
  }
}

TEST(SpecialTokens, AreFoundWhereTheyAreMeant) {
  const auto tokenizer = golden_tokenizer("qwen2");
  const auto start = tokenizer->token_id("<|im_start|>");
  ASSERT_TRUE(start);
  EXPECT_EQ(tokenizer->encode("<|im_start|>", false), std::vector<int32_t>{*start});
  EXPECT_EQ(tokenizer->token_text(*start), "<|im_start|>");
  EXPECT_TRUE(tokenizer->is_special(*start));
  EXPECT_FALSE(tokenizer->token_id("<|no such token|>"));
}

TEST(SharedTokenizer, ManyThreadsGetTheSameAnswers) {
  for (const char* kind : {"llama3", "xlmr", "bert"}) {
    const auto tokenizer = golden_tokenizer(kind);
    std::vector<std::vector<std::vector<int32_t>>> answers(4);
    std::vector<std::thread> threads;
    for (auto& answer : answers) {
      threads.emplace_back([&] {
        for (size_t n = 0; n < golden_texts().size(); n += 7)
          answer.push_back(tokenizer->encode(golden_texts()[n], true));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]) << kind;
  }
}

}  // namespace
}  // namespace quaver::text
