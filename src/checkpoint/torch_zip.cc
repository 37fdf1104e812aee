#include "checkpoint/torch_zip.h"

#include <algorithm>
#include <vector>

#include "checkpoint/checked.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint64_t kMax16 = 0xffff, kMax32 = 0xffffffff;  // "see the zip64 field"
constexpr uint64_t kEncrypted = 1;

// One entry of the directory at the archive's end.
struct Entry {
  std::string_view name;
  uint64_t flags, method, packed_bytes, size_bytes, header_offset;
  uint64_t data_offset = 0;
};

class Reader {
 public:
  Reader(Bytes file, std::string_view what) : file_(file), what_(what) {}

  TorchZip parse() {
    check_beginning();
    read_directory(find_directory());
    for (Entry& entry : entries_) locate(entry);
    check_overlap();
    return sort_out();
  }

 private:
  struct Directory {
    uint64_t count, size_bytes, offset, end;  // `end`: where the directory must stop
  };

  template <class... Args>
  void demand(bool holds, const Args&... message) const {
    require(holds, ErrorKind::kBadFile, what_, ": ", message...);
  }

  uint64_t number(size_t offset, size_t width) const { return read_little_endian(file_, offset, width); }
  std::string_view text(size_t offset, size_t size_bytes) const {
    return {reinterpret_cast<const char*>(file_.data()) + offset, size_bytes};
  }

  void check_beginning() const {
    constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
    demand(!file_.empty(), "is empty (0 bytes), expected PyTorch's zip archive");
    demand(!text(0, file_.size()).starts_with(kPointer),
           "is a Git LFS pointer, not the weights; fetch the real file with 'git lfs pull'");
    const bool pickle = file_[0] == std::byte{0x80};
    require(!pickle, ErrorKind::kUnsupported, what_,
            ": is a bare pickle as PyTorch before 1.6 wrote it; save it again with a current PyTorch, or as "
            "safetensors");
    const bool tar = file_.size() > 262 && text(257, 5) == "ustar";
    require(!tar, ErrorKind::kUnsupported, what_,
            ": is a tar archive as PyTorch before 0.2 wrote it; save it again as safetensors");
    demand(file_.size() >= 4 && number(0, 4) == kLocalHeader,
           "does not begin as PyTorch's zip archive does ('PK', 3, 4)");
  }

  // The end record stands last, before a comment whose length it tells.
  size_t find_end() const {
    const size_t furthest = std::min(file_.size(), kEndBytes + kMax16);
    for (size_t back = kEndBytes; back <= furthest; ++back) {
      const size_t at = file_.size() - back;
      if (number(at, 4) == kEnd && number(at + 20, 2) == back - kEndBytes) return at;
    }
    fail(ErrorKind::kBadFile, what_, ": the zip archive has no directory at its end (cut off?)");
  }

  Directory find_directory() const {
    const size_t at = find_end();
    const Directory small{number(at + 10, 2), number(at + 12, 4), number(at + 16, 4), at};
    demand(number(at + 4, 4) == 0, "the zip archive is one of several parts");
    if (at >= kLocatorBytes && number(at - kLocatorBytes, 4) == kEnd64Locator)
      return find_directory64(small, at - kLocatorBytes);
    demand(small.count != kMax16 && small.size_bytes != kMax32 && small.offset != kMax32,
           "the zip archive's directory lacks its zip64 record");
    return small;
  }

  Directory find_directory64(const Directory& small, size_t locator) const {
    const uint64_t at = number(locator + 8, 8);
    demand(at <= locator && locator - at == kEnd64Bytes && number(at, 4) == kEnd64,
           "the zip archive's zip64 record does not stand before its locator");
    const Directory large{number(at + 32, 8), number(at + 40, 8), number(at + 48, 8), at};
    demand((small.count == kMax16 || small.count == large.count) &&
               (small.size_bytes == kMax32 || small.size_bytes == large.size_bytes) &&
               (small.offset == kMax32 || small.offset == large.offset),
           "the zip archive's two end records disagree");
    return large;
  }

  void read_directory(const Directory& directory) {
    const auto end = checked_add(directory.offset, directory.size_bytes);
    demand(end && *end == directory.end, "the zip archive's directory of ", directory.size_bytes,
           " bytes at ", directory.offset, " does not end where its end record begins, at ", directory.end);
    directory_offset_ = directory.offset;
    size_t at = directory.offset;
    while (at < directory.end) at = read_entry(at, directory.end);
    demand(entries_.size() == directory.count, "the zip archive's directory has ", entries_.size(),
           " entries, its end record says ", directory.count);
  }

  // Returns where the next one begins.
  size_t read_entry(size_t at, size_t end) {
    demand(end - at >= kEntryBytes && number(at, 4) == kDirectoryEntry,
           "the zip archive's directory is broken at byte ", at);
    const size_t name_bytes = number(at + 28, 2), extra_bytes = number(at + 30, 2);
    const size_t whole = kEntryBytes + name_bytes + extra_bytes + number(at + 32, 2);
    demand(whole <= end - at, "the zip archive's directory is cut off at byte ", at);
    Entry entry{.name = text(at + kEntryBytes, name_bytes),
                .flags = number(at + 8, 2),
                .method = number(at + 10, 2),
                .packed_bytes = number(at + 20, 4),
                .size_bytes = number(at + 24, 4),
                .header_offset = number(at + 42, 4)};
    widen(entry, at + kEntryBytes + name_bytes, extra_bytes);
    entries_.push_back(entry);
    return at + whole;
  }

