// In which order the members of one object stand in a JSON text; parsed objects forget it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quaver {

// The keys of the object that `path` leads to; empty when there is none. Precondition: the text is valid JSON
// within the usual limits.
std::vector<std::string> member_order(std::string_view text, const std::vector<std::string>& path);

}  // namespace quaver
