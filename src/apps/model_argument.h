// The MODEL argument of every command: a folder or a .gguf file.
#pragma once

#include <string>

namespace quaver::apps {

// The folder or file to open. A repository id is looked up in the local cache and downloaded when it is not
// there. Error(kNotFound) says what was tried.
std::string resolve_model(const std::string& argument);

}  // namespace quaver::apps
