// The kinds of pre-tokenizer, and the table that makes them.
#include "text/tokenizer/pre_tokenizers.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/metaspace.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/oniguruma_class.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/split_behavior.h"
#include "text/tokenizer/text_pattern.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/unicode_scripts.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// Replaces the list of segments; cut(view, emit) calls emit(begin, end) for each part of one segment.
template <class Cut>
void cut_segments(Segments& segments, Cut&& cut) {
  std::vector<Segment> out;
  out.reserve(segments.list.size());
  for (const Segment& segment : segments.list) {
    if (segment.token_id >= 0) {
      out.push_back(segment);
      continue;
    }
    cut(segments.view(segment), [&](size_t begin, size_t end) {
      if (begin < end) out.push_back(part_of(segment, begin, end));
    });
  }
  segments.list = std::move(out);
}

// Cuts by a visitor of matches: find(view, visit) calls visit(Match) left to right.
template <class Find>
void cut_by_matches(Segments& segments, Find&& find, SplitBehavior behavior, bool invert) {
  std::vector<Stretch> stretches;
  cut_segments(segments, [&](std::string_view view, auto&& emit) {
    stretches.clear();
    size_t last = 0;
    find(view, [&](Match match) {
      if (match.begin != last) stretches.push_back({last, match.begin, invert});
      stretches.push_back({match.begin, match.end, !invert});
      last = match.end;
    });
    if (last != view.size()) stretches.push_back({last, view.size(), invert});
    apply_behavior(behavior, stretches);
    for (const Stretch& stretch : stretches) emit(stretch.begin, stretch.end);
  });
}

// Each character for which the predicate holds is a match.
template <class Predicate>
void cut_by_characters(Segments& segments, Predicate&& predicate, SplitBehavior behavior) {
  cut_by_matches(
      segments,
      [&](std::string_view view, auto&& visit) {
        for (size_t i = 0; i < view.size();) {
          const size_t begin = i;
          if (predicate(utf8_next(view, i))) visit(Match{begin, i});
        }
      },
      behavior, false);
}

class Split final : public PreTokenizer {
 public:
  Split(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Segments& segments) const override {
    cut_by_matches(
        segments, [&](std::string_view view, auto&& visit) { pattern_.for_each_match(view, visit); },
        behavior_, invert_);
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex)
      words_.emplace(TextPattern::regex(kGpt2Pattern, "the GPT-2 pattern"), SplitBehavior::kIsolated, false);
  }
  void apply(Segments& segments) const override {
    if (add_prefix_space_) prepend_spaces(segments);
    if (words_) words_->apply(segments);
    Segments out{.limit = segments.limit};
    out.text.reserve(segments.text.size() * 2);
    out.list.reserve(segments.list.size());
    for (const Segment& segment : segments.list) {
      const size_t begin = out.text.size();
      const std::string_view view = segments.view(segment);
      append_byte_level(out.text, view.substr(0, segment.origin_bytes));
      const size_t origin = out.text.size() - begin;
      append_byte_level(out.text, view.substr(segment.origin_bytes));
      out.list.push_back({begin, out.text.size(), segment.token_id, origin});
    }
    segments = std::move(out);
  }

 private:
  static void prepend_spaces(Segments& segments) {
    Segments out{.limit = segments.limit};
    for (const Segment& segment : segments.list) {
      const std::string_view view = segments.view(segment);
      const size_t begin = out.text.size();
      const bool prepend = segment.token_id < 0 && !view.starts_with(' ');
      if (prepend) out.text += ' ';
      out.text += view;
      const size_t origin = segment.origin_bytes + (prepend && segment.origin_bytes ? 1 : 0);
      out.list.push_back({begin, out.text.size(), segment.token_id, origin});
    }
    segments = std::move(out);
  }

  bool add_prefix_space_;
  std::optional<Split> words_;
};

