#include "formats/name_pattern.h"

#include "base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace quaver {

// A compiled expression; matching needs a scratch block of its own, so that threads don't meet.
struct NamePattern::Expression {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  std::string what;

  ~Expression() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }

  bool hits(std::string_view text, const std::string& key) const {
    pcre2_match_data* scratch = pcre2_match_data_create(1, nullptr);
    require(scratch != nullptr, ErrorKind::kOutOfMemory, what, ": no memory to match '", key, "'");
    const int result =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, scratch, context);
    pcre2_match_data_free(scratch);
    require(result >= 0 || result == PCRE2_ERROR_NOMATCH, ErrorKind::kBadFile, what, ": the expression '",
            key.substr(0, 200), "' takes too long to match '", text.substr(0, 200), "'");
    return result >= 0;
  }
};

namespace {

// Python's re is what wrote these expressions; a layer name is short, so honest ones stay far below the
// limits.
constexpr uint32_t kMatchLimit = 200000;
constexpr uint32_t kHeapLimitKib = 4096;

bool has_run_of_components(std::string_view layer, std::string_view run) {
  if (run.empty()) return false;
  for (size_t at = layer.find(run); at != std::string_view::npos; at = layer.find(run, at + 1)) {
    const size_t end = at + run.size();
    if ((at == 0 || layer[at - 1] == '.') && (end == layer.size() || layer[end] == '.')) return true;
  }
  return false;
}

}  // namespace

NamePattern NamePattern::name(std::string key) { return NamePattern(std::move(key)); }

NamePattern NamePattern::components(std::string key) {
  NamePattern pattern(std::move(key));
  pattern.only_components_ = true;
  return pattern;
}

NamePattern NamePattern::search(std::string key, std::string_view what) {
  return expression(std::move(key), what, false);
}

NamePattern NamePattern::match_start(std::string key, std::string_view what) {
  return expression(std::move(key), what, true);
}

NamePattern NamePattern::glob(std::string key) {
  std::string text;
  for (const char c : key) {
    if (std::string_view(".+^$()[]{}|\\").find(c) != std::string_view::npos) text.push_back('\\');
    text += c == '*' ? ".*" : c == '?' ? "." : std::string(1, c);
  }
  NamePattern pattern = expression(text + "$", key, true);
  pattern.key_ = std::move(key);
  return pattern;
}

NamePattern NamePattern::expression(std::string key, std::string_view what, bool from_start) {
  int error = 0;
  size_t at = 0;
  auto compiled = std::make_shared<Expression>();
  compiled->what = what;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(key.data()), key.size(),
                                 from_start ? PCRE2_ANCHORED : 0, &error, &at, nullptr);
  require(compiled->code != nullptr, ErrorKind::kBadFile, what, ": '", key.substr(0, 200),
          "' is not a valid regular expression at character ", at);
  compiled->context = pcre2_match_context_create(nullptr);
  require(compiled->context != nullptr, ErrorKind::kOutOfMemory, what, ": no memory to compile '", key, "'");
  pcre2_set_match_limit(compiled->context, kMatchLimit);
  pcre2_set_heap_limit(compiled->context, kHeapLimitKib);
  NamePattern pattern(std::move(key));
  pattern.expression_ = std::move(compiled);
  return pattern;
}

NamePattern::Fit NamePattern::fit(std::string_view layer) const {
  if (expression_) return expression_->hits(layer, key_) ? kPattern : kNone;
  if (layer == key_) return kExact;
  if (!only_components_ && layer.size() > key_.size() && layer.ends_with(key_) &&
      layer[layer.size() - key_.size() - 1] == '.')
    return kSuffix;
  return has_run_of_components(layer, key_) ? kInside : kNone;
}

bool NamePattern::looks_like_expression(std::string_view key) {
  return key.find_first_of("*+?^$()[]{}|\\") != std::string_view::npos;
}

}  // namespace quaver
