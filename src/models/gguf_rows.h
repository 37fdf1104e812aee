// Rows of queries and keys as files with interleaved rotations keep them: pairs next to each other.
#pragma once

#include <cstdint>

#include "base/buffer.h"

namespace quaver::models {

// `count` rows of equal length, of `heads` heads with d = count / heads rows each, an even number. In a model
// row j + h d/2 of a head is half h of pair j; in a file it is the head's row 2j + h.
Buffer interleaved_rows(const Buffer& rows, int64_t heads, int64_t count);  // as in a file
Buffer parted_rows(const Buffer& rows, int64_t heads, int64_t count);       // as in a model

}  // namespace quaver::models
