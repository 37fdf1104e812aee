// Takes a GGUF file's header apart, trusting none of its numbers.
#include <algorithm>
#include <bit>

#include "checkpoint/checked.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 1024;
constexpr uint32_t kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 4;
// The fewest bytes that one entry can take: an empty name and, of a pair, a one-byte value.
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Reads forward and never past the end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::string_view what() const { return what_; }

  std::span<const std::byte> take(uint64_t count, std::string_view of) {
    require(count <= remaining(), ErrorKind::kBadFile, what_, ": ", of, " at byte ", position_, " takes ",
            count, " bytes, but the file holds only ", remaining(), " more (cut off?)");
    auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <class T>
  T number(std::string_view of) {
    auto bytes = take(sizeof(T), of);
    T value = 0;
    for (size_t i = sizeof(T); i-- > 0;)
      value = static_cast<T>(value << 7 << 1 | std::to_integer<T>(bytes[i]));
    return value;
  }

  std::string_view string(std::string_view of) {
    auto bytes = take(number<uint64_t>(of), of);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view what_;
  uint64_t position_ = 0;
};

GgufType read_type(Cursor& in, std::string_view key) {
  auto id = in.number<uint32_t>("a value type");
  require(id < kGgufTypeCount, ErrorKind::kBadFile, in.what(), ": key ", printable(key),
          " has the unknown value type ", id);
  return static_cast<GgufType>(id);
}

// `count` members of the value's element type.
void read_members(Cursor& in, std::string_view key, GgufValue& value, int depth);

GgufValue read_array(Cursor& in, std::string_view key, int depth) {
  require(depth < kMaxArrayDepth, ErrorKind::kBadFile, in.what(), ": key ", printable(key),
          " nests arrays deeper than ", kMaxArrayDepth);
  GgufValue array{.type = GgufType::kArray};
  array.element = read_type(in, key);
  array.count = in.number<uint64_t>("an array length");
  read_members(in, key, array, depth + 1);
  return array;
}

void read_members(Cursor& in, std::string_view key, GgufValue& value, int depth) {
  size_t scalar = gguf_scalar_bytes(value.element);
  size_t least = scalar != 0 ? scalar : value.element == GgufType::kString ? 8 : 12;
  require(value.count <= in.remaining() / least, ErrorKind::kBadFile, in.what(), ": key ", printable(key),
          " claims ", value.count, " members of type ", gguf_type_name(value.element), ", but only ",
          in.remaining(), " bytes are left (cut off?)");
  if (scalar != 0) {
    value.raw = in.take(value.count * scalar, "a value");
    if (value.element == GgufType::kBool)
      for (std::byte b : value.raw)
        require(std::to_integer<int>(b) <= 1, ErrorKind::kBadFile, in.what(), ": key ", printable(key),
                " holds the bool ", std::to_integer<int>(b), ", expected 0 or 1");
  } else if (value.element == GgufType::kString) {
    value.strings.reserve(value.count);
    for (uint64_t i = 0; i < value.count; ++i) value.strings.push_back(in.string("a string"));
  } else {
    for (uint64_t i = 0; i < value.count; ++i) value.arrays.push_back(read_array(in, key, depth));
  }
}

GgufValue read_value(Cursor& in, std::string_view key) {
  GgufType type = read_type(in, key);
  if (type == GgufType::kArray) return read_array(in, key, 0);
  GgufValue value{.type = type, .element = type};
  read_members(in, key, value, 0);
  return value;
}

void read_metadata(Cursor& in, uint64_t count, GgufContents& contents) {
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key = in.string("a metadata key");
    require(!key.empty() && key.size() <= kMaxKeyBytes, ErrorKind::kBadFile, in.what(), ": metadata key ",
            printable(key), " is ", key.size(), " bytes long, expected 1 to ", kMaxKeyBytes);
    GgufValue value = read_value(in, key);
    bool is_new = contents.metadata.emplace(key, std::move(value)).second;
    require(is_new, ErrorKind::kBadFile, in.what(), ": metadata key ", printable(key), " stands twice");
  }
}

DType known_dtype(uint32_t id, std::string_view name, std::string_view what) {
  const GgufTensorType* type = gguf_tensor_type(id);
  require(type != nullptr, ErrorKind::kBadFile, what, ": tensor ", printable(name), " has the unknown type ",
          id);
  require(type->dtype.has_value(), ErrorKind::kUnsupported, what, ": tensor ", printable(name),
          " is of type ", type->name, ", which can't be read");
  return *type->dtype;
}

