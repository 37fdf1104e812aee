// A sharded, bounded map from words to ids.
#include "text/tokenizer/word_cache.h"

namespace quaver::text {

bool WordCache::find(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kMaxWordBytes) return false;
  Shard& shard = shard_of(word);
  const std::lock_guard lock(shard.mutex);
  const auto it = shard.words.find(word);
  if (it == shard.words.end()) return false;
  ids.insert(ids.end(), it->second.begin(), it->second.end());
  return true;
}

void WordCache::insert(std::string_view word, const int32_t* ids, size_t count) {
  if (word.size() > kMaxWordBytes) return;
  Shard& shard = shard_of(word);
  const std::lock_guard lock(shard.mutex);
  // Starting over costs less than bookkeeping of use: the frequent words are back at once.
  if (shard.words.size() >= kEntriesPerShard) shard.words.clear();
  shard.words.emplace(word, std::vector<int32_t>(ids, ids + count));
}

}  // namespace quaver::text
