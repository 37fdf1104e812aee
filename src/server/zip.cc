#include "server/zip.h"

#include <boost/crc.hpp>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace quaver::server {
namespace {

constexpr uint16_t kVersion = 10,
                   kFirstDate = (0 << 9) | (1 << 5) | 1;  // 1.0: stored files; years count from 1980

void put(std::string& out, uint16_t value) {
  out.push_back(static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(value >> 8));
}

void put(std::string& out, uint32_t value) {
  put(out, static_cast<uint16_t>(value & 0xffff));
  put(out, static_cast<uint16_t>(value >> 16));
}

// What the local and the central header of a file have in common.
void put_facts(std::string& out, const ZipEntry& entry) {
  boost::crc_32_type crc;
  crc.process_bytes(entry.data.data(), entry.data.size());
  const auto size = static_cast<uint32_t>(entry.data.size());
  for (uint16_t value : {kVersion, uint16_t{0}, uint16_t{0}, uint16_t{0}, kFirstDate}) put(out, value);
  for (uint32_t value : {static_cast<uint32_t>(crc.checksum()), size, size}) put(out, value);
  put(out, static_cast<uint16_t>(entry.name.size()));
  put(out, uint16_t{0});  // no extra field
}

}  // namespace

std::string zip_archive(std::span<const ZipEntry> entries) {
  std::string out, directory;
  for (const ZipEntry& entry : entries) {
    const auto offset = static_cast<uint32_t>(out.size());
    put(out, uint32_t{0x04034b50});
    put_facts(out, entry);
    out += entry.name;
    out.append(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
    require(out.size() <= std::numeric_limits<uint32_t>::max() / 2 && entries.size() <= 65535,
            ErrorKind::kInvalidInput, "the files are more than a ZIP archive holds");
    put(directory, uint32_t{0x02014b50});
    put(directory, kVersion);
    put_facts(directory, entry);
    for (int i = 0; i < 3; ++i) put(directory, uint16_t{0});  // no comment, first disk, attributes
    put(directory, uint32_t{0});
    put(directory, offset);
    directory += entry.name;
  }
  const auto start = static_cast<uint32_t>(out.size());
  const auto count = static_cast<uint16_t>(entries.size());
  out += directory;
  put(out, uint32_t{0x06054b50});
  for (uint16_t value : {uint16_t{0}, uint16_t{0}, count, count}) put(out, value);
  put(out, static_cast<uint32_t>(directory.size()));
  put(out, start);
  put(out, uint16_t{0});
  return out;
}

}  // namespace quaver::server