// The offset is still relative to the data.
GgufEntry read_tensor(Cursor& in) {
  GgufEntry entry;
  std::string_view name = in.string("a tensor name");
  auto demand = [&](bool holds, const auto&... message) {
    require(holds, ErrorKind::kBadFile, in.what(), ": tensor ", printable(name), " ", message...);
  };
  demand(!name.empty() && name.size() <= kMaxTensorNameBytes, "has a name of ", name.size(), " bytes");
  entry.info.name = name;
  auto dimensions = in.number<uint32_t>("a dimension count");
  demand(dimensions <= kMaxDimensions, "has ", dimensions, " dimensions, at most ", kMaxDimensions,
         " are allowed");
  for (uint32_t d = 0; d < dimensions; ++d) {
    auto extent = in.number<uint64_t>("an extent");
    demand(extent <= uint64_t{1} << 62, "has an extent of ", extent);
    entry.info.shape.push_back(static_cast<int64_t>(extent));
  }
  entry.info.dtype = known_dtype(in.number<uint32_t>("a tensor type"), name, in.what());
  const DTypeInfo& dtype = dtype_info(entry.info.dtype);
  int64_t row = entry.info.shape.empty() ? 1 : entry.info.shape.front();
  demand(row % dtype.block_elements == 0, "has rows of ", row, " elements, which ", dtype.name, " blocks of ",
         dtype.block_elements, " do not fill");
  std::reverse(entry.info.shape.begin(), entry.info.shape.end());
  auto bytes = checked_tensor_bytes(entry.info.dtype, entry.info.shape);
  demand(bytes.has_value(), "has the shape ", entry.info.shape, ", whose size overflows");
  entry.info.size_bytes = *bytes;
  entry.offset = in.number<uint64_t>("a tensor offset");
  return entry;
}

uint64_t read_alignment(const GgufContents& contents, std::string_view what) {
  auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return contents.alignment;
  bool is_u32 = found->second.type == GgufType::kU32;
  uint64_t value = is_u32 ? static_cast<uint64_t>(*found->second.integer()) : 0;
  require(std::has_single_bit(value), ErrorKind::kBadFile, what,
          ": 'general.alignment' must be a u32 that is a power of two");
  return value;
}

// Makes offsets absolute, and checks that each tensor lies aligned, inside the file and on no other.
void place_tensors(const Cursor& in, uint64_t file_bytes, GgufContents& contents) {
  uint64_t mask = contents.alignment - 1;
  uint64_t data_start = (in.position() + mask) & ~mask;  // a position in a real file plus 2^31 can't wrap
  for (GgufEntry& entry : contents.entries) {
    auto demand = [&](bool holds, const auto&... message) {
      require(holds, ErrorKind::kBadFile, in.what(), ": tensor ", printable(entry.info.name), " ",
              message...);
    };
    demand((entry.offset & mask) == 0, "has the offset ", entry.offset, ", not a multiple of ",
           contents.alignment);
    auto begin = checked_add(data_start, entry.offset);
    auto end = begin ? checked_add(*begin, entry.info.size_bytes) : std::nullopt;
    demand(end && *end <= file_bytes, "of ", entry.info.size_bytes, " bytes at data offset ", entry.offset,
           " runs past the end of the file, which has ", file_bytes, " bytes (cut off?)");
    entry.offset = *begin;
  }
  std::vector<const GgufEntry*> by_offset;
  for (const GgufEntry& entry : contents.entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->info.size_bytes) < std::pair(b->offset, b->info.size_bytes);
  });
  for (size_t i = 1; i < by_offset.size(); ++i)
    require(by_offset[i - 1]->offset + by_offset[i - 1]->info.size_bytes <= by_offset[i]->offset,
            ErrorKind::kBadFile, in.what(), ": tensor ", printable(by_offset[i]->info.name),
            " overlaps tensor ", printable(by_offset[i - 1]->info.name));
}

uint32_t read_version(Cursor& in) {
  std::string_view what = in.what();
  require(in.remaining() > 0, ErrorKind::kBadFile, what, ": is empty (0 bytes), expected a GGUF file");
  auto magic = in.take(std::min<uint64_t>(4, in.remaining()), "the magic");
  std::string_view text(reinterpret_cast<const char*>(magic.data()), magic.size());
  require(text == "GGUF", ErrorKind::kBadFile, what, ": does not begin with 'GGUF' but with ",
          printable(text),
          text == "vers" ? " (a Git LFS pointer? fetch the real file with 'git lfs pull')" : "");
  auto version = in.number<uint32_t>("the version");
  require((version & 0xffff) != 0, ErrorKind::kUnsupported, what,
          ": is a big-endian GGUF file, which can't be read");
  require(version == 2 || version == 3, ErrorKind::kUnsupported, what, ": is GGUF version ", version,
          "; versions 2 and 3 can be read");
  return version;
}

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> file, std::string_view what) {
  Cursor in(file, what);
  GgufContents contents;
  contents.version = read_version(in);
  auto tensor_count = in.number<uint64_t>("the tensor count");
  auto pair_count = in.number<uint64_t>("the metadata count");
  require(pair_count <= in.remaining() / kMinPairBytes, ErrorKind::kBadFile, what, ": claims ", pair_count,
          " metadata entries, more than its ", file.size(), " bytes can hold");
  require(tensor_count <= in.remaining() / kMinTensorBytes, ErrorKind::kBadFile, what, ": claims ",
          tensor_count, " tensors, more than its ", file.size(), " bytes can hold");
  read_metadata(in, pair_count, contents);
  contents.alignment = read_alignment(contents, what);
  for (uint64_t i = 0; i < tensor_count; ++i) contents.entries.push_back(read_tensor(in));
  std::sort(contents.entries.begin(), contents.entries.end(),
            [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  for (size_t i = 1; i < contents.entries.size(); ++i)
    require(contents.entries[i].info.name != contents.entries[i - 1].info.name, ErrorKind::kBadFile, what,
            ": tensor ", printable(contents.entries[i].info.name), " stands twice");
  place_tensors(in, file.size(), contents);
  return contents;
}

}  // namespace quaver
