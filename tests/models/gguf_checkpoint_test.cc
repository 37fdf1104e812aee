// GGUF files open under Hugging Face names, with a config and side files, and compute what the original does.
#include "models/gguf_checkpoint.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/gguf.h"
#include "models/gguf_special_tokens.h"
#include "models/golden_model.h"
#include "models/tokenizer_files.h"

namespace quaver::models {
namespace {

const std::string kGgufRoot = std::string(QUAVER_TEST_DATA) + "/golden/models/gguf/";

std::unique_ptr<Checkpoint> open(const std::string& name) { return open_model(kGgufRoot + name + ".gguf"); }

class GgufModelTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufModelTest, ComputesTheOriginalsLogits) {
  c10::InferenceMode no_gradients;
  std::unique_ptr<Checkpoint> checkpoint = open(GetParam());
  nn::WeightSource source(*checkpoint, {.exact_activations = true});
  std::unique_ptr<CausalLm> model = load_causal_lm(source);
  std::string expected = kGgufRoot + GetParam() + ".safetensors";
  at::Tensor logits = run_logits(*model, read_tensor(expected, "ids"));
  double depth = 8.0 * static_cast<double>(model->info().num_layers) + 2;
  EXPECT_LE(error_ratio(logits, read_tensor(expected, "logits"), kEpsilonF32, depth, 64), 1);
}

INSTANTIATE_TEST_SUITE_P(Files, GgufModelTest,
                         testing::Values("llama_q8", "llama3_tied", "qwen2_yarn", "qwen3", "qwen3moe",
                                         "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

TEST(GgufCheckpoint, SynthesisesTheConfig) {
  json llama = open("llama3_tied")->config();
  EXPECT_EQ(llama["model_type"], "llama");
  EXPECT_EQ(llama["architectures"], json({"LlamaForCausalLM"}));
  EXPECT_EQ(llama["rms_norm_eps"], 1e-5);
  EXPECT_EQ(llama["tie_word_embeddings"], true);
  EXPECT_EQ(llama["attention_bias"], true);
  EXPECT_EQ(llama["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(llama["rope_scaling"]["factor"], 8.0);
  json yarn = open("qwen2_yarn")->config();
  EXPECT_EQ(yarn["rope_scaling"]["rope_type"], "yarn");
  EXPECT_EQ(yarn["rope_scaling"]["original_max_position_embeddings"], 32);
  EXPECT_EQ(yarn["tie_word_embeddings"], false);
  EXPECT_EQ(open("qwen3moe")->config()["num_experts"], 4);
  EXPECT_EQ(open("gemma3")->config()["sliding_window"], 4);
}

TEST(GgufCheckpoint, SideFiles) {
  std::unique_ptr<Checkpoint> checkpoint = open("qwen3");
  json generation = checkpoint->sidecar("generation_config.json");
  EXPECT_EQ(generation["bos_token_id"], 1);
  EXPECT_EQ(generation["eos_token_id"], json({2, 3})) << "the stated one, then the end of a turn";
  json tokenizer = checkpoint->sidecar("tokenizer_config.json");
  EXPECT_EQ(tokenizer["bos_token"], "<s>");
  EXPECT_EQ(tokenizer["eos_token"], "</s>");
  EXPECT_EQ(tokenizer["add_bos_token"], true);
  EXPECT_EQ(tokenizer["chat_template"], "{{ messages[0]['content'] }}");
  EXPECT_TRUE(checkpoint->sidecar("preprocessor_config.json").is_null());
}

TEST(GgufCheckpoint, Vocabulary) {
  GgufVocabulary vocabulary = gguf_vocabulary(GgufFile::open(kGgufRoot + "qwen3.gguf"));
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.tokens.size(), 64u);
  EXPECT_EQ(vocabulary.tokens[3], "<|im_end|>");
  EXPECT_EQ(vocabulary.types[0], 3);
  EXPECT_EQ(vocabulary.merges, std::vector<std::string>{"A B"});
  EXPECT_EQ(vocabulary.bos, 1);
  EXPECT_TRUE(vocabulary.add_bos);
}

// Files quantized in blocks give bfloat16, others what they hold; sizes are those of what `read` returns.
TEST(GgufCheckpoint, TensorsReadAsListed) {
  for (const char* name : {"llama_q8", "qwen3", "qwen3moe", "gemma3"}) {
    std::unique_ptr<Checkpoint> checkpoint = open(name);
    for (const TensorInfo& info : checkpoint->tensors()) {
      TensorView view = checkpoint->read(info.name);
      EXPECT_EQ(view.dtype, info.dtype) << info.name;
      EXPECT_EQ(view.shape, info.shape) << info.name;
      EXPECT_EQ(view.data.size_bytes(), info.size_bytes) << info.name;
    }
  }
  EXPECT_EQ(open("llama_q8")->find("model.layers.0.self_attn.q_proj.weight")->dtype, DType::kBF16);
  EXPECT_EQ(open("qwen3")->find("model.layers.0.self_attn.q_proj.weight")->dtype, DType::kF16);
}

TEST(GgufCheckpoint, MissingTensorAndPath) {
  EXPECT_THROW(open("qwen3")->read("model.layers.9.mlp.up_proj.weight"), Error);
  try {
    open_model(kGgufRoot + "none.gguf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
  EXPECT_THROW(open_model(kGgufRoot), Error) << "several files to choose from";
}

}  // namespace
}  // namespace quaver::models
