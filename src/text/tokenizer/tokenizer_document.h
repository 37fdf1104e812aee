// Writes the parts of a tokenizer.json, for vocabularies that come in other formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace quaver::text {

struct AddedTokenFlags {
  bool special = true;
  bool normalized = false;
};
json added_token(int32_t id, const std::string& content, AddedTokenFlags flags);

// One component, or a "Sequence" of several; null for none. `key` is "normalizers", "pretokenizers",
// "decoders".
json sequence_of(const char* key, std::vector<json> parts);

json replace_text(const std::string& text, const std::string& content);
json replace_regex(const std::string& pattern, const std::string& content);
json split_regex(const std::string& pattern);  // each match and each gap is a part

struct EndToken {
  int32_t id;
  std::string text;
};
// The template that puts one token before and one after the text, either of them optional.
json template_around(const std::optional<EndToken>& before, const std::optional<EndToken>& after);

// Spaces that SentencePiece removes (remove_extra_whitespaces): of all whitespace only these, and at the end
// also those that the text spells visibly.
inline const std::string kOuterSpaces = "\\A +|[ \u2581]+\\z";

using Merge = std::pair<std::string, std::string>;
struct ScoredPiece {
  std::string text;
  double score;
};
// The merges that a vocabulary of scored pieces implies: every way to cut a piece in two that are pieces as
// well, best score first. `pieces` in the order of their ids; those that must not be merged left out.
std::vector<Merge> merges_of_scores(const std::vector<ScoredPiece>& pieces);

}  // namespace quaver::text
