#include "base/json.h"

#include <set>
#include <vector>

#include "base/mapped_file.h"

namespace quaver {
namespace {

// Walks the text once without building anything, so that depth and double keys are refused before memory is
// spent on a tree.
class LimitChecker : public nlohmann::json_sax<json> {
 public:
  explicit LimitChecker(const JsonLimits& limits) : limits_(limits) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool end_object() override {
    keys_.pop_back();
    return leave();
  }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (!limits_.unique_keys || keys_.back().insert(name).second) return true;
    error_ = cat("key '", name.substr(0, 80), "' stands twice in one object");
    return false;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    error_ = cat("is not valid JSON at byte ", position, " (", reason(e.what()), ")");
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  // The library's own words without its error number and without the text it quotes, which may be long or
  // broken UTF-8.
  static std::string reason(std::string_view words) {
    size_t number = words.find("] ");
    if (number != words.npos) words.remove_prefix(number + 2);
    return std::string(words.substr(0, words.find("; last read:")).substr(0, 200));
  }
  bool enter() {
    if (++depth_ <= limits_.max_depth) return true;
    error_ = cat("is nested deeper than ", limits_.max_depth, " levels");
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }
  const JsonLimits& limits_;
  std::vector<std::set<std::string>> keys_;
  int depth_ = 0;
  std::string error_;
};

}  // namespace

json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  require(text.size() <= limits.max_bytes, ErrorKind::kBadFile, what, ": is ", text.size(),
          " bytes of JSON, more than the ", limits.max_bytes, " allowed");
  // The library takes a zero byte for the end of its input and would not see what follows.
  size_t zero = text.find('\0');
  require(zero == text.npos, ErrorKind::kBadFile, what, ": is not valid JSON at byte ", zero,
          " (a zero byte)");
  LimitChecker checker(limits);
  if (!json::sax_parse(text, &checker)) fail(ErrorKind::kBadFile, what, ": ", checker.error());
  return json::parse(text);
}

json read_json_file(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text_file(path, limits.max_bytes), path, limits);
}

}  // namespace quaver
