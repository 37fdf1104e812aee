#include "checkpoint/lora_file.h"

#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "base/mapped_file.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/lora_part.h"
#include "checkpoint/lora_settings.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_file.h"
#include "numerics/half.h"

namespace quaver {

namespace {

constexpr const char* kSettingsKey = "lora_adapter_metadata";

std::filesystem::path weights_of(const std::filesystem::path& path) {
  require(std::filesystem::exists(path), ErrorKind::kNotFound, path.string(), ": does not exist");
  if (!std::filesystem::is_directory(path)) return path;
  for (const char* name : {"pytorch_lora_weights.safetensors", "adapter_model.safetensors"})
    if (std::filesystem::exists(path / name)) return path / name;
  fail(ErrorKind::kNotFound, path.string(),
       ": holds no LoRA, expected pytorch_lora_weights.safetensors or adapter_model.safetensors");
}

// Zip archives and bare pickles, by their first bytes. A safetensors file begins with the length of its
// header: the same bytes may be one, but then the file is longer than that.
void refuse_pickles(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapped = MappedFile::open(file);
  const std::span<const std::byte> bytes = mapped->bytes();
  if (bytes.size() < 8) return;
  const bool zip = bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
  const bool pickle = bytes[0] == std::byte{0x80} && bytes[1] <= std::byte{5};
  require(!(zip || pickle) || read_little_endian(bytes, 0, 8) < bytes.size(), ErrorKind::kUnsupported,
          file.string(),
          ": is a pickle, which may run programs when it is read; expected a safetensors file");
}

LoraSettings settings_of(const SafetensorsFile& file) {
  const std::string path = file.path().string();
  if (auto it = file.metadata().find(kSettingsKey); it != file.metadata().end())
    return {parse_json(it->second, cat(path, ": metadata '", kSettingsKey, "'")), path};
  const std::filesystem::path beside = file.path().parent_path() / "adapter_config.json";
  if (file.path().filename() == "adapter_model.safetensors" && std::filesystem::exists(beside))
    return {read_json_file(beside.string()), beside.string()};
  return {};
}

struct LoraParts {
  const SafetensorsEntry *down = nullptr, *up = nullptr, *alpha = nullptr;
};

std::map<std::string, LoraParts> parts_of(const SafetensorsFile& file) {
  std::map<std::string, LoraParts> layers;
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::string& tensor = entry.info.name;
    const std::optional<LoraPartName> found = lora_part_of(tensor);
    if (!found) {
      const char* foreign = foreign_adapter_of(tensor);
      require(foreign == nullptr, ErrorKind::kUnsupported, file.path().string(), ": tensor ",
              printable(tensor), " belongs to ", foreign, "; only plain LoRA is supported");
      fail(
          ErrorKind::kBadFile, file.path().string(), ": tensor ", printable(tensor),
          " is no part of a LoRA, expected names that end in .lora_A.weight, .lora_down.weight and the like");
    }
    LoraParts& parts = layers[std::string(found->layer)];
    const SafetensorsEntry*& part = found->part == LoraPart::kDown ? parts.down
                                    : found->part == LoraPart::kUp ? parts.up
                                                                   : parts.alpha;
    require(part == nullptr, ErrorKind::kBadFile, file.path().string(), ": tensors ",
            part ? printable(part->info.name) : "", " and ", printable(tensor),
            " are the same part of one layer");
    part = &entry;
  }
  require(!layers.empty(), ErrorKind::kBadFile, file.path().string(), ": has no tensors");
  return layers;
}

template <class T, class Convert>
double first_value(const TensorView& view, Convert convert) {
  return static_cast<double>(convert(view.data.as<T>()[0]));
}

double number_in(const TensorView& view) {
  const auto as_is = [](auto value) { return value; };
  switch (view.dtype) {
    case DType::kF64:
      return first_value<double>(view, as_is);
    case DType::kF32:
      return first_value<float>(view, as_is);
    case DType::kF16:
      return first_value<uint16_t>(view, f16_to_float);
    case DType::kBF16:
      return first_value<uint16_t>(view, bf16_to_float);
    case DType::kI64:
      return first_value<int64_t>(view, as_is);
    case DType::kI32:
      return first_value<int32_t>(view, as_is);
    default:
      return NAN;
  }
}

double read_alpha(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  int64_t count = 1;
  for (int64_t extent : entry.info.shape) count *= extent;
  const double alpha = count == 1 ? number_in(file.read(entry)) : NAN;
  require(std::isfinite(alpha), ErrorKind::kBadFile, file.path().string(), ": tensor ",
          printable(entry.info.name), " is ", dtype_info(entry.info.dtype).name, " ", entry.info.shape,
          count == 1 ? " and no finite number" : "", ", expected one number");
  return alpha;
}

void check_matrix(const SafetensorsFile& file, const TensorInfo& info) {
  constexpr std::array kTaken = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  require(std::find(kTaken.begin(), kTaken.end(), info.dtype) != kTaken.end(), ErrorKind::kUnsupported,
          file.path().string(), ": tensor ", printable(info.name), " is ", dtype_info(info.dtype).name,
          ", expected f32, f16 or bf16");
  require(info.shape.size() == 2 && info.shape[0] > 0 && info.shape[1] > 0, ErrorKind::kBadFile,
          file.path().string(), ": tensor ", printable(info.name), " is ", info.shape,
          ", expected two dimensions");
}

LoraLayer read_layer(const SafetensorsFile& file, const std::string& name, const LoraParts& parts,
                     const LoraSettings& settings) {
  const SafetensorsEntry* there = parts.down ? parts.down : parts.up ? parts.up : parts.alpha;
  require(parts.down && parts.up, ErrorKind::kBadFile, file.path().string(), ": tensor ",
          printable(there->info.name), " stands without the layer's ",
          parts.down ? "second matrix (lora_B, lora_up)" : "first matrix (lora_A, lora_down)");
  const TensorInfo &down = parts.down->info, &up = parts.up->info;
  check_matrix(file, down), check_matrix(file, up);
  require(up.shape[1] == down.shape[0], ErrorKind::kBadFile, file.path().string(), ": tensor ",
          printable(up.name), " is ", up.shape, ", expected [out, ", down.shape[0], "]: the rank of ",
          printable(down.name), " is ", down.shape[0]);
  const int64_t rank = down.shape[0];
  return {.name = name,
          .down = {down.name, file.read(*parts.down)},
          .up = {up.name, file.read(*parts.up)},
          .scale = parts.alpha ? read_alpha(file, *parts.alpha) / static_cast<double>(rank)
                               : settings.scale(name, rank)};
}

}  // namespace

LoraFile LoraFile::open(const std::filesystem::path& path) {
  LoraFile out;
  out.path_ = weights_of(path);
  refuse_pickles(out.path_);
  const SafetensorsFile file = SafetensorsFile::open(out.path_);
  const LoraSettings settings = settings_of(file);
  for (const auto& [name, parts] : parts_of(file))
    out.layers_.push_back(read_layer(file, name, parts, settings));
  return out;
}

}  // namespace quaver
