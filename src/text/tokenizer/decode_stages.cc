// The stages of decoding: each holds back only what later tokens can still change.
#include "text/tokenizer/decode_stages.h"

#include <array>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/byte_tokens.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

using Next = std::unique_ptr<DecodeStage>;

class JoinWithSpaces final : public PassingStage {
 public:
  using PassingStage::PassingStage;
  void text(std::string_view fragment) override {
    begin_item();
    next_->text(fragment);
  }
  void end_item() override {
    begin_item();
    next_->end_item();
    in_item_ = false;
  }

 private:
  void begin_item() {
    if (!in_item_ && !first_) next_->text(" ");
    in_item_ = true;
    first_ = false;
  }
  bool first_ = true, in_item_ = false;
};

// All tokens become one item, made of the bytes they stand for. Up to three bytes wait for the rest of their
// character; what can't become one is U+FFFD.
class ByteLevel final : public ItemStage {
 public:
  using ItemStage::ItemStage;
  void take(const std::string& item) override {
    append_bytes_of_token(bytes_, item);
    std::string out;
    size_t i = 0;
    while (i < bytes_.size()) {
      const Utf8Scan scan = utf8_scan(bytes_, i);
      if (scan.status == Utf8Status::kIncomplete) break;
      out += scan.status == Utf8Status::kWhole ? std::string_view(bytes_).substr(i, scan.length)
                                               : kReplacementUtf8;
      i += scan.length;
    }
    bytes_.erase(0, i);
    if (!out.empty()) next_->text(out);
  }
  void finish() override {
    if (!bytes_.empty()) next_->text(kReplacementUtf8);
    next_->end_item();
    next_->finish();
  }

 private:
  std::string bytes_;
};

// A run of byte tokens becomes a text if all of it is UTF-8, else one U+FFFD per token: so all of it has to
// wait.
class ByteFallback final : public ItemStage {
 public:
  using ItemStage::ItemStage;
  void take(const std::string& item) override {
    if (const auto byte = byte_of_token(item)) {
      run_.push_back(static_cast<char>(*byte));
      return;
    }
    flush();
    pass_item(item);
  }
  void finish() override {
    flush();
    next_->finish();
  }

 private:
  void flush() {
    if (run_.empty()) return;
    if (utf8_valid(run_)) {
      pass_item(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) pass_item(kReplacementUtf8);
    }
    run_.clear();
  }
  std::string run_;
};

class MetaspaceStage final : public PassingStage {
 public:
  MetaspaceStage(Metaspace options, Next next)
      : PassingStage(std::move(next)), options_(std::move(options)) {}
  void text(std::string_view fragment) override {
    const bool drop = first_ && options_.scheme != PrependScheme::kNever;
    std::string out;
    for (size_t i = 0; i < fragment.size();) {
      const std::string_view character = fragment.substr(i, utf8_length(fragment[i]));
      i += character.size();
      if (character != options_.replacement)
        out += character;
      else if (!drop)
        out += ' ';
    }
    next_->text(out);
  }
  void end_item() override {
    first_ = false;
    next_->end_item();
  }

 private:
  Metaspace options_;
  bool first_ = true;
};

class Fuse final : public PassingStage {
 public:
  using PassingStage::PassingStage;
  void end_item() override {}
  void finish() override {
    next_->end_item();
    next_->finish();
  }
};

class Replace final : public ItemStage {
 public:
  Replace(const TextPattern& pattern, std::string content, Next next)
      : ItemStage(std::move(next)), pattern_(pattern), content_(std::move(content)) {}
  void take(const std::string& item) override {
    std::string out;
    size_t copied = 0;
    pattern_.for_each_match(item, [&](Match match) {
      out.append(item, copied, match.begin - copied);
      out += content_;
      check_text_size(out.size(), kMaxItemBytes);
      copied = match.end;
    });
    out.append(item, copied);
    pass_item(out);
  }

 private:
  const TextPattern& pattern_;
  std::string content_;
};

