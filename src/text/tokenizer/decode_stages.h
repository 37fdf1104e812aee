// The stages that decoders consist of.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/decoders.h"
#include "text/tokenizer/metaspace.h"
#include "text/tokenizer/text_pattern.h"

namespace quaver::text {

// A stage that passes everything on; others change a part of that.
class PassingStage : public DecodeStage {
 public:
  explicit PassingStage(std::unique_ptr<DecodeStage> next) : next_(std::move(next)) {}
  void text(std::string_view fragment) override { next_->text(fragment); }
  void end_item() override { next_->end_item(); }
  void finish() override { next_->finish(); }

 protected:
  void pass_item(std::string_view item) {
    next_->text(item);
    next_->end_item();
  }
  std::unique_ptr<DecodeStage> next_;
};

// A stage that sees whole items.
class ItemStage : public PassingStage {
 public:
  using PassingStage::PassingStage;
  void text(std::string_view fragment) override {
    item_ += fragment;
    check_text_size(item_.size(), kMaxItemBytes);
  }
  void end_item() override {
    take(item_);
    item_.clear();
  }

 protected:
  virtual void take(const std::string& item) = 0;

 private:
  std::string item_;
};

std::unique_ptr<DecodeStage> join_with_spaces(std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> byte_level(std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> byte_fallback(std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> metaspace(Metaspace options, std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> fuse(std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> replace(const TextPattern& pattern, std::string content,
                                     std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> word_piece(std::string prefix, bool cleanup, std::unique_ptr<DecodeStage> next);
std::unique_ptr<DecodeStage> end_of_word(std::string suffix, std::unique_ptr<DecodeStage> next);

struct StripOptions {
  char32_t content;
  size_t start, stop;  // how many may be cut at either end
};
std::unique_ptr<DecodeStage> strip(StripOptions options, std::unique_ptr<DecodeStage> next);

struct CtcOptions {
  std::string pad_token, word_delimiter_token;
  bool cleanup;
};
std::unique_ptr<DecodeStage> ctc(CtcOptions options, std::unique_ptr<DecodeStage> next);

}  // namespace quaver::text
