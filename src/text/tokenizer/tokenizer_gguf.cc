// Turns the vocabulary inside a GGUF into a tokenizer.json.
#include <algorithm>
#include <cmath>

#include "base/base64.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/gguf_pre_tokenizers.h"
#include "text/tokenizer/pipeline_tokenizer.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/tokenizer_document.h"
#include "text/tokenizer/utf8.h"

namespace quaver {
namespace text {
namespace {

const std::string kVisibleSpace = "\u2581";

PieceType type_of(const GgufVocabulary& vocabulary, size_t id) {
  return vocabulary.types.empty() ? PieceType::kNormal : static_cast<PieceType>(vocabulary.types[id]);
}

void check(const GgufVocabulary& vocabulary, std::string_view what) {
  const size_t count = vocabulary.tokens.size();
  require(count > 0, ErrorKind::kBadFile, what, ": tokenizer.ggml.tokens is empty");
  require(vocabulary.types.empty() || vocabulary.types.size() == count, ErrorKind::kBadFile, what,
          ": tokenizer.ggml.token_type has ", vocabulary.types.size(), " entries for ", count, " tokens");
  require(vocabulary.scores.empty() || vocabulary.scores.size() == count, ErrorKind::kBadFile, what,
          ": tokenizer.ggml.scores has ", vocabulary.scores.size(), " entries for ", count, " tokens");
  for (const float score : vocabulary.scores)
    require(std::isfinite(score), ErrorKind::kBadFile, what,
            ": tokenizer.ggml.scores has a value that is no number");
  for (const std::string& token : vocabulary.tokens)
    require(utf8_valid(token), ErrorKind::kBadFile, what,
            ": tokenizer.ggml.tokens has a token that is not UTF-8");
  for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.unk, vocabulary.pad})
    require(!id || (*id >= 0 && static_cast<size_t>(*id) < count), ErrorKind::kBadFile, what,
            ": a special token's id is ", id.value_or(0), ", but there are ", count, " tokens");
}

json vocab_of(const std::vector<std::string>& tokens, std::string_view what) {
  json vocab = json::object();
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!vocab.emplace(tokens[i], i).second)
      fail(ErrorKind::kBadFile, what, ": token '", shown(tokens[i]),
           "' stands in tokenizer.ggml.tokens twice");
  return vocab;
}

// Control tokens are special; user-defined ones are recognised, but are text. One that holds the visible
// space has to be sought after spaces became visible.
json added_tokens_of(const GgufVocabulary& vocabulary, const std::vector<std::string>& tokens) {
  json added = json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const PieceType type = type_of(vocabulary, i);
    const bool special = type == PieceType::kControl || type == PieceType::kUnknown;
    if (!special && type != PieceType::kUserDefined) continue;
    const bool normalized = !special && tokens[i].find(kVisibleSpace) != std::string::npos;
    added.push_back(
        added_token(static_cast<int32_t>(i), tokens[i], {.special = special, .normalized = normalized}));
  }
  return added;
}

json post_processor_of(const GgufVocabulary& vocabulary, const std::vector<std::string>& tokens) {
  const auto end_token = [&](std::optional<int32_t> id, bool wanted) -> std::optional<EndToken> {
    if (!id || !wanted) return std::nullopt;
    return EndToken{*id, tokens[static_cast<size_t>(*id)]};
  };
  return template_around(end_token(vocabulary.bos, vocabulary.add_bos),
                         end_token(vocabulary.eos, vocabulary.add_eos));
}

struct Spelling {
  const GgufVocabulary& vocabulary;
  std::string_view what;
};

json merges_of(const Spelling& from) {
  json merges = json::array();
  for (const std::string& merge : from.vocabulary.merges) {
    const size_t space = merge.find(' ', 1);  // a merge of spaces would begin with one
    if (space == std::string::npos || !utf8_valid(merge))
      fail(ErrorKind::kBadFile, from.what, ": tokenizer.ggml.merges has '", shown(merge),
           "', expected two tokens and a space");
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return merges;
}

// Byte-level vocabularies spell added tokens as they are, and all others in the byte alphabet; some
// converters leave tokens that were added later in between.
std::string in_byte_alphabet(const std::string& token) {
  for (size_t i = 0; i < token.size();) {
    if (character_to_byte(utf8_next(token, i))) continue;
    std::string out;
    append_byte_level(out, token);
    return out;
  }
  return token;
}

json byte_level_document(const Spelling& from) {
  const GgufVocabulary& vocabulary = from.vocabulary;
  const auto pre = gguf_pre_tokenizer(vocabulary.pre);
  require(pre.has_value(), ErrorKind::kUnsupported, from.what, ": unknown pre-tokenizer '",
          shown(vocabulary.pre), "' (tokenizer.ggml.pre)");
  require(!vocabulary.merges.empty(), ErrorKind::kBadFile, from.what,
          ": a 'gpt2' vocabulary without tokenizer.ggml.merges");
  std::vector<std::string> tokens = vocabulary.tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (type_of(vocabulary, i) == PieceType::kNormal) tokens[i] = in_byte_alphabet(tokens[i]);
  return {{"added_tokens", added_tokens_of(vocabulary, tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre->spec},
          {"post_processor", post_processor_of(vocabulary, tokens)},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", pre->ignore_merges},
            {"vocab", vocab_of(tokens, from.what)},
            {"merges", merges_of(from)}}}};
}

