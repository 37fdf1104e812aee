// Remembers the ids of words, since few words make up most of a text.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quaver::text {

// Thread safe; bounded in entries and in the length of a word. Shards keep threads from queueing for one
// lock.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 256;
  static constexpr size_t kEntriesPerShard = 2048;

  // Appends the ids and returns true when the word is known.
  bool find(std::string_view word, std::vector<int32_t>& ids);
  void insert(std::string_view word, const int32_t* ids, size_t count);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words;
  };
  Shard& shard_of(std::string_view word) { return shards_[Hash{}(word) % shards_.size()]; }

  std::array<Shard, 16> shards_;
};

}  // namespace quaver::text
