#include "formats/module_rules.h"

#include <algorithm>
#include <set>

namespace quaver {

std::vector<std::string> unmatched_keys(const Checkpoint& checkpoint, const std::vector<ModuleRule>& rules) {
  std::set<std::string> modules;
  for (const TensorInfo& tensor : checkpoint.tensors())
    modules.insert(tensor.name.substr(0, std::min(tensor.name.rfind('.'), tensor.name.size())));
  std::vector<std::string> unmatched;
  for (const ModuleRule& rule : rules) {
    const auto fits = [&](const std::string& name) { return rule.pattern->fit(name) != NamePattern::kNone; };
    if (std::none_of(modules.begin(), modules.end(), fits)) unmatched.push_back(rule.key);
  }
  return unmatched;
}

}  // namespace quaver
