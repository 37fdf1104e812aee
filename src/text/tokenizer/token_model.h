// What turns one pre-tokenized word into ids: the interface of BPE, Unigram, WordPiece and WordLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/vocabulary.h"

namespace quaver::text {

// Immutable and thread safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of `word`, which is valid UTF-8. Without `allow_special` no special token but the unknown
  // one comes out, whatever the word spells. Throws Error(kBadFile) when the word has unknown parts and the
  // model no unknown token.
  virtual void encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const = 0;

  // Before the model is shared.
  void set_special(std::vector<bool> special) { special_ = std::move(special); }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  bool is_special(int32_t id) const {
    return static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
  }
  Vocabulary vocabulary_;

 private:
  std::vector<bool> special_;  // by id
};

// From the "model" object of a tokenizer.json. Errors are Error(kBadFile) beginning with `what`.
std::unique_ptr<TokenModel> make_token_model(const json& spec, std::string_view what);

}  // namespace quaver::text
