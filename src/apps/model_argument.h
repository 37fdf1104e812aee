// The MODEL argument of every command: a folder, a .gguf file, or a repository id.
#pragma once

#include <string>

#include "hub/pull.h"

namespace quaver::apps {

// The folder or file to open. What does not exist as a path and looks like ORG/NAME, ORG/NAME@REVISION or
// ORG/NAME:FILE is looked up in the cache and, unless HF_HUB_OFFLINE is set, pulled, which standard error
// tells. Error(kNotFound) says what was tried.
std::string resolve_model(const std::string& argument);

// True when `argument` is no path here, but may be a repository id.
bool is_repository(const std::string& argument);

// Pulls with a progress bar and a summary on standard error; returns the path.
std::string pull_and_tell(const hub::PullOptions& options, bool quiet);

}  // namespace quaver::apps
