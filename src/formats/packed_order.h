// The order in which eight neighbouring output columns share a word in the interleaved packing.
#pragma once

namespace quaver {

// Slot i of a run of eight holds column kInterleave[i].
inline constexpr int kInterleave[8] = {0, 2, 4, 6, 1, 3, 5, 7};

}  // namespace quaver
