// Greedy longest match from the left.
#include "text/tokenizer/word_piece_model.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"

namespace quaver::text {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : options_(std::move(options)) {
  vocabulary_ = std::move(vocabulary);
  unk_id_ = vocabulary_.find(options_.unk_token);
}

bool WordPieceModel::encode_pieces(std::string_view word, bool allow_special,
                                   std::vector<int32_t>& ids) const {
  std::string piece;
  for (size_t start = 0; start < word.size();) {
    const std::string_view prefix =
        start > 0 ? std::string_view(options_.continuing_subword_prefix) : std::string_view();
    // No piece is longer than the longest token, so a long word costs no more per byte than a short one.
    size_t length = std::min(word.size() - start, vocabulary_.max_token_bytes());
    int32_t found = -1;
    for (; length > 0; --length) {
      const size_t end = start + length;
      if (end < word.size() && (word[end] & 0xC0) == 0x80) continue;
      piece.assign(prefix).append(word.substr(start, length));
      found = vocabulary_.find(piece).value_or(-1);
      if (found >= 0 && (allow_special || !is_special(found))) break;
      found = -1;
    }
    if (found < 0) return false;
    ids.push_back(found);
    start += length;
  }
  return true;
}

void WordPieceModel::encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  const auto characters =
      static_cast<size_t>(std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const size_t before = ids.size();
  if (characters <= options_.max_input_chars_per_word && encode_pieces(word, allow_special, ids)) return;
  ids.resize(before);
  if (!unk_id_)
    fail(ErrorKind::kBadFile, "the text has a word that the tokenizer does not know, and its unknown token '",
         shown(options_.unk_token), "' is not in the vocabulary");
  ids.push_back(*unk_id_);
}

std::unique_ptr<TokenModel> make_word_piece_model(const json& spec, std::string_view what) {
  WordPieceOptions options;
  options.unk_token = json_required<std::string>(spec, "unk_token", what);
  options.continuing_subword_prefix = json_required<std::string>(spec, "continuing_subword_prefix", what);
  options.max_input_chars_per_word = read_count(spec, "max_input_chars_per_word", 100, SIZE_MAX, what);
  return std::make_unique<WordPieceModel>(read_vocabulary(spec, what), std::move(options));
}

}  // namespace quaver::text
