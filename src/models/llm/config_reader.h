// Strict access to a model's config: every wrong key is an error that names file and key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace quaver::models {

// Borrows the object. All failures are Error(kBadFile) whose field is the key. Null counts as absent.
class ConfigReader {
 public:
  ConfigReader(const json& object, std::string what);

  const std::string& what() const { return what_; }
  bool has(const char* key) const;
  const json& object() const { return object_; }

  // A whole number in [1, limit].
  int64_t count(const char* key, int64_t limit = kMaxCount) const;
  int64_t count_or(const char* key, int64_t fallback, int64_t limit = kMaxCount) const;
  // A whole number from 0 on.
  int64_t whole_or(const char* key, int64_t fallback) const;
  // Finite and above zero.
  double positive(const char* key) const;
  double positive_or(const char* key, double fallback) const;
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key, const char* fallback) const;
  std::vector<int64_t> numbers(const char* key) const;    // empty when absent
  std::vector<std::string> texts(const char* key) const;  // empty when absent
  // A nested object under the same rules; nothing when absent.
  std::optional<ConfigReader> nested(const char* key) const;

  template <class... Args>
  [[noreturn]] void bad(const char* key, const Args&... args) const {
    throw Error(ErrorKind::kBadFile, cat(what_, ": key '", key, "' ", args...), key);
  }
  template <class... Args>
  [[noreturn]] void unsupported(const char* key, const Args&... args) const {
    throw Error(ErrorKind::kUnsupported, cat(what_, ": key '", key, "' ", args...), key);
  }

  static constexpr int64_t kMaxCount = (int64_t{1} << 31) - 1;

 private:
  const json& value(const char* key) const;
  const json& object_;
  std::string what_;
};

}  // namespace quaver::models
