// Turns a SentencePiece model into the tokenizer.json that encodes alike.
#include <algorithm>

#include "base/base64.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/pipeline_tokenizer.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_document.h"

namespace quaver {
namespace text {
namespace {

const std::string kVisibleSpace = "\u2581";

json normalizer_of(const SentencePieceModel& model) {
  std::vector<json> parts;
  if (!model.charsmap.empty())
    parts.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64_encode(model.charsmap)}});
  if (model.remove_extra_whitespaces) {  // of whitespace, only spaces
    parts.push_back(replace_regex(kOuterSpaces, ""));
    parts.push_back(replace_regex(" {2,}", " "));
  }
  if (model.add_dummy_prefix) parts.push_back({{"type", "Prepend"}, {"prepend", " "}});
  if (model.escape_whitespaces) parts.push_back(replace_text(" ", kVisibleSpace));
  return sequence_of("normalizers", std::move(parts));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~ /").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// SentencePiece never cuts user-defined pieces nor joins them to anything.
json pre_tokenizer_of(const SentencePieceModel& model) {
  std::vector<std::string> texts;
  for (const SentencePiece& piece : model.pieces)
    if (piece.type == PieceType::kUserDefined) texts.push_back(piece.text);
  std::stable_sort(texts.begin(), texts.end(), [](auto& a, auto& b) { return a.size() > b.size(); });
  std::string pattern;
  for (const std::string& text : texts) pattern += cat(pattern.empty() ? "" : "|", escaped(text));
  std::vector<json> parts;
  if (!pattern.empty()) parts.push_back(split_regex(pattern));
  // A byte token that the text spells out is plain text. BPE, which makes pieces of characters alone, can't
  // confuse them.
  if (model.is_unigram && model.byte_fallback) parts.push_back(split_regex("<(?=0x[0-9A-F]{2}>)"));
  return sequence_of("pretokenizers", std::move(parts));
}

json decoder_of(const SentencePieceModel& model) {
  std::vector<json> parts = {replace_text(kVisibleSpace, " ")};
  if (model.byte_fallback) parts.push_back({{"type", "ByteFallback"}});
  parts.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix)
    parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence_of("decoders", std::move(parts));
}

json unigram_of(const SentencePieceModel& model) {
  json vocab = json::array();
  for (const SentencePiece& piece : model.pieces) vocab.push_back({piece.text, piece.score});
  return {{"type", "Unigram"},
          {"unk_id", model.unk_id ? json(*model.unk_id) : json()},
          {"vocab", std::move(vocab)},
          {"byte_fallback", model.byte_fallback}};
}

json bpe_of(const SentencePieceModel& model) {
  json vocab = json::object();
  std::vector<ScoredPiece> mergeable;
  bool user_defined = false;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    vocab[piece.text] = i;
    user_defined |= piece.type == PieceType::kUserDefined;
    if (piece.type == PieceType::kNormal) mergeable.push_back({piece.text, piece.score});
  }
  // The parts that hold one user-defined piece are looked up whole.
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", user_defined},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"unk_token", model.unk_id ? json(model.pieces[static_cast<size_t>(*model.unk_id)].text) : json()},
          {"vocab", std::move(vocab)},
          {"merges", merges_of_scores(mergeable)}};
}

void check_pieces(const SentencePieceModel& model, std::string_view what) {
  for (const SentencePiece& piece : model.pieces)
    require(piece.text.size() <= kMaxAffixBytes, ErrorKind::kBadFile, what, ": a piece has ",
            piece.text.size(), " bytes; the limit is ", kMaxAffixBytes);
}

json document_of(const SentencePieceModel& model, const SentencePieceOptions& options) {
  const auto end_token = [&](std::optional<int32_t> id, bool wanted) -> std::optional<EndToken> {
    if (!id || !wanted) return std::nullopt;
    return EndToken{*id, model.pieces[static_cast<size_t>(*id)].text};
  };
  json added = json::array();
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const PieceType type = model.pieces[i].type;
    if (type == PieceType::kControl || type == PieceType::kUnknown)
      added.push_back(added_token(static_cast<int32_t>(i), model.pieces[i].text, {.special = true}));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", normalizer_of(model)},
          {"pre_tokenizer", pre_tokenizer_of(model)},
          {"post_processor",
           template_around(end_token(model.bos_id, options.add_bos.value_or(!model.is_unigram)),
                           end_token(model.eos_id, options.add_eos.value_or(model.is_unigram)))},
          {"decoder", decoder_of(model)},
          {"model", model.is_unigram ? unigram_of(model) : bpe_of(model)}};
}

}  // namespace
}  // namespace text

std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(std::span<const std::byte> model,
                                                        std::string_view what,
                                                        const SentencePieceOptions& options) {
  const text::SentencePieceModel parsed = text::parse_sentencepiece_model(model, what);
  text::check_pieces(parsed, what);
  auto text = [parsed, options] { return text::document_of(parsed, options).dump(); };
  return text::make_pipeline_tokenizer(text::document_of(parsed, options), std::move(text), what);
}

}  // namespace quaver
