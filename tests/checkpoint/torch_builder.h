// Writes PyTorch's files by hand, right or wrong: pickles opcode by opcode, zip archives entry by entry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cat.h"
#include "checkpoint/scratch_folder.h"

namespace quaver::testing {

struct ZipEntry {
  std::string name, data;
  uint64_t method = 0, flags = 0;
  std::string name_in_header = name;
};

// Without checksums, which nobody reads. With `zip64` all sizes and offsets stand in the wide fields, as
// torch.save writes them beyond 4 GiB.
inline std::string zip_bytes(const std::vector<ZipEntry>& entries, bool zip64 = false) {
  const auto n = [](uint64_t value, int width) { return little_endian(value, width); };
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const uint64_t offset = file.size(), size = entry.data.size();
    file += cat("PK\3\4", n(20, 2), n(entry.flags, 2), n(entry.method, 2), n(0, 8), n(size, 4), n(size, 4),
                n(entry.name_in_header.size(), 2), n(0, 2), entry.name_in_header, entry.data);
    const std::string extra = zip64 ? cat(n(1, 2), n(24, 2), n(size, 8), n(size, 8), n(offset, 8)) : "";
    const auto narrow = [&](uint64_t value) { return n(zip64 ? 0xffffffff : value, 4); };
    directory +=
        cat("PK\1\2", n(20, 4), n(entry.flags, 2), n(entry.method, 2), n(0, 8), narrow(size), narrow(size),
            n(entry.name.size(), 2), n(extra.size(), 2), n(0, 10), narrow(offset), entry.name, extra);
  }
  const uint64_t offset = file.size(), count = entries.size(), end = offset + directory.size();
  file += directory;
  if (zip64)
    file += cat("PK\6\6", n(44, 8), n(45, 4), n(0, 8), n(count, 8), n(count, 8), n(directory.size(), 8),
                n(offset, 8), "PK\6\7", n(0, 4), n(end, 8), n(1, 4));
  return file + cat("PK\5\6", n(0, 4), n(zip64 ? 0xffff : count, 2), n(zip64 ? 0xffff : count, 2),
                    n(zip64 ? 0xffffffff : directory.size(), 4), n(zip64 ? 0xffffffff : offset, 4), n(0, 2));
}

// The archive of one pickle and its storages "0", "1" ...
inline std::string torch_file(std::string_view pickle, const std::vector<std::string>& storages = {}) {
  std::vector<ZipEntry> entries = {{"x/data.pkl", std::string(pickle)}, {"x/byteorder", "little"}};
  for (size_t i = 0; i < storages.size(); ++i) entries.push_back({cat("x/data/", i), storages[i]});
  return zip_bytes(entries);
}

// The opcodes, without memo.
namespace pickle {

inline std::string text(std::string_view value) { return cat("X", little_endian(value.size(), 4), value); }
inline std::string number(int64_t value) {
  return cat("\x8a\x08", little_endian(static_cast<uint64_t>(value)));
}
inline std::string name(std::string_view module, std::string_view name) {
  return cat("c", module, "\n", name, "\n");
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(number(value));
  return tuple(items);
}
inline std::string call(std::string_view function, const std::vector<std::string>& arguments) {
  return cat(function, tuple(arguments), "R");
}
inline std::string hooks() { return cat(name("collections", "OrderedDict"), ")R"); }

struct Tensor {
  std::string storage = "0", storage_class = "FloatStorage";
  int64_t elements = 2, offset = 0;
  std::vector<int64_t> size = {2}, stride = {1};
};

inline std::string storage(const Tensor& tensor) {
  return cat(tuple({text("storage"), name("torch", tensor.storage_class), text(tensor.storage), text("cpu"),
                    number(tensor.elements)}),
             "Q");
}
inline std::string tensor(const Tensor& tensor) {
  return call(name("torch._utils", "_rebuild_tensor_v2"),
              {storage(tensor), number(tensor.offset), numbers(tensor.size), numbers(tensor.stride), "\x89",
               hooks()});
}

// A tensor of a class of its own; `attributes` are keys and values in turn.
inline std::string typed_tensor(std::string_view module, std::string_view class_name,
                                const std::vector<std::string>& attributes) {
  const std::string cls = name(module, class_name);
  std::string state = "}(";
  for (const std::string& item : attributes) state += item;
  return call(
      name("torch._tensor", "_rebuild_from_type_v2"),
      {name("torch._utils", "_rebuild_wrapper_subclass"), cls,
       tuple({cls, name("torch", "float32"), numbers({2}), numbers({1}), number(0), "N", "N", "\x89"}),
       state + "u"});
}

// A whole pickle of one dictionary.
inline std::string dictionary(const std::vector<std::string>& keys_and_values) {
  std::string out = "\x80\x02}(";
  for (const std::string& item : keys_and_values) out += item;
  return out + "u.";
}

}  // namespace pickle

// One F32 tensor [2] of that name.
inline std::string one_torch_tensor(std::string_view name) {
  return torch_file(pickle::dictionary({pickle::text(name), pickle::tensor({})}), {"01234567"});
}

}  // namespace quaver::testing
