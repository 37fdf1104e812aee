// The two-way map between token spellings and ids.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quaver::text {

// Ids may have holes. Immutable once filled, and thread safe then.
class Vocabulary {
 public:
  // An id past this is taken for a broken file: the largest vocabularies in use have some 260,000 entries.
  static constexpr int64_t kMaxId = (int64_t{1} << 24) - 1;

  // Throws Error(kBadFile) beginning with `what` on an id out of range, an id given twice or a spelling given
  // twice.
  void add(std::string_view token, int64_t id, std::string_view what);

  // As add, but a spelling given again means the later id from then on, as in lists of pieces.
  void assign(std::string_view token, int64_t id, std::string_view what);

  std::optional<int32_t> find(std::string_view token) const;
  // Empty when the id has no token; see contains.
  std::string_view token(int32_t id) const;
  bool contains(int32_t id) const;

  size_t size() const { return storage_.size(); }
  int32_t id_bound() const { return static_cast<int32_t>(by_id_.size()); }  // one past the largest id
  size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  std::string_view store(std::string_view token, int64_t id, std::string_view what);

  std::deque<std::string> storage_;  // never moves its elements
  std::unordered_map<std::string_view, int32_t> ids_;
  std::vector<const std::string*> by_id_;
  size_t max_token_bytes_ = 0;
};

}  // namespace quaver::text