json visible_space_normalizer(const GgufVocabulary& vocabulary) {
  std::vector<json> parts;
  if (!vocabulary.precompiled_charsmap.empty())
    parts.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", base64_encode(vocabulary.precompiled_charsmap)}});
  if (vocabulary.remove_extra_whitespaces) {
    parts.push_back(replace_regex(kOuterSpaces, ""));
    parts.push_back(replace_regex(" {2,}", " "));
  }
  if (vocabulary.add_space_prefix) parts.push_back({{"type", "Prepend"}, {"prepend", " "}});
  parts.push_back(replace_text(" ", kVisibleSpace));
  return sequence_of("normalizers", std::move(parts));
}

json visible_space_decoder(const GgufVocabulary& vocabulary) {
  std::vector<json> parts = {
      replace_text(kVisibleSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (vocabulary.add_space_prefix)
    parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence_of("decoders", std::move(parts));
}

json scored_merges(const Spelling& from) {
  const GgufVocabulary& vocabulary = from.vocabulary;
  if (!vocabulary.merges.empty()) return merges_of(from);
  require(!vocabulary.scores.empty(), ErrorKind::kBadFile, from.what,
          ": the vocabulary has neither merges nor scores");
  std::vector<ScoredPiece> pieces;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (type_of(vocabulary, i) == PieceType::kNormal && !vocabulary.tokens[i].empty())
      pieces.push_back({vocabulary.tokens[i], vocabulary.scores[i]});
  }
  return merges_of_scores(pieces);
}

json sentencepiece_document(const Spelling& from) {
  const GgufVocabulary& vocabulary = from.vocabulary;
  return {{"added_tokens", added_tokens_of(vocabulary, vocabulary.tokens)},
          {"normalizer", visible_space_normalizer(vocabulary)},
          {"pre_tokenizer", nullptr},
          {"post_processor", post_processor_of(vocabulary, vocabulary.tokens)},
          {"decoder", visible_space_decoder(vocabulary)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token",
             vocabulary.unk ? json(vocabulary.tokens[static_cast<size_t>(*vocabulary.unk)]) : json()},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"ignore_merges", false},
            {"vocab", vocab_of(vocabulary.tokens, from.what)},
            {"merges", scored_merges(from)}}}};
}

json unigram_document(const Spelling& from) {
  const GgufVocabulary& vocabulary = from.vocabulary;
  require(!vocabulary.scores.empty(), ErrorKind::kBadFile, from.what,
          ": a 't5' vocabulary without tokenizer.ggml.scores");
  json vocab = json::array();
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    vocab.push_back({vocabulary.tokens[i], vocabulary.scores[i]});
  return {{"added_tokens", added_tokens_of(vocabulary, vocabulary.tokens)},
          {"normalizer", visible_space_normalizer(vocabulary)},
          {"pre_tokenizer", nullptr},
          {"post_processor", post_processor_of(vocabulary, vocabulary.tokens)},
          {"decoder", visible_space_decoder(vocabulary)},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", vocabulary.unk ? json(*vocabulary.unk) : json()},
            {"vocab", std::move(vocab)},
            {"byte_fallback", false}}}};
}

// GGUF marks the beginnings of words where WordPiece marks what continues them.
json word_piece_document(const Spelling& from) {
  const GgufVocabulary& vocabulary = from.vocabulary;
  std::vector<std::string> tokens = vocabulary.tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (type_of(vocabulary, i) != PieceType::kNormal) continue;
    tokens[i] =
        tokens[i].starts_with(kVisibleSpace) ? tokens[i].substr(kVisibleSpace.size()) : cat("##", tokens[i]);
  }
  require(vocabulary.unk.has_value(), ErrorKind::kBadFile, from.what,
          ": a 'bert' vocabulary without tokenizer.ggml.unknown_token_id");
  return {{"added_tokens", added_tokens_of(vocabulary, tokens)},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", post_processor_of(vocabulary, tokens)},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", tokens[static_cast<size_t>(*vocabulary.unk)]},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab_of(tokens, from.what)}}}};
}

struct Row {
  std::string_view model;
  json (*document)(const Spelling&);
};
constexpr Row kTable[] = {
    {"gpt2", byte_level_document}, {"llama", sentencepiece_document}, {"gemma4", sentencepiece_document},
    {"t5", unigram_document},      {"bert", word_piece_document},
};

json document_of(const GgufVocabulary& vocabulary, std::string_view what) {
  for (const Row& row : kTable) {
    if (vocabulary.model != row.model) continue;
    json document = row.document({vocabulary, what});
    document["version"] = "1.0";
    document["truncation"] = nullptr;
    document["padding"] = nullptr;
    return document;
  }
  fail(ErrorKind::kUnsupported, what, ": unknown tokenizer '", shown(vocabulary.model),
       "' (tokenizer.ggml.model)");
}

}  // namespace
}  // namespace text

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufVocabulary& vocabulary, std::string_view what) {
  text::check(vocabulary, what);
  auto text = [vocabulary] { return text::document_of(vocabulary, "the vocabulary").dump(); };
  return text::make_pipeline_tokenizer(text::document_of(vocabulary, what), std::move(text), what);
}

}  // namespace quaver
