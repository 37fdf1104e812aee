// Viterbi search over the pieces of a unigram model.
#include "text/tokenizer/unigram_model.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/tokenizer/byte_tokens.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// How much less probable than the rarest piece an unknown character is (SentencePiece's kUnkPenalty).
constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(const std::vector<UnigramPiece>& pieces, std::optional<int64_t> unk_id,
                           bool byte_fallback, std::string_view what) {
  require(!pieces.empty(), ErrorKind::kBadFile, what, ": the vocabulary is empty");
  require(!unk_id || (*unk_id >= 0 && *unk_id < static_cast<int64_t>(pieces.size())), ErrorKind::kBadFile,
          what, ": unk_id is ", unk_id.value_or(0), ", but there are ", pieces.size(), " pieces");
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < pieces.size(); ++i) {
    require(pieces[i].text.size() <= kMaxAffixBytes, ErrorKind::kBadFile, what, ": piece ", i, " has ",
            pieces[i].text.size(), " bytes; the limit is ", kMaxAffixBytes);
    vocabulary_.assign(pieces[i].text, static_cast<int64_t>(i), what);
    scores_.push_back(pieces[i].score);
    lowest = std::min(lowest, pieces[i].score);
    add_to_trie(pieces[i].text, static_cast<int32_t>(i));
  }
  unk_score_ = lowest - kUnknownPenalty;
  if (unk_id) unk_id_ = static_cast<int32_t>(*unk_id);
  if (byte_fallback) byte_ids_ = byte_token_ids(vocabulary_);
}

void UnigramModel::add_to_trie(std::string_view text, int32_t id) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
    if (const uint32_t* child = children_.find(key)) {
      node = *child;
      continue;
    }
    children_.insert_or_assign(key, static_cast<uint32_t>(piece_at_.size()));
    node = static_cast<uint32_t>(piece_at_.size());
    piece_at_.push_back(-1);
  }
  piece_at_[node] = id;
}

std::vector<UnigramModel::Best> UnigramModel::best_paths(std::string_view word, bool allow_special) const {
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t start, size_t end, double score, int32_t id) {
    if (best[end].id < 0 || score > best[end].score) best[end] = {score, id, static_cast<uint32_t>(start)};
  };
  for (size_t start = 0; start < word.size();) {
    const size_t length = utf8_length(word[start]);
    const double so_far = best[start].score;
    bool has_single = false;
    uint32_t node = 0;
    for (size_t i = start; i < word.size(); ++i) {
      const uint32_t* child =
          children_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(word[i]));
      if (!child) break;
      node = *child;
      const int32_t id = piece_at_[node];
      if (id < 0 || (!allow_special && is_special(id))) continue;
      offer(start, i + 1, scores_[static_cast<size_t>(id)] + so_far, id);
      has_single |= i + 1 - start == length;
    }
    if (!has_single) {
      require(unk_id_.has_value(), ErrorKind::kBadFile,
              "the text has a character that the tokenizer does not know, and it has no unknown token");
      offer(start, start + length, unk_score_ + so_far, *unk_id_);
    }
    start += length;
  }
  return best;
}

void UnigramModel::append_piece(std::string_view piece, int32_t id, std::vector<int32_t>& ids) const {
  if (id != unk_id_) return ids.push_back(id);
  // A run of unknown characters may spell a piece that lost on score.
  if (const auto known = vocabulary_.find(piece); known && !is_special(*known)) return ids.push_back(*known);
  const auto known_byte = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; };
  if (!byte_ids_.empty() && std::all_of(piece.begin(), piece.end(), known_byte)) {
    for (const char byte : piece) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  } else {
    ids.push_back(*unk_id_);
  }
}

void UnigramModel::segment(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  require(word.size() < size_t{1} << 31, ErrorKind::kInvalidInput, "a word of ", word.size(),
          " bytes is too long to tokenize");
  const std::vector<Best> best = best_paths(word, allow_special);
  std::vector<std::pair<size_t, size_t>> pieces;  // from the last to the first; unknown neighbours are one
  std::vector<int32_t> piece_ids;
  for (size_t end = word.size(); end > 0; end = best[end].start) {
    const int32_t id = best[end].id;
    if (!pieces.empty() && id == unk_id_ && piece_ids.back() == unk_id_) {
      pieces.back().first = best[end].start;
    } else {
      pieces.emplace_back(best[end].start, end);
      piece_ids.push_back(id);
    }
  }
  for (size_t i = pieces.size(); i-- > 0;)
    append_piece(word.substr(pieces[i].first, pieces[i].second - pieces[i].first), piece_ids[i], ids);
}

void UnigramModel::encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  WordCache& cache = caches_[allow_special];
  if (cache.find(word, ids)) return;
  const size_t before = ids.size();
  segment(word, allow_special, ids);
  cache.insert(word, ids.data() + before, ids.size() - before);
}

std::unique_ptr<TokenModel> make_unigram_model(const json& spec, std::string_view what) {
  const auto vocab = spec.find("vocab");
  require(vocab != spec.end() && vocab->is_array(), ErrorKind::kBadFile, what,
          ": the model has no list 'vocab'");
  std::vector<UnigramPiece> pieces;
  pieces.reserve(vocab->size());
  for (const json& entry : *vocab) {
    require(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number(),
            ErrorKind::kBadFile, what, ": piece ", pieces.size(), " is not a pair of a text and a score");
    pieces.push_back({entry[0].get<std::string>(), entry[1].get<double>()});
  }
  std::optional<int64_t> unk_id;
  if (const auto it = spec.find("unk_id"); it != spec.end() && !it->is_null())
    unk_id = static_cast<int64_t>(read_count(spec, "unk_id", 0, Vocabulary::kMaxId, what));
  return std::make_unique<UnigramModel>(pieces, unk_id, json_value(spec, "byte_fallback", false, what), what);
}

}  // namespace quaver::text
