// Typed access to the fields of tokenizer components.
#include "text/tokenizer/model_fields.h"

#include <algorithm>

#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {

Vocabulary read_vocabulary(const json& spec, std::string_view what) {
  const auto it = spec.find("vocab");
  require(it != spec.end() && it->is_object(), ErrorKind::kBadFile, what,
          ": the model has no object 'vocab'");
  // Real vocabularies have few holes; memory must not depend on a number that a small file makes up.
  const size_t limit = std::min<size_t>(Vocabulary::kMaxId, 8 * it->size() + 65536);
  Vocabulary vocabulary;
  for (const auto& [token, id] : it->items()) {
    const auto number = whole_number(id, limit);
    if (!number)
      fail(ErrorKind::kBadFile, what, ": the id of token '", shown(token), "' is ", shown(id.dump()),
           ", expected a whole number up to ", limit);
    vocabulary.add(token, static_cast<int64_t>(*number), what);
  }
  require(vocabulary.size() > 0, ErrorKind::kBadFile, what, ": the vocabulary is empty");
  return vocabulary;
}

std::optional<std::string> optional_text(const json& spec, const char* key, std::string_view what) {
  const auto it = spec.find(key);
  if (it == spec.end() || it->is_null()) return std::nullopt;
  return json_required<std::string>(spec, key, what);
}

char32_t read_character(const json& spec, const char* key, std::string_view what) {
  const auto text = json_required<std::string>(spec, key, what);
  require(!text.empty() && utf8_length(text[0]) == text.size(), ErrorKind::kBadFile, what, ": key '", key,
          "' is '", shown(text), "', expected one character");
  size_t position = 0;
  return utf8_next(text, position);
}

std::optional<size_t> whole_number(const json& value, size_t limit) {
  if (!value.is_number_integer()) return std::nullopt;
  if (!value.is_number_unsigned() && value.get<int64_t>() < 0) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > limit) return std::nullopt;
  return static_cast<size_t>(number);
}

size_t read_count(const json& spec, const char* key, size_t fallback, size_t limit, std::string_view what) {
  const auto it = spec.find(key);
  if (it == spec.end() || it->is_null()) return fallback;
  const auto number = whole_number(*it, limit);
  require(number.has_value(), ErrorKind::kBadFile, what, ": key '", key, "' is ", shown(it->dump()),
          ", expected a whole number up to ", limit);
  return *number;
}

std::string read_type(const json& spec, std::string_view what) {
  require(spec.is_object(), ErrorKind::kBadFile, what, " is not an object");
  return json_required<std::string>(spec, "type", what);
}

}  // namespace quaver::text
