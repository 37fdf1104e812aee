// Which of a config's rules fit no module of the checkpoint, for formats that keep their rules in lists of
// their own.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/name_pattern.h"

namespace quaver {

struct ModuleRule {
  const NamePattern* pattern;
  std::string key;  // as the file spells it
};

// Keys of the rules that fit no module that owns a tensor, in their order.
std::vector<std::string> unmatched_keys(const Checkpoint& checkpoint, const std::vector<ModuleRule>& rules);

}  // namespace quaver
