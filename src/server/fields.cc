#include "server/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>

#include "base/log.h"
#include "server/errors.h"

namespace quaver::server {
namespace {

constexpr size_t kMaxErrors = 20;

// A value the way Python prints it, cut to what fits in a message.
std::string python_repr(const json& value) {
  std::string out;
  if (value.is_null()) {
    out = "None";
  } else if (value.is_boolean()) {
    out = value.get<bool>() ? "True" : "False";
  } else if (value.is_string()) {
    out = cat("'", value.get_ref<const std::string&>().substr(0, 120), "'");
  } else if (value.is_structured() && value.size() > 8) {
    out = cat("<", value.type_name(), " of ", value.size(), ">");
  } else {
    out = value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (out.size() <= 120) return out;
  size_t end = 117;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xc0) == 0x80) --end;
  return out.substr(0, end) + "...";
}

std::string python_loc(std::string_view path) {
  std::string out = "('body'";
  while (!path.empty()) {
    std::string_view part = path.substr(0, path.find('.'));
    bool index =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    out += index ? cat(", ", part) : cat(", '", part, "'");
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return out + (out == "('body'" ? ",)" : ")");
}

std::string record(std::string_view type, std::string_view path, std::string_view message,
                   const json& input) {
  return cat("{'type': '", type, "', 'loc': ", python_loc(path), ", 'msg': '", message,
             "', 'input': ", python_repr(input), "}");
}

[[noreturn]] void refuse_body(std::string_view type, std::string_view message) {
  throw ApiError(400, "Bad Request", cat("1 validation error: ", record(type, "", message, nullptr)), "body");
}

bool is_number_text(const std::string& text) {
  double value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string number_text(double value) { return cat(value); }

// A client that makes names up must not fill the log or the memory.
void log_unknown(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  std::string shown;
  for (char c : name.substr(0, 64)) shown.push_back(c > 0x20 && c < 0x7f ? c : '?');
  std::lock_guard lock(mutex);
  if (logged.size() < 256 && logged.insert(shown).second)
    log_warning("request field '", shown, "' is not known and is ignored");
}

bool is_json_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  std::string lowered(type);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered == "application/json" || (lowered.starts_with("application/") && lowered.ends_with("+json"));
}

}  // namespace

json parse_body(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (!type || !is_json_type(*type))
    throw ApiError(400, "Bad Request", "this route takes a body of Content-Type application/json", "");
  json body;
  try {
    body = parse_json(request.body, "the request body");
  } catch (const Error& e) {
    std::string message = e.what();
    std::replace(message.begin(), message.end(), '\'', '"');
    refuse_body("json_invalid", message);
  }
  if (!body.is_object()) refuse_body("dict_type", "the request body must be a JSON object");
  return body;
}

Fields::Fields(json body, Twice twice) : body_(std::move(body)) {
  known_.insert("extra_body");
  auto extra = body_.find("extra_body");
  if (extra == body_.end() || extra->is_null()) return;
  if (!extra->is_object()) {
    wrong("dict_type", "extra_body", "must be an object", *extra);
    return;
  }
  json inner = std::move(*extra);
  for (auto& [name, value] : inner.items()) {
    auto [place, fresh] = body_.emplace(name, value);
    if (!fresh && name != "extra_body" && (twice == Twice::kNever || *place != value))
      wrong("value_error", name, cat("stands in both body.", name, " and body.extra_body.", name), value);
  }
}

const json* Fields::raw(const char* name) {
  known_.insert(name);
  auto found = body_.find(name);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::stated(const char* name) const { return body_.contains(name); }

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.insert(name);
}

std::optional<bool> Fields::boolean(const char* name) {
  const json* value = raw(name);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(value->is_string() ? "bool_parsing" : "bool_type", name, "must be true or false", *value);
  return std::nullopt;
}

std::optional<int64_t> Fields::check_integer(const json& value, std::string_view path, IntRange range) {
  if (value.is_string()) {
    bool numeric = is_number_text(value.get_ref<const std::string&>());
    wrong(numeric ? "int_type" : "int_parsing", path, "must be a whole number, not text", value);
    return std::nullopt;
  }
  if (!value.is_number()) return wrong("int_type", path, "must be a whole number", value), std::nullopt;
  bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (value.is_number_float()) {
    double number = value.get<double>();
    if (number != std::trunc(number))
      return wrong("int_from_float", path, "must be a whole number", value), std::nullopt;
    too_large = number >= 0x1p63;
    if (number < -0x1p63)
      return wrong("greater_than_equal", path, cat("must be at least ", range.low), value), std::nullopt;
  }
  if (too_large || value.get<int64_t>() > range.high)
    return wrong("less_than_equal", path, cat("must be at most ", range.high), value), std::nullopt;
  if (value.get<int64_t>() < range.low)
    return wrong("greater_than_equal", path, cat("must be at least ", range.low), value), std::nullopt;
  return value.get<int64_t>();
}

std::optional<double> Fields::check_number(const json& value, std::string_view path, NumberRange range) {
  if (value.is_string()) {
    bool numeric = is_number_text(value.get_ref<const std::string&>());
    wrong(numeric ? "float_type" : "float_parsing", path, "must be a number, not text", value);
    return std::nullopt;
  }
  if (!value.is_number()) return wrong("float_type", path, "must be a number", value), std::nullopt;
  double number = value.get<double>();
  if (!std::isfinite(number)) return wrong("finite_number", path, "must be finite", value), std::nullopt;
  if (range.above_low && number <= range.low)
    return wrong("greater_than", path, cat("must be greater than ", number_text(range.low)), value),
           std::nullopt;
  if (number < range.low)
    return wrong("greater_than_equal", path, cat("must be at least ", number_text(range.low)), value),
           std::nullopt;
  if (number > range.high)
    return wrong("less_than_equal", path, cat("must be at most ", number_text(range.high)), value),
           std::nullopt;
  return number;
}

std::optional<int64_t> Fields::integer(const char* name, IntRange range) {
  const json* value = raw(name);
  return value ? check_integer(*value, name, range) : std::nullopt;
}

std::optional<double> Fields::number(const char* name, NumberRange range) {
  const json* value = raw(name);
  return value ? check_number(*value, name, range) : std::nullopt;
}

std::optional<std::string> Fields::text(const char* name, TextRange range) {
  const json* value = raw(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) return wrong("string_type", name, "must be text", *value), std::nullopt;
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() < range.low)
    return wrong("string_too_short", name, cat("must have at least ", range.low, " characters"), *value),
           std::nullopt;
  if (text.size() > range.high)
    return wrong("string_too_long", name, cat("must have at most ", range.high, " characters"), *value),
           std::nullopt;
  return text;
}

