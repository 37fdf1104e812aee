// Pieces of tokenizer.json documents.
#include "text/tokenizer/tokenizer_document.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "text/tokenizer/utf8.h"

namespace quaver::text {

json added_token(int32_t id, const std::string& content, AddedTokenFlags flags) {
  return {{"id", id},        {"content", content},       {"single_word", false},          {"lstrip", false},
          {"rstrip", false}, {"special", flags.special}, {"normalized", flags.normalized}};
}

json sequence_of(const char* key, std::vector<json> parts) {
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return parts[0];
  return {{"type", "Sequence"}, {key, std::move(parts)}};
}

json replace_text(const std::string& text, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", content}};
}

json replace_regex(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}

json split_regex(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json template_around(const std::optional<EndToken>& before, const std::optional<EndToken>& after) {
  json single = json::array(), tokens = json::object();
  const auto add = [&](const std::optional<EndToken>& token) {
    if (!token) return;
    single.push_back({{"SpecialToken", {{"id", token->text}, {"type_id", 0}}}});
    tokens[token->text] = {{"id", token->text}, {"ids", {token->id}}, {"tokens", {token->text}}};
  };
  add(before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(after);
  json pair = single;
  for (json piece : single) {
    if (piece.contains("Sequence")) piece["Sequence"]["id"] = "B";
    pair.push_back(std::move(piece));
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

std::vector<Merge> merges_of_scores(const std::vector<ScoredPiece>& pieces) {
  std::unordered_set<std::string_view> known;
  for (const ScoredPiece& piece : pieces) known.insert(piece.text);
  struct Cut {
    size_t piece, bytes;  // the index, and where it is cut
  };
  std::vector<Cut> cuts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = pieces[i].text;
    for (size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at]))
      if (known.contains(text.substr(0, at)) && known.contains(text.substr(at))) cuts.push_back({i, at});
  }
  std::stable_sort(cuts.begin(), cuts.end(),
                   [&](const Cut& a, const Cut& b) { return pieces[a.piece].score > pieces[b.piece].score; });
  std::vector<Merge> merges;
  merges.reserve(cuts.size());
  for (const Cut& cut : cuts)
    merges.emplace_back(pieces[cut.piece].text.substr(0, cut.bytes),
                        pieces[cut.piece].text.substr(cut.bytes));
  return merges;
}

}  // namespace quaver::text
