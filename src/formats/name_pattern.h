// How one key of a config names layers: by name, by part of a name, or by regular expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace quaver {

// Immutable after construction; safe to share among threads.
class NamePattern {
 public:
  // How well a key fits a layer; greater beats less.
  enum Fit { kNone = 0, kInside, kPattern, kSuffix, kExact };

  // "lm_head" fits itself, "x.lm_head" as a dotted suffix, and "lm_head.y" as a run of whole dotted
  // components.
  static NamePattern name(std::string key);
  // A whole run of dotted components, wherever it stands: "visual" fits "model.visual.blocks" but not
  // "visualize".
  static NamePattern components(std::string key);
  // A regular expression that may hit anywhere, or only from the first character on. Error(kBadFile)
  // beginning with `what` when it is malformed.
  static NamePattern search(std::string key, std::string_view what);
  static NamePattern match_start(std::string key, std::string_view what);
  // A shell pattern for the whole name: '*' is any run of characters, '?' any one, all else stands for
  // itself.
  static NamePattern glob(std::string key);

  // Error(kBadFile) when the expression runs away on this name.
  Fit fit(std::string_view layer) const;
  const std::string& key() const { return key_; }

  // True when the key holds a character that makes it a regular expression. A dot alone does not.
  static bool looks_like_expression(std::string_view key);

 private:
  struct Expression;
  explicit NamePattern(std::string key) : key_(std::move(key)) {}
  static NamePattern expression(std::string key, std::string_view what, bool from_start);

  std::string key_;
  bool only_components_ = false;
  std::shared_ptr<const Expression> expression_;  // null for names
};

}  // namespace quaver
