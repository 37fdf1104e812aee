// The kinds of normalizer, and the table that makes them.
#include "text/tokenizer/normalizers.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/text_pattern.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// Rewrites character by character; rewrite(out, character) appends what a character becomes.
template <class Rewrite>
void rewrite_characters(NormalizedText& text, Rewrite&& rewrite) {
  std::string out;
  out.reserve(text.text.size());
  size_t origin = 0;
  for (size_t i = 0; i < text.text.size();) {
    const bool from_origin = i < text.origin_bytes;
    rewrite(out, utf8_next(text.text, i));
    if (from_origin) origin = out.size();
  }
  text.text = std::move(out);
  text.origin_bytes = origin;
}

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void apply(NormalizedText& text) const override {
    const size_t origin = normalize(std::string_view(text.text).substr(0, text.origin_bytes), form_).size();
    std::string normal = normalize(text.text, form_);
    text.origin_bytes = std::min(origin, normal.size());
    text.text = std::move(normal);
  }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override { rewrite_characters(text, append_lowercase); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](std::string& out, char32_t c) {
      if (!is_mark(c)) utf8_append(out, c);
    });
  }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    size_t begin = 0, end = 0, last_end = 0;  // of what is kept
    bool started = !left_;
    for (size_t i = 0; i < text.text.size();) {
      const size_t at = i;
      const bool space = is_whitespace(utf8_next(text.text, i));
      if (!started && !space) begin = at, started = true;
      if (!space) last_end = i;
    }
    if (!started) begin = text.text.size();
    end = right_ ? std::max(last_end, begin) : text.text.size();
    text.origin_bytes = std::min(text.origin_bytes, end) - std::min(text.origin_bytes, begin);
    text.text = text.text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class Replace final : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    std::string out;
    size_t copied = 0, origin = 0;
    const auto keep_until = [&](size_t end) {
      out.append(text.text, copied, end - copied);
      if (copied < text.origin_bytes) origin = out.size() - (end - std::min(end, text.origin_bytes));
    };
    pattern_.for_each_match(text.text, [&](Match match) {
      keep_until(match.begin);
      out += content_;
      check_text_size(out.size(), text.limit);
      // What replaces a match stands where the match's last character stood.
      if (match.end <= text.origin_bytes) origin = out.size();
      copied = match.end;
    });
    keep_until(text.text.size());
    text.text = std::move(out);
    text.origin_bytes = origin;
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  Prepend(std::string prefix, std::string_view what) : prefix_(std::move(prefix)) {
    require(prefix_.size() <= kMaxAffixBytes, ErrorKind::kBadFile, what, ": key 'prepend' has ",
            prefix_.size(), " bytes; the limit is ", kMaxAffixBytes);
  }
  void apply(NormalizedText& text) const override {
    if (text.text.empty()) return;
    text.text.insert(0, prefix_);
    if (text.origin_bytes) text.origin_bytes += prefix_.size();
  }

 private:
  std::string prefix_;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void apply(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    size_t origin = 0;
    for (size_t i = 0; i < text.text.size();) {
      const size_t end = grapheme_end(text.text, i);
      append_cluster(out, std::string_view(text.text).substr(i, end - i));
      if (i < text.origin_bytes) origin = out.size();
      i = end;
    }
    text.text = std::move(out);
    text.origin_bytes = origin;
  }

 private:
  // Whole clusters are looked up only while short, as the reference does; else each character by itself.
  void append_cluster(std::string& out, std::string_view cluster) const {
    constexpr size_t kLongestCluster = 5;
    if (cluster.size() <= kLongestCluster) {
      if (const auto mapped = map_.find(cluster)) {
        out += *mapped;
        return;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, utf8_length(cluster[i]));
      out += map_.find(character).value_or(character);
      i += character.size();
    }
  }

  Charsmap map_;
};

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

bool is_cjk_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges)
    if (c >= first && c <= last) return true;
  return false;
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertOptions options) : options_(options) {}
  void apply(NormalizedText& text) const override {
    if (options_.clean_text) rewrite_characters(text, append_cleaned);
    if (options_.handle_chinese_chars) rewrite_characters(text, append_spaced);
    if (options_.strip_accents) {
      decompose_.apply(text);
      rewrite_characters(text, [](std::string& out, char32_t c) {
        if (!is_nonspacing_mark(c)) utf8_append(out, c);
      });
    }
    if (options_.lowercase) rewrite_characters(text, append_lowercase);
  }

 private:
  static void append_cleaned(std::string& out, char32_t c) {
    const bool space = c == '\t' || c == '\n' || c == '\r' || is_whitespace(c);
    if (c == 0 || c == kReplacementCharacter) return;
    if (c != '\t' && c != '\n' && c != '\r' && is_control(c)) return;
    utf8_append(out, space ? U' ' : c);
  }
  static void append_spaced(std::string& out, char32_t c) {
    const bool spaced = is_cjk_ideograph(c);
    if (spaced) out += ' ';
    utf8_append(out, c);
    if (spaced) out += ' ';
  }

  BertOptions options_;
  UnicodeForm decompose_{{false, false}};
};

