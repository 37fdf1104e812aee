// Arithmetic on numbers that a file gave: a result that does not fit is nothing, never a wrapped value.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "numerics/dtype.h"

namespace quaver {

constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  if (a > std::numeric_limits<uint64_t>::max() - b) return std::nullopt;
  return a + b;
}

constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

// The product of the extents. Nothing when an extent is negative or any leading product passes 2^63 - 1, even
// if a later extent is zero: strides could not be formed.
constexpr std::optional<uint64_t> checked_elements(std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    auto product = checked_mul(count, static_cast<uint64_t>(extent));
    if (!product || *product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    count = *product;
  }
  return count;
}

// What a tensor takes in a file. Nothing on overflow, or when the elements do not fill whole blocks.
constexpr std::optional<uint64_t> checked_tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  const DTypeInfo& info = dtype_info(dtype);
  auto elements = checked_elements(shape);
  auto block = static_cast<uint64_t>(info.block_elements);
  if (!elements || *elements % block != 0) return std::nullopt;
  return checked_mul(*elements / block, static_cast<uint64_t>(info.block_bytes));
}

}  // namespace quaver
