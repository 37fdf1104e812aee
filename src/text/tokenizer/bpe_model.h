// Byte pair encoding: repeatedly joins the neighbours whose pair stands earliest in the list of merges.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/word_cache.h"

namespace quaver::text {

struct BpeOptions {
  std::optional<std::string> unk_token, continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class BpeModel : public TokenModel {
 public:
  // Throws Error(kBadFile) beginning with `what` when a merge names a token that is absent or makes one.
  BpeModel(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
           BpeOptions options, std::string_view what);
  void encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const override;

 private:
  struct Merge {
    int32_t rank, id;
  };
  struct Symbol {
    int32_t id, previous, next;  // a removed symbol has id -1
  };
  struct Candidate {
    int32_t rank, position, id;
    bool operator<(const Candidate& other) const {  // the heap's top is the earliest rank, then the leftmost
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  void add_merge(std::string_view left, std::string_view right, int32_t rank, std::string_view what);
  std::vector<Symbol> initial_symbols(std::string_view word) const;
  bool append_byte_tokens(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge_all(std::vector<Symbol>& symbols, bool allow_special) const;
  void merge_word(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const;
  const Merge* find_merge(int32_t left, int32_t right) const {
    return merges_.find(static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
                        static_cast<uint32_t>(right));
  }

  BpeOptions options_;
  FlatMap<Merge> merges_;
  std::optional<int32_t> unk_id_;
  std::vector<int32_t> byte_ids_;            // of <0x00> to <0xFF>, -1 where absent
  mutable std::array<WordCache, 2> caches_;  // without and with special tokens
};

// From the "model" object of a tokenizer.json.
std::unique_ptr<TokenModel> make_bpe_model(const json& spec, std::string_view what);

}  // namespace quaver::text