// The fixed clean-up of SentencePiece's nmt rules.
class Nmt final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](std::string& out, char32_t c) {
      if (!is_dropped(c)) utf8_append(out, is_space(c) ? U' ' : c);
    });
  }

 private:
  static bool is_dropped(char32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool is_space(char32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class ByteLevel final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](std::string& out, char32_t c) {
      std::string bytes;
      utf8_append(bytes, c);
      append_byte_level(out, bytes);
    });
  }
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& part : parts_) {
      part->apply(text);
      check_text_size(text.text.size(), text.limit);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

using Made = std::unique_ptr<Normalizer>;

Made make(const json& spec, std::string_view what, int depth);

Made make_sequence(const json& spec, std::string_view what, int depth) {
  const auto it = spec.find("normalizers");
  require(it != spec.end() && it->is_array(), ErrorKind::kBadFile, what,
          ": the sequence has no list 'normalizers'");
  std::vector<Made> parts;
  for (const json& part : *it) parts.push_back(make(part, what, depth + 1));
  return std::make_unique<Sequence>(std::move(parts));
}

Made make_bert(const json& spec, std::string_view what) {
  const bool lowercase = json_required<bool>(spec, "lowercase", what);
  return std::make_unique<BertNormalizer>(BertOptions{
      .clean_text = json_required<bool>(spec, "clean_text", what),
      .handle_chinese_chars = json_required<bool>(spec, "handle_chinese_chars", what),
      .strip_accents = json_value(spec, "strip_accents", lowercase, what),
      .lowercase = lowercase,
  });
}

struct Row {
  const char* type;
  std::function<Made(const json&, std::string_view, int)> make;
};

const std::vector<Row>& table() {
  using std::make_unique;
  static const std::vector<Row> rows = {
      {"NFC",
       [](const auto&...) {
         return make_unique<UnicodeForm>(NormalForm{false, true});
       }},
      {"NFD",
       [](const auto&...) {
         return make_unique<UnicodeForm>(NormalForm{false, false});
       }},
      {"NFKC",
       [](const auto&...) {
         return make_unique<UnicodeForm>(NormalForm{true, true});
       }},
      {"NFKD",
       [](const auto&...) {
         return make_unique<UnicodeForm>(NormalForm{true, false});
       }},
      {"Lowercase", [](const auto&...) { return make_unique<Lowercase>(); }},
      {"StripAccents", [](const auto&...) { return make_unique<StripAccents>(); }},
      {"Nmt", [](const auto&...) { return make_unique<Nmt>(); }},
      {"ByteLevel", [](const auto&...) { return make_unique<ByteLevel>(); }},
      {"Strip",
       [](const json& spec, std::string_view what, int) {
         return make_unique<Strip>(json_required<bool>(spec, "strip_left", what),
                                   json_required<bool>(spec, "strip_right", what));
       }},
      {"Replace",
       [](const json& spec, std::string_view what, int) {
         return make_unique<Replace>(read_pattern(spec, what),
                                     json_required<std::string>(spec, "content", what));
       }},
      {"Prepend",
       [](const json& spec, std::string_view what, int) {
         return make_unique<Prepend>(json_required<std::string>(spec, "prepend", what), what);
       }},
      {"Precompiled",
       [](const json& spec, std::string_view what, int) {
         return make_unique<Precompiled>(
             Charsmap::from_base64(json_required<std::string>(spec, "precompiled_charsmap", what), what));
       }},
      {"BertNormalizer", [](const json& spec, std::string_view what, int) { return make_bert(spec, what); }},
      {"Sequence", make_sequence},
  };
  return rows;
}

Made make(const json& spec, std::string_view what, int depth) {
  require(depth <= kMaxSequenceNesting, ErrorKind::kBadFile, what, ": normalizers nest too deeply");
  const std::string type = read_type(spec, cat(what, ": a normalizer"));
  for (const Row& row : table())
    if (type == row.type) return row.make(spec, what, depth);
  fail(ErrorKind::kBadFile, what, ": unknown normalizer '", shown(type), "'");
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const json& spec, std::string_view what) {
  return make(spec, what, 0);
}

}  // namespace quaver::text
