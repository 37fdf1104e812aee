#include "models/llm/config_reader.h"

#include <cmath>
#include <utility>

namespace quaver::models {

namespace {

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80);
}

// Writers in Python sometimes store whole numbers as floats.
std::optional<int64_t> whole(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(ConfigReader::kMaxCount))
    return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > static_cast<double>(ConfigReader::kMaxCount))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

ConfigReader::ConfigReader(const json& object, std::string what) : object_(object), what_(std::move(what)) {
  require(object_.is_object(), ErrorKind::kBadFile, what_, " must be a JSON object");
}

bool ConfigReader::has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

const json& ConfigReader::value(const char* key) const {
  if (!has(key)) bad(key, "is missing");
  return object_.at(key);
}

int64_t ConfigReader::count(const char* key, int64_t limit) const {
  const json& found = value(key);
  std::optional<int64_t> number = whole(found);
  if (!number || *number < 1 || *number > limit)
    bad(key, "must be a whole number from 1 to ", limit, ", got ", shown(found));
  return *number;
}

int64_t ConfigReader::count_or(const char* key, int64_t fallback, int64_t limit) const {
  return has(key) ? count(key, limit) : fallback;
}

int64_t ConfigReader::whole_or(const char* key, int64_t fallback) const {
  if (!has(key)) return fallback;
  std::optional<int64_t> number = whole(value(key));
  if (!number || *number < 0) bad(key, "must be a whole number from 0 on, got ", shown(value(key)));
  return *number;
}

double ConfigReader::positive(const char* key) const {
  const json& found = value(key);
  double number = found.is_number() ? found.get<double>() : 0;
  if (!std::isfinite(number) || number <= 0) bad(key, "must be a number above zero, got ", shown(found));
  return number;
}

double ConfigReader::positive_or(const char* key, double fallback) const {
  return has(key) ? positive(key) : fallback;
}

bool ConfigReader::flag(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!value(key).is_boolean()) bad(key, "must be true or false, got ", shown(value(key)));
  return value(key).get<bool>();
}

std::string ConfigReader::text(const char* key, const char* fallback) const {
  if (!has(key)) return fallback;
  if (!value(key).is_string()) bad(key, "must be text, got ", shown(value(key)));
  return value(key).get<std::string>();
}

std::vector<int64_t> ConfigReader::numbers(const char* key) const {
  std::vector<int64_t> result;
  if (!has(key)) return result;
  if (!value(key).is_array()) bad(key, "must be a list of whole numbers, got ", shown(value(key)));
  for (const json& item : value(key)) {
    std::optional<int64_t> number = whole(item);
    if (!number) bad(key, "must be a list of whole numbers, got ", shown(item), " in it");
    result.push_back(*number);
  }
  return result;
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  std::vector<std::string> result;
  if (!has(key)) return result;
  if (!value(key).is_array()) bad(key, "must be a list of texts, got ", shown(value(key)));
  for (const json& item : value(key)) {
    if (!item.is_string()) bad(key, "must be a list of texts, got ", shown(item), " in it");
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::optional<ConfigReader> ConfigReader::nested(const char* key) const {
  if (!has(key)) return std::nullopt;
  if (!value(key).is_object()) bad(key, "must be an object, got ", shown(value(key)));
  return ConfigReader(value(key), cat(what_, ": ", key));
}

}  // namespace quaver::models
