// Thousands of damaged tokenizer.json files and SentencePiece models.
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "hostile/mutate.h"
#include "text/tokenizer.h"

namespace quaver {
namespace {

std::string file(std::string_view name) {
  return read_text_file(cat(QUAVER_TEST_DATA, "/golden/text/tokenizers/", name), size_t{1} << 20);
}

// Enough to reach every component.
constexpr const char* kText = "It's 7:45, h\u00e9 \U0001F600 <s> newtok";

TEST(MutatedTokenizers, Documents) {
  testing::MutationRun run{.originals = {file("qwen2.json"), file("llama2.json"), file("bert_cased.json"),
                                         file("xlmr.json"), file("clip.json"), file("split_contiguous.json")},
                           .count = 8000,
                           .seed = 21,
                           .fixed_bytes = size_t{24} << 20,
                           .bytes_per_byte = 200,
                           .time_limit = std::chrono::seconds(20)};
  const int accepted = testing::run_mutations(run, [](std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto tokenizer = tokenizer_from_json(text, "t.json");
    tokenizer->decode(tokenizer->encode(kText, true), true);
  });
  EXPECT_GT(accepted, 100) << "the damage is too coarse to get past the parser";
}

TEST(MutatedTokenizers, SentencePieceModels) {
  testing::MutationRun run{.originals = {file("sp_bpe_symbols.model"), file("sp_unigram.model")},
                           .count = 8000,
                           .seed = 22,
                           .fixed_bytes = size_t{24} << 20,
                           .bytes_per_byte = 200,
                           .time_limit = std::chrono::seconds(20)};
  const int accepted = testing::run_mutations(run, [](std::span<const std::byte> bytes) {
    const auto tokenizer = tokenizer_from_sentencepiece(bytes, "t.model");
    tokenizer->decode(tokenizer->encode(kText, true), true);
  });
  EXPECT_GT(accepted, 100) << "the damage is too coarse to get past the parser";
}

}  // namespace
}  // namespace quaver
