// Byte pair encoding with a heap of candidate merges over a linked list of symbols.
#include "text/tokenizer/bpe_model.h"

#include <queue>

#include "base/error.h"
#include "text/tokenizer/byte_tokens.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {

BpeModel::BpeModel(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
                   BpeOptions options, std::string_view what)
    : options_(std::move(options)) {
  vocabulary_ = std::move(vocabulary);
  merges_.reserve(merges.size());
  int32_t rank = 0;
  for (const auto& [left, right] : merges) add_merge(left, right, rank++, what);
  if (options_.unk_token) unk_id_ = vocabulary_.find(*options_.unk_token);
  if (options_.byte_fallback) byte_ids_ = byte_token_ids(vocabulary_);
}

void BpeModel::add_merge(std::string_view left, std::string_view right, int32_t rank, std::string_view what) {
  const auto id_of = [&](std::string_view token) {
    const auto id = vocabulary_.find(token);
    if (!id)
      fail(ErrorKind::kBadFile, what, ": merge ", rank, " ('", shown(left), "', '", shown(right),
           "') needs the token '", shown(token), "', which the vocabulary lacks");
    return *id;
  };
  const int32_t left_id = id_of(left), right_id = id_of(right);
  std::string_view tail = right;
  if (options_.continuing_subword_prefix) {
    if (!tail.starts_with(*options_.continuing_subword_prefix))
      fail(ErrorKind::kBadFile, what, ": the right part of merge ", rank, ", '", shown(right),
           "', does not begin with the prefix '", shown(*options_.continuing_subword_prefix), "'");
    tail.remove_prefix(options_.continuing_subword_prefix->size());
  }
  const int32_t merged = id_of(std::string(left) + std::string(tail));
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left_id)) << 32 | static_cast<uint32_t>(right_id);
  merges_.insert_or_assign(key, {rank, merged});
}

void BpeModel::encode(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    const auto id = vocabulary_.find(word);
    if (id && (allow_special || !is_special(*id))) return ids.push_back(*id);
  }
  WordCache& cache = caches_[allow_special];
  if (cache.find(word, ids)) return;
  const size_t before = ids.size();
  merge_word(word, allow_special, ids);
  cache.insert(word, ids.data() + before, ids.size() - before);
}

void BpeModel::merge_word(std::string_view word, bool allow_special, std::vector<int32_t>& ids) const {
  require(word.size() < size_t{1} << 30, ErrorKind::kInvalidInput, "a word of ", word.size(),
          " bytes is too long to tokenize");
  std::vector<Symbol> symbols = initial_symbols(word);
  merge_all(symbols, allow_special);
  for (const Symbol& symbol : symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

bool BpeModel::append_byte_tokens(std::string_view character, std::vector<Symbol>& symbols) const {
  if (byte_ids_.empty()) return false;
  for (const char byte : character)
    if (byte_ids_[static_cast<uint8_t>(byte)] < 0) return false;
  for (const char byte : character) symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)], 0, 0});
  return true;
}

std::vector<BpeModel::Symbol> BpeModel::initial_symbols(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  bool pending_unk = false;  // unknown characters wait for the next known one, so that they can be fused
  std::string affixed;
  for (size_t i = 0; i < word.size();) {
    const size_t length = utf8_length(word[i]);
    std::string_view character = word.substr(i, length);
    const bool first = i == 0, last = i + length == word.size();
    i += length;
    const bool prefixed = !first && options_.continuing_subword_prefix,
               suffixed = last && options_.end_of_word_suffix;
    if (prefixed || suffixed) {
      affixed = prefixed ? *options_.continuing_subword_prefix : "";
      affixed += character;
      if (suffixed) affixed += *options_.end_of_word_suffix;
      character = affixed;
    }
    if (const auto id = vocabulary_.find(character)) {
      if (pending_unk) symbols.push_back({*unk_id_, 0, 0});
      pending_unk = false;
      symbols.push_back({*id, 0, 0});
    } else if (!append_byte_tokens(character, symbols) && options_.unk_token) {
      if (!unk_id_)
        fail(ErrorKind::kBadFile,
             "the text has a character that the tokenizer does not know, and its unknown token '",
             shown(*options_.unk_token), "' is not in the vocabulary");
      if (pending_unk && !options_.fuse_unk) symbols.push_back({*unk_id_, 0, 0});
      pending_unk = true;
    }
  }
  if (pending_unk) symbols.push_back({*unk_id_, 0, 0});
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  return symbols;
}

void BpeModel::merge_all(std::vector<Symbol>& symbols, bool allow_special) const {
  const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::vector<Candidate> storage;
  storage.reserve(symbols.size());
  std::priority_queue<Candidate> queue({}, std::move(storage));
  const auto consider = [&](int32_t position) {
    if (position < 0 || at(position).next < 0) return;
    const Merge* merge = find_merge(at(position).id, at(at(position).next).id);
    if (merge && (allow_special || !is_special(merge->id))) queue.push({merge->rank, position, merge->id});
  };
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = at(top.position);
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = at(left.next);
    const Merge* merge = find_merge(left.id, right.id);
    if (!merge || merge->id != top.id) continue;  // one of the two has changed since
    left.id = merge->id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).previous = top.position;
    consider(left.previous);
    consider(top.position);
  }
}

namespace {

std::pair<std::string, std::string> read_merge(const json& merge, size_t index, std::string_view what) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  require(merge.is_string(), ErrorKind::kBadFile, what, ": merge ", index,
          " is neither a text nor a pair of texts");
  const auto& line = merge.get_ref<const std::string&>();
  const size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
    fail(ErrorKind::kBadFile, what, ": merge ", index, ", '", shown(line),
         "', is not two tokens and a space");
  return {line.substr(0, space), line.substr(space + 1)};
}

std::vector<std::pair<std::string, std::string>> read_merges(const json& spec, std::string_view what) {
  const auto it = spec.find("merges");
  require(it != spec.end() && it->is_array(), ErrorKind::kBadFile, what, ": the model has no list 'merges'");
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(it->size());
  for (const json& merge : *it) {
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    merges.push_back(read_merge(merge, merges.size(), what));
  }
  return merges;
}

}  // namespace

std::unique_ptr<TokenModel> make_bpe_model(const json& spec, std::string_view what) {
  BpeOptions options;
  options.unk_token = optional_text(spec, "unk_token", what);
  options.continuing_subword_prefix = optional_text(spec, "continuing_subword_prefix", what);
  options.end_of_word_suffix = optional_text(spec, "end_of_word_suffix", what);
  options.fuse_unk = json_value(spec, "fuse_unk", false, what);
  options.byte_fallback = json_value(spec, "byte_fallback", false, what);
  options.ignore_merges = json_value(spec, "ignore_merges", false, what);
  const double dropout = json_value(spec, "dropout", 0.0, what);
  require(dropout == 0.0, ErrorKind::kUnsupported, what, ": dropout is ", dropout,
          ", which makes tokenization random; set it to null");
  return std::make_unique<BpeModel>(read_vocabulary(spec, what), read_merges(spec, what), std::move(options),
                                    what);
}

}  // namespace quaver::text
