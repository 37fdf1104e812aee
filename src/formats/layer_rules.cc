#include "formats/layer_rules.h"

#include <algorithm>

namespace quaver {
namespace {

// True when `prefix` leads to `layer`, seen from its root or from a sub-model's.
bool lies_under(std::string_view layer, std::string_view prefix) {
  for (size_t at = layer.find(prefix); at != std::string_view::npos; at = layer.find(prefix, at + 1)) {
    const size_t end = at + prefix.size();
    if ((at == 0 || layer[at - 1] == '.') && (end == layer.size() || layer[end] == '.')) return true;
  }
  return false;
}

// "model\.layers\.0" -> "model.layers.0": escaped names hit the set at once, so long tables stay cheap.
std::string without_escapes(std::string_view key) {
  std::string plain;
  for (char c : key)
    if (c != '\\') plain.push_back(c);
  return plain;
}

void append_names(const json& value, std::string_view what, int depth, std::vector<std::string>& names) {
  if (value.is_null()) return;
  if (value.is_array() && depth > 0) {
    for (const json& entry : value) append_names(entry, what, depth - 1, names);
    return;
  }
  require(value.is_string(), ErrorKind::kBadFile, what, " must be a name or a list of names");
  const std::string text = value.get<std::string>();
  for (size_t first = 0; first <= text.size();) {
    const size_t comma = std::min(text.find(',', first), text.size());
    std::string name = text.substr(first, comma - first);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) names.push_back(std::move(name));
    first = comma + 1;
  }
}

}  // namespace

std::unordered_set<std::string> module_names(const Checkpoint& checkpoint) {
  std::unordered_set<std::string> names;
  for (const TensorInfo& tensor : checkpoint.tensors())
    if (const size_t dot = tensor.name.rfind('.'); dot != std::string::npos)
      names.insert(tensor.name.substr(0, dot));
  const json& tied = checkpoint.config().value("tie_word_embeddings", json());
  if (tied == true) names.insert("lm_head");  // a module without a tensor, which tools name all the same
  return names;
}

std::vector<IntScheme> LayerRules::candidates(std::string_view layer) const {
  std::vector<std::pair<NamePattern::Fit, const IntScheme*>> hits;
  for (const LayerRule& rule : rules)
    if (const auto fit = rule.pattern.fit(layer); fit != NamePattern::kNone)
      hits.emplace_back(fit, &rule.scheme);
  std::stable_sort(hits.begin(), hits.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<IntScheme> found;
  for (const auto& [fit, scheme] : hits) found.push_back(*scheme);
  const bool in_scope =
      blocks.empty() || std::any_of(blocks.begin(), blocks.end(),
                                    [&](const std::string& block) { return lies_under(layer, block); });
  if (!in_scope) found.push_back({.plain = true, .rule = "block scope"});
  found.push_back(defaults);
  return found;
}

std::vector<std::string> LayerRules::unmatched(const Checkpoint& checkpoint) const {
  const std::unordered_set<std::string> names = module_names(checkpoint);
  std::vector<std::string> missing;
  for (const LayerRule& rule : rules) {
    if (names.contains(rule.pattern.key()) || names.contains(without_escapes(rule.pattern.key()))) continue;
    const bool hit = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return rule.pattern.fit(name) != NamePattern::kNone;
    });
    if (!hit) missing.push_back(rule.scheme.rule);
  }
  for (const std::string& block : blocks)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return lies_under(name, block); }))
      missing.push_back(block);
  return missing;
}

IntScheme parse_int_scheme(const json& body, const IntScheme& base, std::string_view what) {
  require(body.is_object(), ErrorKind::kBadFile, what, ": settings must be an object");
  IntScheme scheme = base;
  const int bits = json_value<int>(body, "bits", base.bits, what);
  scheme.plain = bits >= 16;
  if (scheme.plain) return scheme;
  require(bits >= 2 && bits <= 8 && !(body.contains("bits") && body.at("bits").is_boolean()),
          ErrorKind::kBadFile, what, ": ", bits, " bits; integer layers have 2 to 8");
  scheme.bits = bits;
  scheme.sym = json_value<bool>(body, "sym", base.sym, what);
  const auto size = body.find("group_size");
  if (size != body.end() && !size->is_null()) {
    require(size->is_number_integer(), ErrorKind::kUnsupported, what, ": group_size ",
            size->dump().substr(0, 80), "; integer layers have one number");
    scheme.group_size = size->get<int64_t>();
  }
  constexpr int64_t kLargest = int64_t{1} << 31;
  require(scheme.group_size == -1 || (scheme.group_size > 0 && scheme.group_size <= kLargest),
          ErrorKind::kBadFile, what, ": group_size ", scheme.group_size,
          "; expected -1 or a positive number");
  const std::string type = json_value<std::string>(body, "data_type", "int", what);
  require(type == "int" || type == "int_sym" || type == "int_asym", ErrorKind::kUnsupported, what,
          ": data_type '", type.substr(0, 80), "' is not supported; only 'int' is");
  return scheme;
}

std::vector<std::string> parse_name_list(const json& value, std::string_view what) {
  std::vector<std::string> names;
  append_names(value, what, 2, names);
  return names;
}

}  // namespace quaver
