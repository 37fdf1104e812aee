// The heap of candidates finds the same merges as looking through the whole word each time.
#include "text/tokenizer/bpe_model.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>

namespace quaver::text {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

struct RandomModel {
  std::vector<std::string> tokens = {"a", "b", "c"};
  Merges merges;
  explicit RandomModel(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 40; ++i) {
      const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 8 ||
          std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end())
        continue;
      merges.emplace_back(left, right);
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end())
        tokens.push_back(left + right);
    }
  }
  BpeModel model() const {
    Vocabulary vocabulary;
    for (size_t i = 0; i < tokens.size(); ++i) vocabulary.add(tokens[i], static_cast<int64_t>(i), "test");
    return BpeModel(std::move(vocabulary), merges, {}, "test");
  }
  // Joins the leftmost pair of the earliest rank, until there is none.
  std::vector<std::string> plainly(const std::string& word) const {
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    for (size_t i = 0; i < merges.size(); ++i) ranks[merges[i]] = i;
    while (true) {
      size_t best = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto it = ranks.find({symbols[i], symbols[i + 1]});
        if (it != ranks.end() && it->second < best) best = it->second, at = i;
      }
      if (best == merges.size()) return symbols;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
  }
};

TEST(BpeModel, MergesAsThePlainAlgorithm) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomModel random(seed);
    const BpeModel model = random.model();
    std::mt19937_64 letters(seed);
    for (int n = 0; n < 50; ++n) {
      std::string word;
      for (size_t i = 0, length = letters() % 40; i < length; ++i) word += "abc"[letters() % 3];
      std::vector<int32_t> ids;
      model.encode(word, true, ids);
      std::vector<std::string> tokens;
      for (const int32_t id : ids) tokens.emplace_back(model.vocabulary().token(id));
      EXPECT_EQ(tokens, random.plainly(word)) << "seed " << seed << " word " << word;
    }
  }
}

std::chrono::duration<double> time_to_encode(const BpeModel& model, size_t bytes) {
  std::string word;
  std::mt19937_64 letters(7);
  for (size_t i = 0; i < bytes; ++i) word += "abc"[letters() % 3];
  std::vector<int32_t> ids;
  const auto start = std::chrono::steady_clock::now();
  model.encode(word, true, ids);
  return std::chrono::steady_clock::now() - start;
}

TEST(BpeModel, AWordOfAMegabyteIsNotQuadratic) {
  const BpeModel model = RandomModel(3).model();
  const auto small = time_to_encode(model, 1 << 16), large = time_to_encode(model, 1 << 20);
  // 16 times the length: some 20 times the work with a heap, 256 times without.
  EXPECT_LT(large, 100 * small + std::chrono::duration<double>(0.5));
}

TEST(BpeModel, UnknownCharactersCountOneByOneOrTogether) {
  for (const bool fuse : {false, true}) {
    Vocabulary vocabulary;
    vocabulary.add("?", 0, "test");
    vocabulary.add("a", 1, "test");
    const BpeModel model(std::move(vocabulary), {}, {.unk_token = "?", .fuse_unk = fuse}, "test");
    std::vector<int32_t> ids;
    model.encode("xyaz", true, ids);
    EXPECT_EQ(ids, fuse ? (std::vector<int32_t>{0, 1, 0}) : (std::vector<int32_t>{0, 0, 1, 0}));
  }
}

}  // namespace
}  // namespace quaver::text
