#include "checkpoint/gguf_types.h"

#include <algorithm>
#include <array>

namespace quaver {
namespace {

constexpr std::array kGgmlTypes = {
    GgufTensorType{0, "F32", DType::kF32},        GgufTensorType{1, "F16", DType::kF16},
    GgufTensorType{2, "Q4_0", DType::kQ4_0},      GgufTensorType{3, "Q4_1", DType::kQ4_1},
    GgufTensorType{6, "Q5_0", DType::kQ5_0},      GgufTensorType{7, "Q5_1", DType::kQ5_1},
    GgufTensorType{8, "Q8_0", DType::kQ8_0},      GgufTensorType{9, "Q8_1", std::nullopt},
    GgufTensorType{10, "Q2_K", DType::kQ2_K},     GgufTensorType{11, "Q3_K", DType::kQ3_K},
    GgufTensorType{12, "Q4_K", DType::kQ4_K},     GgufTensorType{13, "Q5_K", DType::kQ5_K},
    GgufTensorType{14, "Q6_K", DType::kQ6_K},     GgufTensorType{15, "Q8_K", DType::kQ8_K},
    GgufTensorType{16, "IQ2_XXS", std::nullopt},  GgufTensorType{17, "IQ2_XS", std::nullopt},
    GgufTensorType{18, "IQ3_XXS", std::nullopt},  GgufTensorType{19, "IQ1_S", std::nullopt},
    GgufTensorType{20, "IQ4_NL", DType::kIQ4_NL}, GgufTensorType{21, "IQ3_S", std::nullopt},
    GgufTensorType{22, "IQ2_S", std::nullopt},    GgufTensorType{23, "IQ4_XS", DType::kIQ4_XS},
    GgufTensorType{24, "I8", DType::kI8},         GgufTensorType{25, "I16", DType::kI16},
    GgufTensorType{26, "I32", DType::kI32},       GgufTensorType{27, "I64", DType::kI64},
    GgufTensorType{28, "F64", DType::kF64},       GgufTensorType{29, "IQ1_M", std::nullopt},
    GgufTensorType{30, "BF16", DType::kBF16},     GgufTensorType{34, "TQ1_0", std::nullopt},
    GgufTensorType{35, "TQ2_0", std::nullopt},    GgufTensorType{39, "MXFP4", DType::kMXFP4},
    GgufTensorType{40, "NVFP4", std::nullopt},
};

}  // namespace

const GgufTensorType* gguf_tensor_type(uint32_t id) {
  auto row =
      std::find_if(kGgmlTypes.begin(), kGgmlTypes.end(), [&](const auto& type) { return type.id == id; });
  return row == kGgmlTypes.end() ? nullptr : &*row;
}

const GgufTensorType* gguf_tensor_type(DType dtype) {
  auto row = std::find_if(kGgmlTypes.begin(), kGgmlTypes.end(),
                          [&](const auto& type) { return type.dtype == dtype; });
  return row == kGgmlTypes.end() ? nullptr : &*row;
}

bool is_gguf_block_type(DType dtype) { return dtype_info(dtype).block_elements > 1; }

}  // namespace quaver
