#include "nn/tensor_bridge.h"

#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>
#include <utility>

namespace quaver::nn {

namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 14> kTypes = {{
    {DType::kF32, at::kFloat},
    {DType::kBF16, at::kBFloat16},
    {DType::kF16, at::kHalf},
    {DType::kF64, at::kDouble},
    {DType::kBool, at::kBool},
    {DType::kU8, at::kByte},
    {DType::kI8, at::kChar},
    {DType::kI16, at::kShort},
    {DType::kI32, at::kInt},
    {DType::kI64, at::kLong},
    {DType::kU16, at::ScalarType::UInt16},
    {DType::kU32, at::ScalarType::UInt32},
    {DType::kF8E4M3, at::ScalarType::Float8_e4m3fn},
    {DType::kF8E5M2, at::ScalarType::Float8_e5m2},
}};

bool is_aligned(const Buffer& buffer, int64_t element_bytes) {
  return reinterpret_cast<uintptr_t>(buffer.bytes().data()) % static_cast<uintptr_t>(element_bytes) == 0;
}

}  // namespace

std::optional<at::ScalarType> scalar_type_of(DType dtype) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == dtype) return theirs;
  return std::nullopt;
}

DType dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes)
    if (theirs == type) return ours;
  fail(ErrorKind::kInternal, "no storage dtype for torch's ", c10::toString(type));
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF64;
}

at::Tensor tensor_over(const TensorView& view, std::string_view what) {
  auto type = scalar_type_of(view.dtype);
  require(type.has_value(), ErrorKind::kBadFile, what, ": dtype ", dtype_info(view.dtype).name,
          " is not one that can be used as it is");
  Buffer bytes = view.data;
  if (!is_aligned(bytes, dtype_info(view.dtype).block_bytes)) bytes = Buffer::copy_of(bytes.bytes());
  // The const_cast is for torch's signature; weights are never written in place.
  void* data = const_cast<std::byte*>(bytes.bytes().data());
  return at::from_blob(
      data, view.shape, [bytes](void*) {}, at::TensorOptions().dtype(*type));
}

TensorView view_of(const at::Tensor& tensor) {
  at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  auto owner = std::make_shared<at::Tensor>(dense);
  std::span<const std::byte> bytes(static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes());
  return {dtype_of(dense.scalar_type()), dense.sizes().vec(), Buffer(bytes, owner)};
}

}  // namespace quaver::nn
