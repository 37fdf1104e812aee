// A whole folder opened and served: tiny weights of the golden models, a tokenizer of single letters.
#include "pipeline/text_pipeline.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/remove_tree.h"

namespace quaver::pipeline {
namespace {

namespace fs = std::filesystem;

// A folder with a model, removed with the object.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& model) {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = fs::path(::testing::TempDir()) / ("text_pipeline_" + test);
    remove_tree(path_);
    fs::copy(fs::path(QUAVER_TEST_DATA) / "golden/models" / model, path_);
    write("tokenizer.json", tokenizer().dump());
    write("tokenizer_config.json",
          json{{"eos_token", "c"},
               {"chat_template", "{{ messages[0].content }}{% if add_generation_prompt %}b{% endif %}"}}
              .dump());
    write("generation_config.json", json{{"eos_token_id", 2}, {"temperature", 0.6}}.dump());
  }
  ~ModelFolder() { remove_tree(path_); }
  std::string path() const { return path_.string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }

 private:
  static json tokenizer() {
    json vocab;
    for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", json::array()},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder", {{"type", "Fuse"}}},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"vocab", vocab},
              {"merges", json::array()}}}};
  }
  fs::path path_;
};

struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  llm::FinishReason finish = llm::FinishReason::kNone;
};

Answer ask(TextPipeline& pipeline, llm::Request request) {
  std::mutex mutex;
  std::condition_variable changed;
  Answer answer;
  pipeline.submit(std::move(request), [&](llm::Event event) {
    std::lock_guard lock(mutex);
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    answer.text += event.text;
    answer.finish = event.finish;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answer.finish != llm::FinishReason::kNone; });
  return answer;
}

llm::Request greedy(std::vector<int32_t> prompt, int32_t max_tokens) {
  llm::Request request{.id = "a", .prompt = std::move(prompt), .sampling = {}, .cache_salt = {}};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

TEST(TextPipeline, ServesAFolder) {
  ModelFolder folder("llama");
  std::unique_ptr<TextPipeline> pipeline = open_text_pipeline({.model = folder.path()});
  const ModelCard& card = pipeline->card();
  EXPECT_EQ(card.path, folder.path());
  EXPECT_EQ(card.capabilities, (std::vector<std::string>{"chat", "completions"}));
  EXPECT_EQ(card.max_model_len, 256);
  EXPECT_EQ(card.eos_token, "c");
  EXPECT_EQ(card.generation_defaults.at("temperature"), 0.6);
  EXPECT_FALSE(card.reasoning);
  ASSERT_NE(pipeline->chat_template(), nullptr);

  std::vector<int32_t> prompt = pipeline->tokenizer().encode("hello", false);
  llm::Request request = greedy(prompt, 30);
  for (int32_t token = 0; token < 26; ++token) request.sampling.allowed_token_ids.push_back(token);
  Answer answer = ask(*pipeline, request);
  EXPECT_EQ(answer.finish, llm::FinishReason::kLength);
  EXPECT_EQ(answer.tokens.size(), 30u);
  EXPECT_EQ(answer.text, pipeline->tokenizer().decode(answer.tokens, true));
  EXPECT_TRUE(pipeline->healthy());
  Stats stats = pipeline->stats();
  EXPECT_EQ(stats.finished_length, 1);
  EXPECT_EQ(stats.generation_tokens, 30);
  pipeline->drain(1);
  EXPECT_THROW(ask(*pipeline, greedy(prompt, 1)), Error);
}

TEST(TextPipeline, TheCheckpointsEndTokenEnds) {
  ModelFolder folder("llama");
  std::unique_ptr<TextPipeline> pipeline = open_text_pipeline({.model = folder.path()});
  llm::Request request = greedy({4, 5}, 30);
  request.sampling.ignore_eos = false;
  request.sampling.logit_bias = {{2, 100.0f}};
  EXPECT_EQ(ask(*pipeline, request).finish, llm::FinishReason::kStop);
}

TEST(TextPipeline, EveryDtypeServes) {
  ModelFolder folder("qwen3_tied");
  std::map<std::string, Answer> answers;
  for (const char* dtype : {"auto", "float32", "bfloat16", "float16"}) {
    std::unique_ptr<TextPipeline> pipeline = open_text_pipeline({.model = folder.path(), .dtype = dtype});
    answers[dtype] = ask(*pipeline, greedy({7, 8, 9}, 20));
    EXPECT_EQ(answers[dtype].tokens.size(), 20u) << dtype;
  }
  EXPECT_EQ(answers["float32"].tokens[0], answers["auto"].tokens[0]);
}

TEST(TextPipeline, F128_RequestsBeyondTheContextAreRefused) {
  ModelFolder folder("llama");
  std::unique_ptr<TextPipeline> pipeline = open_text_pipeline({.model = folder.path(), .max_model_len = 64});
  EXPECT_EQ(pipeline->card().max_model_len, 64);
  EXPECT_THROW(ask(*pipeline, greedy(std::vector<int32_t>(64, 3), 1)), Error);
  EXPECT_EQ(ask(*pipeline, greedy(std::vector<int32_t>(63, 3), 1)).tokens.size(), 1u);
}

TEST(TextPipeline, ErrorsNameTheOption) {
  ModelFolder folder("llama");
  auto field = [&](TextPipelineOptions options) -> std::string {
    options.model = folder.path();
    try {
      open_text_pipeline(options);
    } catch (const Error& error) {
      return error.field();
    }
    return "opened";
  };
  EXPECT_EQ(field({.device = "tpu!"}), "device");
  EXPECT_EQ(field({.dtype = "int8"}), "dtype");
  EXPECT_EQ(field({.kv_cache_dtype = "int8"}), "kv_cache_dtype");
  EXPECT_EQ(field({.max_model_len = 1000}), "max_model_len");
  EXPECT_EQ(field({.max_num_seqs = 16, .max_num_batched_tokens = 8}), "max_num_batched_tokens");
  EXPECT_THROW(open_text_pipeline({.model = folder.path() + "/absent"}), Error);
}

TEST(TextPipeline, AFolderWithoutATemplateCompletesOnly) {
  ModelFolder folder("llama");
  folder.write("tokenizer_config.json", "{}");
  std::unique_ptr<TextPipeline> pipeline = open_text_pipeline({.model = folder.path()});
  EXPECT_EQ(pipeline->card().capabilities, std::vector<std::string>{"completions"});
  EXPECT_EQ(pipeline->chat_template(), nullptr);
}

}  // namespace
}  // namespace quaver::pipeline