class MetaspaceSplit final : public PreTokenizer {
 public:
  explicit MetaspaceSplit(Metaspace options) : options_(std::move(options)) {}
  void apply(Segments& segments) const override {
    Segments out{.limit = segments.limit};
    out.text.reserve(segments.text.size() + segments.text.size() / 2);
    for (const Segment& segment : segments.list) {
      const size_t begin = out.text.size();
      size_t origin = segment.origin_bytes;
      if (segment.token_id >= 0)
        out.text += segments.view(segment);
      else
        origin = append_marked(out.text, segments.view(segment), segment.origin_bytes);
      out.list.push_back({begin, out.text.size(), segment.token_id, origin});
    }
    segments = std::move(out);
    if (options_.split) split_->apply(segments);
  }

 private:
  // Returns how many of the bytes appended stem from the first `origin_bytes`.
  size_t append_marked(std::string& out, std::string_view view, size_t origin_bytes) const {
    const size_t begin = out.size();
    const bool marked = view.starts_with(' ') || view.starts_with(options_.replacement);
    const bool prepend = !marked && (options_.scheme == PrependScheme::kAlways ||
                                     (options_.scheme == PrependScheme::kFirst && origin_bytes > 0));
    if (prepend) out += options_.replacement;
    size_t origin = 0;
    for (size_t i = 0; i < view.size(); ++i) {
      if (view[i] == ' ')
        out += options_.replacement;
      else
        out += view[i];
      if (i < origin_bytes) origin = out.size() - begin;
    }
    return origin;
  }

  Metaspace options_;
  std::unique_ptr<Split> split_ = std::make_unique<Split>(
      TextPattern::literal(options_.replacement, "Metaspace"), SplitBehavior::kMergedWithNext, false);
};

template <bool (*Predicate)(char32_t)>
class CharacterSplit final : public PreTokenizer {
 public:
  explicit CharacterSplit(SplitBehavior behavior) : behavior_(behavior) {}
  void apply(Segments& segments) const override { cut_by_characters(segments, Predicate, behavior_); }

 private:
  SplitBehavior behavior_;
};
using WhitespaceSplit = CharacterSplit<is_whitespace>;
using PunctuationSplit = CharacterSplit<is_punctuation>;
using DigitSplit = CharacterSplit<is_numeric>;

class BertSplit final : public PreTokenizer {
 public:
  void apply(Segments& segments) const override {
    spaces_.apply(segments);
    punctuation_.apply(segments);
  }

 private:
  WhitespaceSplit spaces_{SplitBehavior::kRemoved};
  PunctuationSplit punctuation_{SplitBehavior::kIsolated};
};

class DelimiterSplit final : public PreTokenizer {
 public:
  explicit DelimiterSplit(char32_t delimiter) : delimiter_(delimiter) {}
  void apply(Segments& segments) const override {
    cut_by_characters(
        segments, [&](char32_t c) { return c == delimiter_; }, SplitBehavior::kRemoved);
  }

 private:
  char32_t delimiter_;
};

// Words as Rust's regex crate sees them, which counts joiners in.
class WordSplit final : public PreTokenizer {
 public:
  void apply(Segments& segments) const override {
    cut_by_matches(
        segments, [&](std::string_view view, auto&& visit) { words_.for_each_match(view, visit); },
        SplitBehavior::kRemoved, true);
  }

 private:
  static std::string pattern() {
    const std::string word = std::string(kWordItems) + "\\x{200C}\\x{200D}";
    return "[" + word + "]+|[^" + word + "\\p{White_Space}]+";
  }
  Regex words_ = Regex::compile_pcre2(pattern(), "the pattern of words");
};

class ScriptSplit final : public PreTokenizer {
 public:
  void apply(Segments& segments) const override {
    cut_segments(segments, [&](std::string_view view, auto&& emit) {
      const std::vector<size_t> starts = scripts_.run_starts(view);
      for (size_t i = 0; i < starts.size(); ++i)
        emit(starts[i], i + 1 < starts.size() ? starts[i + 1] : view.size());
    });
  }

 private:
  UnicodeScripts scripts_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(size_t length) : length_(length) {}
  void apply(Segments& segments) const override {
    cut_segments(segments, [&](std::string_view view, auto&& emit) {
      size_t begin = 0, count = 0;
      for (size_t i = 0; i < view.size();) {
        i += utf8_length(view[i]);
        if (++count < length_ && i < view.size()) continue;
        emit(begin, i);
        begin = i;
        count = 0;
      }
    });
  }

