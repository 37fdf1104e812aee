#include "formats/member_order.h"

#include "base/json.h"

namespace quaver {
namespace {

// Follows the path down through objects and writes down the keys of the last one.
class KeyCollector : public nlohmann::json_sax<json> {
 public:
  explicit KeyCollector(const std::vector<std::string>& path) : path_(path) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    const bool on_path = depth_ == 0 || (depth_ == matched_ && next_matches_);
    ++depth_;
    if (on_path) matched_ = depth_;
    next_matches_ = false;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override {
    ++depth_;
    next_matches_ = false;
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ != matched_) return true;
    if (depth_ == path_.size() + 1) {
      keys_.push_back(name);
    } else {
      next_matches_ = name == path_[depth_ - 1];
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  std::vector<std::string> take() { return std::move(keys_); }

 private:
  bool leave() {
    if (matched_ == depth_) --matched_;
    --depth_;
    next_matches_ = false;
    return true;
  }

  const std::vector<std::string>& path_;
  size_t depth_ = 0;           // of the object or array we are in
  size_t matched_ = 0;         // equal to depth_ while we are on the path
  bool next_matches_ = false;  // the value that comes next is the path's next step
  std::vector<std::string> keys_;
};

}  // namespace

std::vector<std::string> member_order(std::string_view text, const std::vector<std::string>& path) {
  KeyCollector collector(path);
  json::sax_parse(text, &collector);
  return collector.take();
}

}  // namespace quaver