class Strip final : public PassingStage {
 public:
  Strip(StripOptions options, Next next) : PassingStage(std::move(next)), options_(options) {
    utf8_append(content_, options.content);
  }
  void text(std::string_view fragment) override {
    std::string out;
    for (size_t i = 0; i < fragment.size();) {
      const std::string_view character = fragment.substr(i, utf8_length(fragment[i]));
      i += character.size();
      if (character == content_) {
        take_content(out);
      } else {
        for (; held_ > 0; --held_) out += content_;
        at_start_ = false;
        out += character;
      }
    }
    if (!out.empty()) next_->text(out);
  }
  void end_item() override {
    cut_ = held_ = 0;
    at_start_ = true;
    next_->end_item();
  }

 private:
  void take_content(std::string& out) {
    if (at_start_ && cut_ < options_.start) {
      ++cut_;
      return;
    }
    at_start_ = false;
    if (held_ < options_.stop)
      ++held_;
    else
      out += content_;
  }

  StripOptions options_;
  std::string content_;
  size_t cut_ = 0, held_ = 0;  // cut at the start; held back since the end may cut them
  bool at_start_ = true;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Undoes the spaces that word tokenizers put around English punctuation and contractions.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

class WordPiece final : public ItemStage {
 public:
  WordPiece(std::string prefix, bool cleanup, Next next)
      : ItemStage(std::move(next)), prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void take(const std::string& item) override {
    std::string out;
    if (first_)
      out = item;
    else
      out = item.starts_with(prefix_) ? item.substr(prefix_.size()) : " " + item;
    first_ = false;
    if (cleanup_) clean_up(out);
    pass_item(out);
  }

 private:
  std::string prefix_;
  bool cleanup_, first_ = true;
};

// The suffix is a space, but nothing in the last token: so one token waits.
class EndOfWord final : public ItemStage {
 public:
  EndOfWord(std::string suffix, Next next) : ItemStage(std::move(next)), suffix_(std::move(suffix)) {}
  void take(const std::string& item) override {
    flush(" ");
    held_ = item;
    holds_ = true;
  }
  void finish() override {
    flush("");
    next_->finish();
  }

 private:
  void flush(std::string_view replacement) {
    if (!holds_) return;
    replace_all(held_, suffix_, replacement);
    pass_item(held_);
    holds_ = false;
  }
  std::string suffix_, held_;
  bool holds_ = false;
};

class Ctc final : public ItemStage {
 public:
  Ctc(CtcOptions options, Next next) : ItemStage(std::move(next)), options_(std::move(options)) {}
  void take(const std::string& item) override {
    if (!first_ && item == previous_) return;
    first_ = false;
    previous_ = item;
    std::string out = item;
    replace_all(out, options_.pad_token, "");
    if (options_.cleanup) {
      clean_up(out);
      replace_all(out, options_.word_delimiter_token, " ");
    }
    if (!out.empty()) pass_item(out);
  }

 private:
  CtcOptions options_;
  std::string previous_;
  bool first_ = true;
};

}  // namespace

Next join_with_spaces(Next next) { return std::make_unique<JoinWithSpaces>(std::move(next)); }
Next byte_level(Next next) { return std::make_unique<ByteLevel>(std::move(next)); }
Next byte_fallback(Next next) { return std::make_unique<ByteFallback>(std::move(next)); }
Next fuse(Next next) { return std::make_unique<Fuse>(std::move(next)); }
Next metaspace(Metaspace options, Next next) {
  return std::make_unique<MetaspaceStage>(std::move(options), std::move(next));
}
Next replace(const TextPattern& pattern, std::string content, Next next) {
  return std::make_unique<Replace>(pattern, std::move(content), std::move(next));
}
Next word_piece(std::string prefix, bool cleanup, Next next) {
  return std::make_unique<WordPiece>(std::move(prefix), cleanup, std::move(next));
}
Next end_of_word(std::string suffix, Next next) {
  return std::make_unique<EndOfWord>(std::move(suffix), std::move(next));
}
Next strip(StripOptions options, Next next) { return std::make_unique<Strip>(options, std::move(next)); }
Next ctc(CtcOptions options, Next next) { return std::make_unique<Ctc>(std::move(options), std::move(next)); }

}  // namespace quaver::text
