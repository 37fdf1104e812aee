// Fixed texts and regular expressions behind one face.
#include "text/tokenizer/text_pattern.h"

#include "base/error.h"

namespace quaver::text {

TextPattern TextPattern::literal(std::string text, std::string_view what) {
  if (text.empty()) return regex("", what);  // matches between all characters
  TextPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

TextPattern TextPattern::regex(std::string_view pattern, std::string_view what) {
  TextPattern result;
  result.regex_ = Regex::compile(pattern, what);
  return result;
}

TextPattern read_pattern(const json& spec, std::string_view what) {
  const auto it = spec.find("pattern");
  if (it != spec.end() && it->is_object() && it->size() == 1 && it->begin()->is_string()) {
    const auto& text = it->begin()->get_ref<const std::string&>();
    if (it->begin().key() == "String") return TextPattern::literal(text, what);
    if (it->begin().key() == "Regex") return TextPattern::regex(text, what);
  }
  fail(ErrorKind::kBadFile, what, ": key 'pattern' is neither {\"String\": text} nor {\"Regex\": text}");
}

}  // namespace quaver::text
