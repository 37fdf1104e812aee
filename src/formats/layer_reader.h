// One layer's tensors, read by the ends of their names, with the checks that several vendors' readers share.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace quaver {

// A part that some versions of a tool write under another name.
struct PartAlias {
  std::string_view part, alias;
};

// Borrows plan, checkpoint and aliases. Everything throws Error(kBadFile) naming file and tensor.
class LayerReader {
 public:
  LayerReader(const LayerPlan& plan, const Checkpoint& checkpoint, std::span<const PartAlias> aliases = {})
      : plan_(plan), checkpoint_(checkpoint), aliases_(aliases) {}

  // Whether the plan names "<layer>.<part>", or the part under an alias.
  bool has(std::string_view part) const;
  // "model.safetensors: layer 'x'"
  std::string what() const;
  // "model.safetensors: tensor 'x.weight'"
  std::string where(std::string_view part) const;

  // Precondition of all: has(part).
  TensorView read(std::string_view part, std::initializer_list<DType> types) const;
  // The only entry of a tensor of f32, f16 or bf16, positive and finite.
  float number(std::string_view part) const;
  // f32, f16 or bf16 entries; any shape that has this many.
  std::vector<float> floats(std::string_view part, int64_t count) const;
  // Scales that lie on disk as QuantWeight has them, [rows, cols] with or without extents of one. f32, f16
  // and bf16 keep their type, u8 is e8m0.
  Scales scales(std::string_view part, std::initializer_list<DType> types, int64_t rows, int64_t cols) const;

  // Refuses extents that aren't those the model expects; returns them.
  Extent2d checked_shape(std::string_view part, int64_t rows, int64_t cols) const;

 private:
  bool is_planned(const std::string& name) const;
  std::string name(std::string_view part) const;

  const LayerPlan& plan_;
  const Checkpoint& checkpoint_;
  std::span<const PartAlias> aliases_;
};

inline constexpr auto kFloatTypes = {DType::kF32, DType::kF16, DType::kBF16};

// How a matrix of codes lies in a tensor of bytes.
enum class CodeLayout : uint8_t {
  kRows,        // each row a bit stream, low bits first: the canonical form
  kSignedRows,  // kInt8 in two's complement
  kRowPairs,    // kInt4 in two's complement, [out / 2, in]: the even row in the low half of a byte
};

// Sets shape and codes from "<layer>.<part>", of weight.element.
void read_codes(const LayerReader& reader, std::string_view part, CodeLayout layout, QuantWeight& weight);

// A second level of one number.
std::unique_ptr<Scales> single_scale(float value);

// True when only extents of one tell the shapes apart.
bool same_without_ones(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// Whether a tensor of this type holds an unquantized weight.
bool is_plain_dtype(DType type);

}  // namespace quaver
