// What tokenizer_config.json and special_tokens_map.json say about the tokenizer beside them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"

namespace quaver::models {

// Files that a folder lacks say nothing. Errors are Error(kBadFile) naming file and key.
class TokenizerSettings {
 public:
  explicit TokenizerSettings(const std::filesystem::path& folder);

  // "pad_token" and the like: by the first of the two files, else by the second.
  std::optional<std::string> special_token(const char* key) const;
  // A key of the first; empty when absent.
  std::string text(const char* key) const;

 private:
  struct File {
    std::string path;
    json object;
  };
  static File read(const std::filesystem::path& file);
  File config_, map_;
};

}  // namespace quaver::models
