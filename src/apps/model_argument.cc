#include "apps/model_argument.h"

#include <filesystem>

#include "base/error.h"

namespace quaver::apps {

std::string resolve_model(const std::string& argument) {
  require(std::filesystem::exists(argument), ErrorKind::kNotFound, argument,
          ": is neither a folder nor a .gguf file here; repository ids are not downloaded yet");
  return argument;
}

}  // namespace quaver::apps