  // The zip64 field carries, in this order, the numbers that are all ones in the entry itself.
  void widen(Entry& entry, size_t at, size_t size_bytes) const {
    const size_t end = at + size_bytes;
    while (end - at >= 4 && number(at, 2) != 1) at += std::min<size_t>(4 + number(at + 2, 2), end - at);
    const size_t field_end = end - at >= 4 ? std::min<size_t>(end, at + 4 + number(at + 2, 2)) : at;
    at = std::min(at + 4, field_end);
    for (uint64_t* value : {&entry.size_bytes, &entry.packed_bytes, &entry.header_offset}) {
      if (*value != kMax32) continue;
      demand(field_end - at >= 8, "zip entry ", printable(entry.name), " lacks its zip64 field");
      *value = number(at, 8);
      at += 8;
    }
  }

  // Finds the data behind the entry's own header, which must agree with the directory.
  void locate(Entry& entry) const {
    const auto refuse = [&](const auto&... message) {
      fail(ErrorKind::kUnsupported, what_, ": zip entry ", printable(entry.name), message...);
    };
    if (entry.flags & kEncrypted) refuse(" is encrypted");
    if (entry.method != 0)
      refuse(" is compressed (method ", entry.method,
             "), which torch.save does not do; unpack and save again");
    demand(entry.packed_bytes == entry.size_bytes, "zip entry ", printable(entry.name), " takes ",
           entry.packed_bytes, " bytes for ", entry.size_bytes);
    const uint64_t at = entry.header_offset;
    demand(at < directory_offset_ && directory_offset_ - at >= kLocalBytes && number(at, 4) == kLocalHeader,
           "zip entry ", printable(entry.name), " has no header at byte ", at);
    const uint64_t name_bytes = number(at + 26, 2), extra_bytes = number(at + 28, 2);
    entry.data_offset = at + kLocalBytes + name_bytes + extra_bytes;
    demand(
        entry.data_offset <= directory_offset_ && entry.size_bytes <= directory_offset_ - entry.data_offset,
        "zip entry ", printable(entry.name), " of ", entry.size_bytes, " bytes at ", entry.data_offset,
        " runs past the entries' end at ", directory_offset_);
    demand(text(at + kLocalBytes, name_bytes) == entry.name && number(at + 8, 2) == 0, "zip entry ",
           printable(entry.name), " has another header than the directory says");
  }

  void check_overlap() {
    const auto by_offset = [](const Entry& a, const Entry& b) { return a.header_offset < b.header_offset; };
    std::sort(entries_.begin(), entries_.end(), by_offset);
    for (size_t i = 1; i < entries_.size(); ++i)
      demand(entries_[i - 1].data_offset + entries_[i - 1].size_bytes <= entries_[i].header_offset,
             "zip entry ", printable(entries_[i].name), " overlaps ", printable(entries_[i - 1].name));
  }

  // "<archive>/data.pkl" gives the folder in which all others must lie.
  std::string_view archive_folder() const {
    std::string_view folder;
    for (const Entry& entry : entries_) {
      const size_t slash = entry.name.find('/');
      if (slash == entry.name.npos || entry.name.substr(slash + 1) != "data.pkl") continue;
      demand(folder.empty(), "the zip archive holds more than one data.pkl");
      folder = entry.name.substr(0, slash + 1);
    }
    demand(!folder.empty(), "the zip archive holds no data.pkl, so torch.save did not write it");
    return folder;
  }

  void check_names() const {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    demand(twice == names.end(), "zip entry ", twice == names.end() ? "" : printable(*twice),
           " stands twice");
  }

  TorchZip sort_out() const {
    check_names();
    const std::string_view folder = archive_folder();
    TorchZip zip;
    for (const Entry& entry : entries_) {
      demand(entry.name.starts_with(folder), "zip entry ", printable(entry.name), " lies outside ",
             printable(folder));
      take(entry.name.substr(folder.size()), {entry.data_offset, entry.size_bytes}, zip);
    }
    return zip;
  }

  void take(std::string_view name, TorchZip::Range range, TorchZip& zip) const {
    require(name != "constants.pkl" && !name.starts_with("code/"), ErrorKind::kUnsupported, what_,
            ": is a TorchScript program, not a set of tensors");
    if (name == "byteorder")
      require(text(range.offset, range.size_bytes) == "little", ErrorKind::kUnsupported, what_,
              ": has byte order ", printable(text(range.offset, range.size_bytes), 20),
              ", expected 'little'");
    if (name == "data.pkl") zip.pickle = range;
    if (name.starts_with("data/")) zip.storages.emplace(name.substr(5), range);
  }

  Bytes file_;
  std::string_view what_;
  uint64_t directory_offset_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace

TorchZip parse_torch_zip(std::span<const std::byte> file, std::string_view what) {
  return Reader(file, what).parse();
}

}  // namespace quaver
