// The zip archive that torch.save writes: where the pickle and the bytes of each storage lie in the file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quaver {

struct TorchZip {
  struct Range {
    uint64_t offset = 0, size_bytes = 0;  // of the file; inside it
  };
  Range pickle;                                             // "<archive>/data.pkl"
  std::map<std::string_view, Range, std::less<>> storages;  // "0" for "<archive>/data/0"; views of the file
};

// `file` is the whole file and must outlive the result, `what` its name for messages. Entries are stored, not
// compressed, lie in one folder, and neither overlap nor stand twice; zip64 or not. Memory stays in
// proportion to the archive's directory. Throws Error(kBadFile), or kUnsupported for what other tools or old
// versions of PyTorch write: compressed entries, TorchScript, big-endian bytes, pickles outside an archive.
TorchZip parse_torch_zip(std::span<const std::byte> file, std::string_view what);

}  // namespace quaver
