// Tensors that are rows of others: a checkpoint under other names than its files have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// Rows first .. first + count of a stored tensor; along the first dimension, whatever the others are.
struct RowPart {
  std::string name;    // as the result has it
  std::string stored;  // as the files do
  int64_t first = 0;
  int64_t count = -1;           // -1: all
  bool halves_swapped = false;  // the second half of the rows stands first
};

// What is no part of any is left out. Rows of blocks of codes are parts as well. Error(kBadFile) where a name
// stands twice. Precondition: the rows are inside the stored tensors, which exist.
std::unique_ptr<Checkpoint> present_row_parts(std::unique_ptr<Checkpoint> stored, std::vector<RowPart> parts);

}  // namespace quaver
