// Prompts get the ids that Transformers gives them, from every set of files that a tokenizer's folder holds.
#include "models/text_encoder/prompt_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/json.h"
#include "base/remove_tree.h"
#include "models/golden_model.h"

namespace quaver::models {
namespace {

namespace fs = std::filesystem;

const std::string kPrompts = std::string(QUAVER_TEST_DATA) + "/golden/text_encoder/prompts.json";
const fs::path kShapes = fs::path(QUAVER_TEST_DATA).parent_path() / "models/shapes-flux";

// The named files of a tokenizer's folder, in a folder of their own.
class PromptFolder {
 public:
  PromptFolder(const std::string& tokenizer, const std::vector<std::string>& files)
      : path_(fs::path(testing::TempDir()) /
              cat("quaver-prompt-", ::getpid(), "-",
                  testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(path_);
    for (const std::string& file : files) fs::copy_file(kShapes / tokenizer / file, path_ / file);
  }
  ~PromptFolder() { remove_tree(path_); }
  void write(const char* file, std::string_view text) const { std::ofstream(path_ / file) << text; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<int64_t> padded(const json& row) {
  auto ids = row.at("ids").get<std::vector<int64_t>>();
  ids.resize(row.at("tokens").get<size_t>(), row.at("pad").get<int64_t>());
  return ids;
}

std::vector<int64_t> values_of(const at::Tensor& ids) {
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
}

void expect_prompts(const PromptTokenizer& tokenizer, const std::string& name) {
  size_t cut = 0;
  for (const json& row : read_json_file(kPrompts)) {
    if (row.at("tokenizer") != name) continue;
    SCOPED_TRACE(row.dump());
    const EncodedPrompt got =
        tokenizer.encode(row.at("text").get<std::string>(), row.at("tokens").get<int64_t>());
    EXPECT_EQ(got.ids.sizes(), (at::IntArrayRef{1, row.at("tokens").get<int64_t>()}));
    EXPECT_EQ(values_of(got.ids), padded(row));
    EXPECT_EQ(got.length, std::ssize(row.at("ids")));
    EXPECT_EQ(got.dropped_tokens, row.at("dropped_tokens").get<int64_t>());
    EXPECT_EQ(got.dropped_text, row.at("dropped_text").get<std::string>());
    cut += got.dropped_tokens > 0;
  }
  EXPECT_GT(cut, 10u);
}

TEST(PromptTokenizerTest, ClipEqualsTransformers) {
  expect_prompts(PromptTokenizer(kShapes / "tokenizer"), "tokenizer");
}

TEST(PromptTokenizerTest, ClipWithoutTokenizerJson) {
  PromptFolder folder("tokenizer", {"vocab.json", "merges.txt", "tokenizer_config.json"});
  expect_prompts(PromptTokenizer(folder.path()), "tokenizer");
}

TEST(PromptTokenizerTest, T5EqualsTransformers) {
  expect_prompts(PromptTokenizer(kShapes / "tokenizer_2"), "tokenizer_2");
}

TEST(PromptTokenizerTest, T5WithoutTokenizerJson) {
  PromptFolder folder("tokenizer_2", {"spiece.model", "tokenizer_config.json"});
  expect_prompts(PromptTokenizer(folder.path()), "tokenizer_2");
}

TEST(PromptTokenizerTest, EqualsTheReferenceRun) {
  const std::string file = std::string(QUAVER_TEST_DATA) + "/../models/reference/shapes-flux.safetensors";
  const std::vector<std::string> prompts = {
      "a red circle left of a green square on a white background",
      "a large yellow star above a small blue ring on a black background",
      "a purple triangle in the top left corner on a beige background"};
  const PromptTokenizer clip(kShapes / "tokenizer"), t5(kShapes / "tokenizer_2");
  for (size_t n = 0; n < prompts.size(); ++n) {
    EXPECT_TRUE(clip.encode(prompts[n], 77).ids.equal(read_tensor(file, cat(n, ".clip_ids")).to(at::kLong)));
    EXPECT_TRUE(t5.encode(prompts[n], 512).ids.equal(read_tensor(file, cat(n, ".t5_ids")).to(at::kLong)));
  }
}

TEST(PromptTokenizerTest, TheMapNamesThePaddingTokenWhereTheConfigDoesNot) {
  PromptFolder folder("tokenizer", {"tokenizer.json"});
  folder.write("special_tokens_map.json", R"({"pad_token": {"content": "!</w>", "lstrip": false}})");
  const PromptTokenizer tokenizer(folder.path());
  const std::vector<int64_t> ids = values_of(tokenizer.encode("!", 4).ids);
  EXPECT_EQ(ids[3], ids[1]);  // the prompt's own token
}

TEST(PromptTokenizerTest, MergesMayHaveLinesOfWindows) {
  PromptFolder folder("tokenizer", {"vocab.json", "merges.txt", "tokenizer_config.json"});
  std::ifstream merges(kShapes / "tokenizer/merges.txt");
  std::string text;
  for (std::string line; std::getline(merges, line);) text += line + "\r\n";
  folder.write("merges.txt", text);
  expect_prompts(PromptTokenizer(folder.path()), "tokenizer");
}

TEST(PromptTokenizerTest, WhatTheVocabularyLacksBecomesTheUnknownToken) {
  PromptFolder folder("tokenizer", {"vocab.json", "merges.txt", "tokenizer_config.json"});
  json vocabulary = read_json_file((folder.path() / "vocab.json").string());
  for (const char* piece : {"~", "~</w>"}) vocabulary.erase(piece);
  folder.write("vocab.json", vocabulary.dump());
  const EncodedPrompt got = PromptTokenizer(folder.path()).encode("~", 4);
  EXPECT_EQ(got.length, 3);
  EXPECT_EQ(values_of(got.ids)[1], vocabulary.at("<|endoftext|>").get<int64_t>());
}

std::string prompt_refusal(const PromptFolder& folder) {
  try {
    PromptTokenizer tokenizer(folder.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "it opens";
}

void expect_folder_refused(const PromptFolder& folder, const char* says) {
  const std::string said = prompt_refusal(folder);
  EXPECT_NE(said.find(says), std::string::npos) << said;
}

TEST(PromptTokenizerTest, RefusesFoldersItCantRead) {
  PromptFolder folder("tokenizer", {"vocab.json", "merges.txt"});
  expect_folder_refused(folder, "has no tokenizer.json, tokenizer.model or spiece.model");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  expect_folder_refused(folder, "names no pad_token");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer", "pad_token": "zzz"})");
  expect_folder_refused(folder, "pad_token 'zzz' is not in the vocabulary");
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "CLIPTokenizer", "pad_token": "<|endoftext|>", "padding_side": "left"})");
  expect_folder_refused(folder, "padding_side is 'left', expected 'right'");
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "CLIPTokenizer", "pad_token": "<|endoftext|>", "bos_token": "<s>"})");
  expect_folder_refused(folder, "vocab.json: key '<s>' is missing");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer", "pad_token": 3})");
  expect_folder_refused(folder, "key 'pad_token' has the wrong type");
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "CLIPTokenizer", "pad_token": "<|endoftext|>"})");
  EXPECT_EQ(prompt_refusal(folder), "it opens");
  folder.write("merges.txt", "#version: 0.2\r\na b\r\na b c\r\n");
  expect_folder_refused(folder, "merges.txt: line 3 is no pair of two pieces");
}

}  // namespace
}  // namespace quaver::models
