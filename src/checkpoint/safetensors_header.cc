#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "checkpoint/checked.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

struct ParsedEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Takes the header's few permitted shapes of JSON straight into entries: no tree is built, and the first
// token that does not belong ends the parse.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  std::vector<ParsedEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a fraction or huge number");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return unexpected("a number");
    if (field_ == Field::kOffsets) {
      entries.back().offsets.push_back(value);
      return entries.back().offsets.size() <= 2 || refuse("'data_offsets' holds more than two numbers");
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse("an extent is too large");
    entries.back().shape.push_back(static_cast<int64_t>(value));
    return entries.back().shape.size() <= kMaxTensorRank || refuse("'shape' has too many dimensions");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || field_ != Field::kDtype) return unexpected("a string");
    entries.back().dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) return enter(Place::kTop);
    if (place_ != Place::kTop) return unexpected("an object");
    if (key_ == "__metadata__") {
      if (has_metadata_) return refuse("'__metadata__' stands twice");
      has_metadata_ = true;
      return enter(Place::kMetadata);
    }
    entries.emplace_back();
    entries.back().name = key_;
    return enter(Place::kTensor);
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const ParsedEntry& entry = entries.back();
      if (!entry.has_dtype) return refuse("'dtype' is missing");
      if (!entry.has_shape) return refuse("'shape' is missing");
      if (!entry.has_offsets || entry.offsets.size() != 2)
        return refuse("'data_offsets' must hold two numbers");
    }
    return enter(place_ == Place::kTop ? Place::kEnd : Place::kTop);
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTensor) return tensor_key(name);
    if (place_ == Place::kMetadata && metadata.contains(name))
      return refuse(cat("key ", printable(name), " stands twice"));
    key_ = std::move(name);
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || field_ == Field::kDtype) return unexpected("an array");
    return enter(Place::kArray);
  }
  bool end_array() override { return enter(Place::kTensor); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error = cat("the header is not valid JSON at byte ", position);
    return false;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kArray, kEnd };
  enum class Field { kDtype, kShape, kOffsets };

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  bool tensor_key(const std::string& name) {
    ParsedEntry& entry = entries.back();
    auto take = [&](bool& seen, Field field) {
      field_ = field;
      if (std::exchange(seen, true)) return refuse(cat("key ", printable(name), " stands twice"));
      return true;
    };
    if (name == "dtype") return take(entry.has_dtype, Field::kDtype);
    if (name == "shape") return take(entry.has_shape, Field::kShape);
    if (name == "data_offsets") return take(entry.has_offsets, Field::kOffsets);
    return refuse(cat("key ", printable(name), " does not belong there"));
  }

  bool unexpected(std::string_view got) {
    if (place_ == Place::kStart) return refuse(cat("the header is ", got, ", expected a JSON object"));
    if (place_ == Place::kTop) return refuse(cat(printable(key_), " is ", got, ", expected an object"));
    if (place_ == Place::kMetadata)
      return refuse(cat("'__metadata__' key ", printable(key_), " is ", got, ", expected a string"));
    constexpr std::array kNames = {"'dtype'", "'shape'", "'data_offsets'"};
    return refuse(cat(kNames[static_cast<size_t>(field_)], " holds ", got));
  }

  bool refuse(std::string_view message) {
    bool in_tensor = place_ == Place::kTensor || place_ == Place::kArray;
    error = in_tensor ? cat("tensor ", printable(entries.back().name), ": ", message) : std::string(message);
    return false;
  }

  Place place_ = Place::kStart;
  Field field_ = Field::kDtype;
  std::string key_;
  bool has_metadata_ = false;
};

