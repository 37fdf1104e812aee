// Spellings to ids and back.
#include "text/tokenizer/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/shown.h"

namespace quaver::text {

std::string_view Vocabulary::store(std::string_view token, int64_t id, std::string_view what) {
  if (id < 0 || id > kMaxId)
    fail(ErrorKind::kBadFile, what, ": token '", shown(token), "' has id ", id, ", expected 0 to ", kMaxId);
  if (static_cast<size_t>(id) >= by_id_.size()) by_id_.resize(static_cast<size_t>(id) + 1, nullptr);
  const std::string*& slot = by_id_[static_cast<size_t>(id)];
  if (slot != nullptr)
    fail(ErrorKind::kBadFile, what, ": id ", id, " is given to '", shown(*slot), "' and to '", shown(token),
         "'");
  slot = &storage_.emplace_back(token);
  max_token_bytes_ = std::max(max_token_bytes_, token.size());
  return *slot;
}

void Vocabulary::add(std::string_view token, int64_t id, std::string_view what) {
  const std::string_view stored = store(token, id, what);
  if (!ids_.emplace(stored, static_cast<int32_t>(id)).second)
    fail(ErrorKind::kBadFile, what, ": token '", shown(token), "' stands in the vocabulary twice");
}

void Vocabulary::assign(std::string_view token, int64_t id, std::string_view what) {
  ids_[store(token, id, what)] = static_cast<int32_t>(id);
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

bool Vocabulary::contains(int32_t id) const {
  return id >= 0 && id < id_bound() && by_id_[static_cast<size_t>(id)] != nullptr;
}

std::string_view Vocabulary::token(int32_t id) const {
  return contains(id) ? std::string_view(*by_id_[static_cast<size_t>(id)]) : std::string_view();
}

}  // namespace quaver::text
