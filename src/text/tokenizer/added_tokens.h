// The tokens that are recognised in the text before the model sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/token_model.h"

namespace quaver::text {

struct AddedToken {
  std::string content;
  std::string normal;  // what it looks like in normalized text; `content` when it isn't normalized
  int32_t id = -1;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

// A stretch of text, with the token that stands there or none.
struct TokenMatch {
  const AddedToken* token;  // owned by the AddedTokens
  size_t begin, end;
};

// Finds the longest token at the leftmost position.
class TokenTrie {
 public:
  void add(std::string_view text, size_t index, std::string_view what);
  // The longest entry that `text` has at `position`: its index and length; length 0 when there is none.
  std::pair<size_t, size_t> longest_at(std::string_view text, size_t position) const;
  bool empty() const { return nodes_ == 1; }

 private:
  FlatMap<uint32_t> children_;      // node << 8 | byte
  std::vector<int64_t> entry_{-1};  // by node
  uint32_t nodes_ = 1;
};

// Immutable and thread safe.
class AddedTokens {
 public:
  // From the list "added_tokens"; `normalizer` may be null. Throws Error(kBadFile) beginning with `what` when
  // an id is not the one that the `tokenizers` library would give the token.
  AddedTokens(const json& list, const TokenModel& model, const Normalizer* normalizer, std::string_view what);

  // Cuts text, normalized or not as said, at the tokens that are sought in such text. Covers all of it.
  std::vector<TokenMatch> find(std::string_view text, bool normalized, bool parse_special) const;

  const AddedToken* by_id(int32_t id) const;
  std::optional<int32_t> find_id(std::string_view content) const;
  // By its spelling, as the reference asks.
  bool is_special_text(std::string_view text) const;
  int32_t id_bound() const { return id_bound_; }  // one past the largest id; 0 without tokens
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  TokenTrie tries_[2];  // for text as given and for normalized text
  int32_t id_bound_ = 0;
};

}  // namespace quaver::text
