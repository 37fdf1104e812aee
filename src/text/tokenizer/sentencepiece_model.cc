// Reads sentencepiece_model.proto's ModelProto.
#include "text/tokenizer/sentencepiece_model.h"

#include <cmath>

#include "base/error.h"
#include "text/tokenizer/protobuf_reader.h"
#include "text/tokenizer/utf8.h"
#include "text/tokenizer/vocabulary.h"

namespace quaver::text {
namespace {

constexpr uint64_t kUnigram = 1, kBpe = 2;

SentencePiece read_piece(std::span<const std::byte> message, std::string_view what) {
  SentencePiece piece;
  for (ProtobufReader reader(message, what); reader.next();) {
    if (reader.field() == 1) piece.text = reader.text();
    if (reader.field() == 2) piece.score = reader.float32();
    if (reader.field() == 3) {
      require(reader.varint() >= 1 && reader.varint() <= 6, ErrorKind::kBadFile, what, ": a piece has type ",
              reader.varint());
      piece.type = static_cast<PieceType>(reader.varint());
    }
  }
  require(!piece.text.empty() && utf8_valid(piece.text), ErrorKind::kBadFile, what,
          ": a piece is empty or not UTF-8");
  require(std::isfinite(piece.score), ErrorKind::kBadFile, what, ": the score of a piece is not a number");
  return piece;
}

// An int32 that protobuf sign-extends to 64 bits; -1 says that there is no such token.
std::optional<int32_t> read_id(const ProtobufReader& reader) {
  const auto id = static_cast<int64_t>(reader.varint());
  if (id < 0 || id > Vocabulary::kMaxId) return std::nullopt;
  return static_cast<int32_t>(id);
}

void read_trainer_spec(std::span<const std::byte> message, SentencePieceModel& model, std::string_view what) {
  for (ProtobufReader reader(message, what); reader.next();) {
    const uint32_t field = reader.field();
    if (field == 3) {
      require(reader.varint() == kUnigram || reader.varint() == kBpe, ErrorKind::kUnsupported, what,
              ": model type ", reader.varint(), ", expected 1 (unigram) or 2 (BPE)");
      model.is_unigram = reader.varint() == kUnigram;
    }
    if (field == 24)
      require(reader.varint() == 0, ErrorKind::kUnsupported, what,
              ": whitespace as a suffix (treat_whitespace_as_suffix)");
    if (field == 35) model.byte_fallback = reader.varint() != 0;
    if (field == 40) model.unk_id = read_id(reader);
    if (field == 41) model.bos_id = read_id(reader);
    if (field == 42) model.eos_id = read_id(reader);
  }
}

void read_normalizer_spec(std::span<const std::byte> message, SentencePieceModel& model,
                          std::string_view what) {
  for (ProtobufReader reader(message, what); reader.next();) {
    const uint32_t field = reader.field();
    if (field == 2) model.charsmap.assign(reader.bytes().begin(), reader.bytes().end());
    if (field == 3) model.add_dummy_prefix = reader.varint() != 0;
    if (field == 4) model.remove_extra_whitespaces = reader.varint() != 0;
    if (field == 5) model.escape_whitespaces = reader.varint() != 0;
  }
}

void check_ids(const SentencePieceModel& model, std::string_view what) {
  const auto count = static_cast<int64_t>(model.pieces.size());
  require(count > 0, ErrorKind::kBadFile, what, ": the vocabulary is empty");
  require(count <= Vocabulary::kMaxId, ErrorKind::kBadFile, what, ": ", count, " pieces are too many");
  for (const auto& id : {model.unk_id, model.bos_id, model.eos_id})
    require(!id || *id < count, ErrorKind::kBadFile, what, ": a special id is ", id.value_or(0),
            ", but there are ", count, " pieces");
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::span<const std::byte> bytes, std::string_view what) {
  SentencePieceModel model;
  model.unk_id = 0;
  model.bos_id = 1;
  model.eos_id = 2;
  for (ProtobufReader reader(bytes, what); reader.next();) {
    if (reader.field() == 1) model.pieces.push_back(read_piece(reader.bytes(), what));
    if (reader.field() == 2) read_trainer_spec(reader.bytes(), model, what);
    if (reader.field() == 3) read_normalizer_spec(reader.bytes(), model, what);
  }
  // The piece that is marked unknown counts, whatever the specification of the training says.
  for (size_t i = 0; i < model.pieces.size(); ++i)
    if (model.pieces[i].type == PieceType::kUnknown) model.unk_id = static_cast<int32_t>(i);
  check_ids(model, what);
  return model;
}

}  // namespace quaver::text