// The header's text, once its length is known to lie inside the file.
std::string_view header_text(std::span<const std::byte> file, std::string_view what) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  require(!file.empty(), ErrorKind::kBadFile, what, ": is empty (0 bytes), expected a safetensors file");
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require(!text.starts_with(kPointer), ErrorKind::kBadFile, what,
          ": is a Git LFS pointer, not the weights; fetch the real file with 'git lfs pull'");
  require(file.size() >= 8, ErrorKind::kBadFile, what, ": is ", file.size(),
          " bytes long, too short for a safetensors file");
  uint64_t length = read_little_endian(file, 0, 8);
  require(length <= kMaxSafetensorsHeaderBytes, ErrorKind::kBadFile, what, ": header length ", length,
          " is more than the ", kMaxSafetensorsHeaderBytes, " allowed");
  require(length <= file.size() - 8, ErrorKind::kBadFile, what, ": header length ", length,
          " runs past the end of the file, which has ", file.size() - 8, " bytes after the length");
  text = text.substr(8, length);
  require(text.starts_with('{'), ErrorKind::kBadFile, what, ": the header does not begin with '{'");
  // The JSON library takes a zero byte for the end of its input.
  require(text.find('\0') == text.npos, ErrorKind::kBadFile, what, ": the header holds a zero byte");
  return text;
}

SafetensorsEntry check_entry(ParsedEntry&& parsed, uint64_t data_start, uint64_t data_bytes,
                             std::string_view what) {
  auto demand = [&](bool holds, const auto&... message) {
    require(holds, ErrorKind::kBadFile, what, ": tensor ", printable(parsed.name), ": ", message...);
  };
  auto dtype = dtype_from_safetensors(parsed.dtype);
  demand(dtype.has_value(), "dtype ", printable(parsed.dtype), " is unknown");
  auto bytes = checked_tensor_bytes(*dtype, parsed.shape);
  demand(bytes.has_value(), "the size of ", parsed.dtype, " ", parsed.shape,
         " overflows or is no whole byte");
  uint64_t begin = parsed.offsets[0], end = parsed.offsets[1];
  demand(begin <= end, "data_offsets [", begin, ", ", end, "] run backwards");
  demand(end <= data_bytes, "ends at byte ", end, " of the data, of which the file holds only ", data_bytes,
         " (cut off?)");
  demand(end - begin == *bytes, "data_offsets span ", end - begin, " bytes, but ", parsed.dtype, " ",
         parsed.shape, " takes ", *bytes);
  return {{std::move(parsed.name), *dtype, std::move(parsed.shape), *bytes}, data_start + begin};
}

// Tensors must tile the data: any overlap, hole or remainder is where bytes could hide or be read twice.
void check_coverage(const std::vector<SafetensorsEntry>& entries, uint64_t data_start, uint64_t file_bytes,
                    std::string_view what) {
  std::vector<const SafetensorsEntry*> by_offset;
  by_offset.reserve(entries.size());
  for (const auto& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->info.size_bytes) < std::pair(b->offset, b->info.size_bytes);
  });
  uint64_t covered = data_start;
  for (const auto* entry : by_offset) {
    require(entry->offset >= covered, ErrorKind::kBadFile, what, ": tensor ", printable(entry->info.name),
            " overlaps the tensor before it");
    require(entry->offset == covered, ErrorKind::kBadFile, what, ": ", entry->offset - covered,
            " bytes before tensor ", printable(entry->info.name), " belong to no tensor");
    covered += entry->info.size_bytes;
  }
  require(covered == file_bytes, ErrorKind::kBadFile, what, ": ", file_bytes - covered,
          " bytes at the end belong to no tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view what) {
  std::string_view text = header_text(file, what);
  HeaderHandler handler;
  if (!json::sax_parse(text.begin(), text.end(), &handler))
    fail(ErrorKind::kBadFile, what, ": ", handler.error);
  require(!handler.entries.empty(), ErrorKind::kBadFile, what, ": holds no tensors");
  uint64_t data_start = 8 + text.size();
  SafetensorsHeader header;
  header.metadata = std::move(handler.metadata);
  header.entries.reserve(handler.entries.size());
  for (ParsedEntry& parsed : handler.entries)
    header.entries.push_back(check_entry(std::move(parsed), data_start, file.size() - data_start, what));
  auto by_name = [](const auto& a, const auto& b) { return a.info.name < b.info.name; };
  std::sort(header.entries.begin(), header.entries.end(), by_name);
  auto twice = std::adjacent_find(header.entries.begin(), header.entries.end(),
                                  [](const auto& a, const auto& b) { return a.info.name == b.info.name; });
  require(twice == header.entries.end(), ErrorKind::kBadFile, what, ": tensor ",
          twice == header.entries.end() ? "" : printable(twice->info.name), " stands twice in the header");
  check_coverage(header.entries, data_start, file.size(), what);
  return header;
}

}  // namespace quaver
