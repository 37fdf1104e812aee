// What a SentencePiece model file holds, and how it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quaver::text {

enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// The defaults are those of sentencepiece_model.proto.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // the place is the id
  bool is_unigram = true;             // else BPE
  bool byte_fallback = false;
  std::optional<int32_t> unk_id, bos_id, eos_id;
  std::vector<std::byte> charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

// Reads a ModelProto. Throws Error(kBadFile) beginning with `what` when it is cut or contradicts itself, and
// Error(kUnsupported) on models of words or characters.
SentencePieceModel parse_sentencepiece_model(std::span<const std::byte> bytes, std::string_view what);

}  // namespace quaver::text
