// End tokens, special tokens and reasoning from a checkpoint's side files.
#include "pipeline/model_facts.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace quaver::pipeline {
namespace {

class SideFiles : public Checkpoint {
 public:
  SideFiles(json config, std::map<std::string, json> files)
      : config_(std::move(config)), files_(std::move(files)) {}
  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view name) const override {
    auto it = files_.find(std::string(name));
    return it == files_.end() ? json() : it->second;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  TensorView read(std::string_view) const override { return {}; }
  std::string file_of(std::string_view) const override { return ""; }

 private:
  std::filesystem::path path_ = "model";
  json config_;
  std::map<std::string, json> files_;
  std::vector<TensorInfo> tensors_;
};

class Words : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view, bool, bool) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return ""; }
  std::string_view token_text(int32_t id) const override { return words_.at(static_cast<size_t>(id)); }
  std::optional<int32_t> token_id(std::string_view token) const override {
    for (size_t i = 0; i < words_.size(); ++i)
      if (words_[i] == token) return static_cast<int32_t>(i);
    return std::nullopt;
  }
  bool is_special(int32_t) const override { return false; }
  int32_t vocab_size() const override { return static_cast<int32_t>(words_.size()); }
  std::string to_tokenizer_json() const override { return ""; }

 private:
  std::vector<std::string> words_ = {"<s>", "</s>", "<|im_end|>", "word"};
};

using Ids = std::vector<int32_t>;

Ids ends(json config, std::map<std::string, json> files) {
  return end_tokens(SideFiles(std::move(config), std::move(files)), Words(), 4);
}

TEST(ModelFacts, EndTokensComeFromAllThatNameOne) {
  json generation = {{"eos_token_id", {1, 3}}};
  json tokenizer = {{"eos_token", "<|im_end|>"}}, as_object = {{"eos_token", {{"content", "<|im_end|>"}}}};
  EXPECT_EQ(ends({}, {{"generation_config.json", generation}}), (Ids{1, 3}));
  EXPECT_EQ(
      ends({}, {{"generation_config.json", {{"eos_token_id", 1}}}, {"tokenizer_config.json", tokenizer}}),
      (Ids{1, 2}));
  EXPECT_EQ(ends({{"eos_token_id", 1}}, {{"tokenizer_config.json", as_object}}), (Ids{2}));
  EXPECT_EQ(ends({{"eos_token_id", 1}}, {}), (Ids{1}));
  EXPECT_EQ(ends({{"text_config", {{"eos_token_id", {1, 2}}}}}, {}), (Ids{1, 2}));
  EXPECT_EQ(ends({{"eos_token_id", nullptr}}, {}), Ids{});
  EXPECT_EQ(ends({}, {{"tokenizer_config.json", {{"eos_token", "unknown"}}}}), Ids{});
}

TEST(ModelFacts, BadEndTokensAreErrors) {
  for (json bad : {json(4), json(-1), json("1"), json({1, "2"}), json(1.5)}) {
    try {
      ends({}, {{"generation_config.json", {{"eos_token_id", bad}}}});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    }
  }
}

TEST(ModelFacts, SpecialTokensAsText) {
  SideFiles with({{"bos_token_id", 3}},
                 {{"tokenizer_config.json", {{"bos_token", nullptr}, {"eos_token", {{"content", "</s>"}}}}}});
  EXPECT_EQ(special_token(with, Words(), "bos_token"), "");  // null means that there is none
  EXPECT_EQ(special_token(with, Words(), "eos_token"), "</s>");
  SideFiles without({{"bos_token_id", 0}}, {});
  EXPECT_EQ(special_token(without, Words(), "bos_token"), "<s>");
  EXPECT_EQ(special_token(without, Words(), "eos_token"), "");
}

TEST(ModelFacts, ReasoningIsWhatTheTemplateOpens) {
  auto reasons = [](std::string_view source) {
    return can_reason(*ChatTemplate::compile(source, "template"), "", "");
  };
  EXPECT_FALSE(reasons("{{ messages[0].content }}"));
  EXPECT_TRUE(reasons("{{ messages[0].content }}<think>\n"));
  EXPECT_TRUE(reasons("{% if not enable_thinking %}<think></think>{% endif %}"));
  EXPECT_FALSE(reasons("{{ raise_exception('no') }}"));
}

}  // namespace
}  // namespace quaver::pipeline