 private:
  size_t length_;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void apply(Segments& segments) const override {
    for (const auto& part : parts_) {
      part->apply(segments);
      check_text_size(segments.text.size(), segments.limit);
    }
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

using Made = std::unique_ptr<PreTokenizer>;

Made make(const json& spec, std::string_view what, int depth);

Made make_sequence(const json& spec, std::string_view what, int depth) {
  const auto it = spec.find("pretokenizers");
  require(it != spec.end() && it->is_array(), ErrorKind::kBadFile, what,
          ": the sequence has no list 'pretokenizers'");
  std::vector<Made> parts;
  for (const json& part : *it) parts.push_back(make(part, what, depth + 1));
  return std::make_unique<Sequence>(std::move(parts));
}

Made make_split(const json& spec, std::string_view what) {
  require(spec.contains("behavior"), ErrorKind::kBadFile, what, ": the split has no 'behavior'");
  return std::make_unique<Split>(read_pattern(spec, what),
                                 read_behavior(spec, SplitBehavior::kIsolated, what),
                                 json_required<bool>(spec, "invert", what));
}

Made make_fixed_length(const json& spec, std::string_view what) {
  const size_t length = read_count(spec, "length", 5, size_t{1} << 31, what);
  require(length > 0, ErrorKind::kBadFile, what, ": key 'length' is 0");
  return std::make_unique<FixedLength>(length);
}

struct Row {
  const char* type;
  std::function<Made(const json&, std::string_view, int)> make;
};

const std::vector<Row>& table() {
  using std::make_unique;
  static const std::vector<Row> rows = {
      {"ByteLevel",
       [](const json& spec, std::string_view what, int) {
         return make_unique<ByteLevel>(json_required<bool>(spec, "add_prefix_space", what),
                                       json_value(spec, "use_regex", true, what));
       }},
      {"Split", [](const json& spec, std::string_view what, int) { return make_split(spec, what); }},
      {"Metaspace", [](const json& spec, std::string_view what,
                       int) { return make_unique<MetaspaceSplit>(read_metaspace(spec, what)); }},
      {"BertPreTokenizer", [](const auto&...) { return make_unique<BertSplit>(); }},
      {"Whitespace", [](const auto&...) { return make_unique<WordSplit>(); }},
      {"WhitespaceSplit",
       [](const auto&...) { return make_unique<WhitespaceSplit>(SplitBehavior::kRemoved); }},
      {"Punctuation",
       [](const json& spec, std::string_view what, int) {
         return make_unique<PunctuationSplit>(read_behavior(spec, SplitBehavior::kIsolated, what));
       }},
      {"Digits",
       [](const json& spec, std::string_view what, int) {
         const bool single = json_required<bool>(spec, "individual_digits", what);
         return make_unique<DigitSplit>(single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
       }},
      {"CharDelimiterSplit",
       [](const json& spec, std::string_view what, int) {
         return make_unique<DelimiterSplit>(read_character(spec, "delimiter", what));
       }},
      {"UnicodeScripts", [](const auto&...) { return make_unique<ScriptSplit>(); }},
      {"FixedLength",
       [](const json& spec, std::string_view what, int) { return make_fixed_length(spec, what); }},
      {"Sequence", make_sequence},
  };
  return rows;
}

Made make(const json& spec, std::string_view what, int depth) {
  require(depth <= kMaxSequenceNesting, ErrorKind::kBadFile, what, ": pre-tokenizers nest too deeply");
  const std::string type = read_type(spec, cat(what, ": a pre-tokenizer"));
  for (const Row& row : table())
    if (type == row.type) return row.make(spec, what, depth);
  fail(ErrorKind::kBadFile, what, ": unknown pre-tokenizer '", shown(type), "'");
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const json& spec, std::string_view what) {
  return make(spec, what, 0);
}

}  // namespace quaver::text
