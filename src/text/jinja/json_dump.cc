#include "text/jinja/json_dump.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/unicode.h"

namespace quaver::jinja {
namespace {

void append_unit(std::string& out, uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[unit >> shift & 15];
}

void append_unicode(std::string& out, char32_t c) {
  if (c < 0x10000) return append_unit(out, c);
  append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
  append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

std::string quote(std::string_view s, bool ascii) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  std::string out = "\"";
  for (size_t i = 0; i < s.size();) {
    size_t start = i;
    char32_t c = utf8_next(s, i);
    size_t k = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : kEscaped.npos;
    if (k != kEscaped.npos) {
      out += '\\';
      out += kLetters[k];
    } else if (c < 0x20 || (ascii && c > 0x7e)) {
      append_unicode(out, c);
    } else {
      out += s.substr(start, i - start);
    }
  }
  return out + "\"";
}

std::string json_float(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_repr(d);
}

class Dumper {
 public:
  explicit Dumper(const JsonStyle& style) : style_(style) {}

  void dump(const Value& v) {
    charge(1);
    switch (v.kind()) {
      case Value::Kind::kNone:
        return grow(out_, "null");
      case Value::Kind::kBool:
        return grow(out_, v.as_bool() ? "true" : "false");
      case Value::Kind::kInt:
        return grow(out_, cat(v.as_int()));
      case Value::Kind::kFloat:
        return grow(out_, json_float(v.as_double()));
      case Value::Kind::kString:
        return grow(out_, quote(v.str(), style_.ensure_ascii));
      case Value::Kind::kDict:
        return dump_dict(v.as_dict());
      default:
        break;
    }
    bool array = v.is_sequence(SequenceKind::kList) || v.is_sequence(SequenceKind::kTuple) ||
                 v.is_sequence(SequenceKind::kGroup);
    if (!array) fault("Object of type ", type_name(v), " is not JSON serializable");
    dump_list(v.items());
  }

  std::string take() { return std::move(out_); }

 private:
  void new_line() {
    if (!style_.indent) return;
    grow(out_, "\n");
    grow(out_, level_, *style_.indent);
  }

  void separate(bool first) {
    if (!first) grow(out_, style_.item_separator);
    new_line();
  }

  void dump_list(const std::vector<Value>& items) {
    if (items.empty()) return grow(out_, "[]");
    grow(out_, "[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      dump(items[i]);
    }
    --level_;
    new_line();
    grow(out_, "]");
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Value::Kind::kString:
        return key.str();
      case Value::Kind::kNone:
        return "null";
      case Value::Kind::kBool:
        return key.as_bool() ? "true" : "false";
      case Value::Kind::kInt:
        return cat(key.as_int());
      case Value::Kind::kFloat:
        return json_float(key.as_double());
      default:
        fault("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void dump_dict(const Dict& dict) {
    if (dict.entries.empty()) return grow(out_, "{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [](auto* a, auto* b) { return compare(a->first, b->first, "<") < 0; });
    grow(out_, "{");
    ++level_;
    for (const auto* entry : entries) {
      separate(entry == entries.front());
      grow(out_, quote(key_text(entry->first), style_.ensure_ascii));
      grow(out_, style_.key_separator);
      dump(entry->second);
    }
    --level_;
    new_line();
    grow(out_, "}");
  }

  const JsonStyle& style_;
  std::string out_;
  size_t level_ = 0;
};

}  // namespace

std::string dump_json(const Value& v, const JsonStyle& style) {
  Dumper dumper(style);
  dumper.dump(v);
  return dumper.take();
}

}  // namespace quaver::jinja
