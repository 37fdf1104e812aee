#include "checkpoint/pickle_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace quaver {
namespace {

constexpr std::array<std::string_view, 13> kNames = {
    "collections.OrderedDict",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_wrapper_subclass",
    "torch.UntypedStorage",
    "torch.storage.UntypedStorage",
};

struct Storage {
  std::string_view name;
  DType dtype;
};

constexpr std::array kStorages = {
    Storage{"torch.DoubleStorage", DType::kF64},       Storage{"torch.FloatStorage", DType::kF32},
    Storage{"torch.HalfStorage", DType::kF16},         Storage{"torch.BFloat16Storage", DType::kBF16},
    Storage{"torch.LongStorage", DType::kI64},         Storage{"torch.IntStorage", DType::kI32},
    Storage{"torch.ShortStorage", DType::kI16},        Storage{"torch.CharStorage", DType::kI8},
    Storage{"torch.ByteStorage", DType::kU8},          Storage{"torch.BoolStorage", DType::kBool},
    Storage{"torch.ComplexFloatStorage", DType::kC64},
};

struct Type {
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr std::array kTypes = {
    Type{"torch.float64", DType::kF64},
    Type{"torch.float32", DType::kF32},
    Type{"torch.float16", DType::kF16},
    Type{"torch.bfloat16", DType::kBF16},
    Type{"torch.float8_e4m3fn", DType::kF8E4M3},
    Type{"torch.float8_e5m2", DType::kF8E5M2},
    Type{"torch.float8_e8m0fnu", DType::kF8E8M0},
    Type{"torch.float8_e4m3fnuz", DType::kF8E4M3FNUZ},
    Type{"torch.float8_e5m2fnuz", DType::kF8E5M2FNUZ},
    Type{"torch.int64", DType::kI64},
    Type{"torch.int32", DType::kI32},
    Type{"torch.int16", DType::kI16},
    Type{"torch.int8", DType::kI8},
    Type{"torch.uint64", DType::kU64},
    Type{"torch.uint32", DType::kU32},
    Type{"torch.uint16", DType::kU16},
    Type{"torch.uint8", DType::kU8},
    Type{"torch.bool", DType::kBool},
    Type{"torch.complex64", DType::kC64},
    Type{"torch.float4_e2m1fn_x2", std::nullopt},
    Type{"torch.int1", std::nullopt},
    Type{"torch.int2", std::nullopt},
    Type{"torch.int3", std::nullopt},
    Type{"torch.int4", std::nullopt},
    Type{"torch.int5", std::nullopt},
    Type{"torch.int6", std::nullopt},
    Type{"torch.int7", std::nullopt},
    Type{"torch.uint1", std::nullopt},
    Type{"torch.uint2", std::nullopt},
    Type{"torch.uint3", std::nullopt},
    Type{"torch.uint4", std::nullopt},
    Type{"torch.uint5", std::nullopt},
    Type{"torch.uint6", std::nullopt},
    Type{"torch.uint7", std::nullopt},
};

template <class Rows>
auto find_row(const Rows& rows, std::string_view name) {
  return std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

bool is_class_name(std::string_view name) {
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

}  // namespace

bool is_known_pickle_name(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         find_row(kStorages, name) != kStorages.end() || is_torch_dtype(name);
}

std::optional<DType> dtype_of_storage(std::string_view name) {
  const auto row = find_row(kStorages, name);
  return row == kStorages.end() ? std::nullopt : std::optional(row->dtype);
}

std::optional<DType> dtype_of_torch(std::string_view name) {
  const auto row = find_row(kTypes, name);
  return row == kTypes.end() ? std::nullopt : row->dtype;
}

bool is_torch_dtype(std::string_view name) { return find_row(kTypes, name) != kTypes.end(); }

bool PickleClasses::admit(std::string_view module, std::string_view name) {
  if (!is_class_name(name)) return false;
  const std::string_view package = module.substr(0, module.find('.'));
  if (std::find(packages_.begin(), packages_.end(), package) != packages_.end()) return true;
  if (!name.ends_with("Tensor") || module.find('.') == module.npos) return false;
  packages_.emplace_back(package);
  return true;
}

}  // namespace quaver
