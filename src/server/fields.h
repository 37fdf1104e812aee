// Typed access to a request body that gathers every problem, in pydantic's words, before it refuses.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/http_types.h"

namespace quaver::server {

// The body of a JSON route: an object. Throws ApiError 400 (json_invalid, dict_type) or for a content type
// other than application/json.
json parse_body(const HttpRequest& request);

struct IntRange {
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
};
struct NumberRange {
  double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
  bool above_low = false;  // the low end itself is out
};
struct TextRange {
  size_t low = 0, high = std::numeric_limits<size_t>::max();  // bytes
};

// One request's fields. An absent field and null are alike. A getter that finds a wrong value notes it and
// returns nothing; finish() then throws one ApiError 400 that lists all of them, its param the first.
class Fields {
 public:
  enum class Twice { kMayAgree, kNever };
  // Members of `extra_body` count as members of the body; a field that stands in both with two values, or
  // (kNever) at all, is wrong.
  explicit Fields(json body, Twice twice = Twice::kMayAgree);

  std::optional<bool> boolean(const char* name);
  std::optional<int64_t> integer(const char* name, IntRange range = {});
  std::optional<double> number(const char* name, NumberRange range = {});
  std::optional<std::string> text(const char* name, TextRange range = {});
  std::optional<std::string> word(const char* name, std::span<const std::string_view> words);
  std::optional<std::vector<int32_t>> token_ids(const char* name, int32_t vocab_size, size_t most);
  const json* object(const char* name);  // null when absent or wrong
  const json* list(const char* name);
  const json* raw(const char* name);  // any type; null when absent
  // True when the field is there, whatever its type, null included.
  bool stated(const char* name) const;
  void ignore(std::initializer_list<const char*> names);

  // `path` is dotted: "messages.0.role".
  void wrong(std::string_view type, std::string_view path, std::string_view message,
             const json& input = nullptr);
  void missing(std::string_view path);
  // Checks a value that is not a member of the body itself.
  std::optional<int64_t> check_integer(const json& value, std::string_view path, IntRange range);
  std::optional<double> check_number(const json& value, std::string_view path, NumberRange range);

  bool good() const { return errors_.empty(); }
  // Throws when something was wrong. Also logs the names that nobody asked for, each once per process.
  void finish();

 private:
  json body_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> errors_;
  std::string first_path_;
};

}  // namespace quaver::server
