#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

#include "base/mapped_file.h"
#include "checkpoint/checked.h"
#include "checkpoint/output_file.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_header.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

// The safetensors library's order of dtypes, which puts wide elements first so that all are aligned.
int layout_rank(DType dtype) {
  constexpr std::array kAscending = {
      DType::kBool,   DType::kF4,     DType::kF6E2M3, DType::kF6E3M2,     DType::kU8,         DType::kI8,
      DType::kF8E5M2, DType::kF8E4M3, DType::kF8E8M0, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kI16,
      DType::kU16,    DType::kF16,    DType::kBF16,   DType::kI32,        DType::kU32,        DType::kF32,
      DType::kC64,    DType::kF64,    DType::kI64,    DType::kU64};
  auto at = std::find(kAscending.begin(), kAscending.end(), dtype);
  return static_cast<int>(at - kAscending.begin());
}

std::string json_string(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    fail(ErrorKind::kInvalidInput, "tensor name or metadata ", printable(text), " is not UTF-8");
  }
}

void check_tensor(const TensorInfo& info) {
  auto demand = [&](bool holds, const auto&... message) {
    require(holds, ErrorKind::kInvalidInput, "tensor ", printable(info.name),
            " can't be written: ", message...);
  };
  demand(info.name != "__metadata__", "the name is reserved");
  demand(!dtype_info(info.dtype).safetensors_name.empty(), "safetensors has no dtype ",
         dtype_info(info.dtype).name);
  demand(info.shape.size() <= kMaxTensorRank, "it has ", info.shape.size(), " dimensions");
  auto bytes = checked_tensor_bytes(info.dtype, info.shape);
  demand(bytes.has_value(), "the size of shape ", info.shape, " overflows or is no whole byte");
  demand(*bytes == info.size_bytes, "shape ", info.shape, " takes ", *bytes, " bytes, announced were ",
         info.size_bytes);
}

std::string header_entry(const TensorInfo& info, uint64_t begin) {
  std::string shape;
  for (size_t i = 0; i < info.shape.size(); ++i) shape += cat(i ? "," : "", info.shape[i]);
  return cat(json_string(info.name), ":{\"dtype\":\"", dtype_info(info.dtype).safetensors_name,
             "\",\"shape\":[", shape, "],\"data_offsets\":[", begin, ",", begin + info.size_bytes, "]}");
}

// Length and header, padded with spaces to a multiple of 8.
std::string make_header(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      text += cat(text.back() == '{' ? "" : ",", json_string(key), ":", json_string(value));
    text += "}";
  }
  uint64_t begin = 0;
  for (const TensorInfo& info : tensors) {
    if (text.size() > 1) text += ",";
    text += header_entry(info, begin);
    auto end = checked_add(begin, info.size_bytes);
    require(end.has_value(), ErrorKind::kInvalidInput, "the tensors' total size overflows");
    begin = *end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require(text.size() <= kMaxSafetensorsHeaderBytes, ErrorKind::kInvalidInput, "a safetensors header of ",
          text.size(), " bytes is more than the ", kMaxSafetensorsHeaderBytes,
          " that readers allow; use smaller shards");
  std::string length;
  for (int i = 0; i < 8; ++i) length.push_back(static_cast<char>(text.size() >> (8 * i)));
  return length + text;
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// "model.safetensors", "model-00001-of-00002.safetensors", the index, and their unfinished forms.
bool belongs_to_stem(std::string_view name, std::string_view stem) {
  if (name.ends_with(".partial")) name.remove_suffix(8);
  if (!name.starts_with(stem)) return false;
  std::string_view rest = name.substr(stem.size());
  if (rest == ".safetensors" || rest == ".safetensors.index.json") return true;
  if (!rest.starts_with('-') || !rest.ends_with(".safetensors")) return false;
  rest = rest.substr(1, rest.size() - 1 - std::string_view(".safetensors").size());
  size_t of = rest.find("-of-");
  return of != rest.npos && is_digits(rest.substr(0, of)) && is_digits(rest.substr(of + 4));
}

void remove_earlier(const fs::path& folder, const std::string& stem) {
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder))
    if (belongs_to_stem(entry.path().filename().string(), stem)) stale.push_back(entry.path());
  for (const fs::path& path : stale) fs::remove(path);
}

std::string number(size_t value) {
  std::string digits = cat(value);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

void check_names(std::vector<TensorInfo>& tensors) {
  require(!tensors.empty(), ErrorKind::kInvalidInput, "a safetensors file without tensors can't be written");
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_tensor(tensors[i]);
    require(i == 0 || tensors[i].name != tensors[i - 1].name, ErrorKind::kInvalidInput, "tensor ",
            printable(tensors[i].name), " can't be written twice");
  }
}

}  // namespace

void write_safetensors_file(const fs::path& path, std::vector<TensorInfo> tensors, const TensorSource& source,
                            const std::map<std::string, std::string>& metadata) {
  check_names(tensors);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return layout_rank(a.dtype) > layout_rank(b.dtype); });
  std::string header = make_header(tensors, metadata);
  OutputFile file(path);
  file.write(std::as_bytes(std::span(header)));
  for (const TensorInfo& info : tensors) {
    TensorView view = announced(source, info);
    file.write(view.data.bytes());
  }
  file.commit();
}

std::vector<std::vector<TensorInfo>> plan_shards(std::vector<TensorInfo> tensors, uint64_t max_shard_bytes) {
  require(max_shard_bytes > 0, ErrorKind::kInvalidInput, "the shard size must be positive");
  check_names(tensors);
  std::vector<std::vector<TensorInfo>> shards;
  uint64_t room = 0;
  for (TensorInfo& info : tensors) {
    if (shards.empty() || info.size_bytes > room) {
      shards.emplace_back();
      room = max_shard_bytes;
    }
    room -= std::min(room, info.size_bytes);
    shards.back().push_back(std::move(info));
  }
  return shards;
}

std::vector<std::string> write_safetensors(const fs::path& folder, std::vector<TensorInfo> tensors,
                                           const TensorSource& source, const SafetensorsOptions& options) {
  auto shards = plan_shards(std::move(tensors), options.max_shard_bytes);
  require(fs::is_directory(folder), ErrorKind::kNotFound, folder.string(), ": is not a folder");
  remove_earlier(folder, options.stem);
  std::vector<std::string> written;
  json weight_map = json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string name = shards.size() == 1 ? options.stem + ".safetensors"
                                          : cat(options.stem, "-", number(i + 1), "-of-",
                                                number(shards.size()), ".safetensors");
    for (const TensorInfo& info : shards[i]) {
      weight_map[info.name] = name;
      total += info.size_bytes;
    }
    write_safetensors_file(folder / name, std::move(shards[i]), source, options.metadata);
    written.push_back(std::move(name));
  }
  if (shards.size() > 1) {
    json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    written.push_back(options.stem + ".safetensors.index.json");
    write_file_atomically(folder / written.back(), index.dump(2) + "\n");
  }
  return written;
}

}  // namespace quaver
