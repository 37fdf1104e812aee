// Python's pickle opcodes, as far as torch.save writes them, without Python: nothing is imported or called.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "checkpoint/pickle_value.h"

namespace quaver {

inline constexpr size_t kMaxPickleBytes = size_t{32} << 20;  // without the storages
inline constexpr size_t kMaxPickleValues = size_t{1} << 22;

// `pickle` must outlive the result; `what` begins every message. Functions and classes become names, calls of
// them become kCall values; a name outside checkpoint/pickle_names.h is Error(kUnsupported). Broken pickles
// and those beyond the limits are Error(kBadFile); an opcode that torch.save does not write is
// Error(kUnsupported). Memory stays in proportion to the pickle and the work to its length.
PickleTree read_pickle(std::span<const std::byte> pickle, std::string_view what);

}  // namespace quaver