std::optional<std::string> Fields::word(const char* name, std::span<const std::string_view> words) {
  std::optional<std::string> value = text(name);
  if (!value || std::find(words.begin(), words.end(), *value) != words.end()) return value;
  std::string list;
  for (std::string_view word : words) list += cat(list.empty() ? "" : ", ", word);
  wrong("literal_error", name, cat("must be one of ", list), *value);
  return std::nullopt;
}

std::optional<std::vector<int32_t>> Fields::token_ids(const char* name, int32_t vocab_size, size_t most) {
  const json* value = list(name);
  if (!value) return std::nullopt;
  if (value->size() > most)
    return wrong("too_long", name, cat("must have at most ", most, " entries"), value->size()), std::nullopt;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < value->size(); ++i)
    if (auto id = check_integer((*value)[i], cat(name, ".", i), {0, vocab_size - 1}))
      ids.push_back(static_cast<int32_t>(*id));
  return ids;
}

const json* Fields::object(const char* name) {
  const json* value = raw(name);
  if (!value || value->is_object()) return value;
  return wrong("dict_type", name, "must be an object", *value), nullptr;
}

const json* Fields::list(const char* name) {
  const json* value = raw(name);
  if (!value || value->is_array()) return value;
  return wrong("list_type", name, "must be a list", *value), nullptr;
}

void Fields::wrong(std::string_view type, std::string_view path, std::string_view message,
                   const json& input) {
  if (errors_.empty()) first_path_ = path;
  if (errors_.size() < kMaxErrors) errors_.push_back(record(type, path, message, input));
}

void Fields::missing(std::string_view path) { wrong("missing", path, "is required"); }

void Fields::finish() {
  for (const auto& [name, value] : body_.items())
    if (!known_.contains(name)) log_unknown(name);
  if (errors_.empty()) return;
  std::string message =
      cat(errors_.size(), errors_.size() == 1 ? " validation error: " : " validation errors: ");
  for (size_t i = 0; i < errors_.size(); ++i) message += cat(i ? ", " : "", errors_[i]);
  throw ApiError(400, "Bad Request", std::move(message), cat("body.", first_path_));
}

}  // namespace quaver::server
