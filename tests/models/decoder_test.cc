// The shared decoder: blocks on their own, gradients, batches, and what a config and the files must agree on.
#include "models/llm/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "models/golden_model.h"
#include "nn/kernel_path.h"
#include "nn/memory_checkpoint.h"
#include "nn/tensor_bridge.h"

namespace quaver::models {
namespace {

using nn::MemoryCheckpoint;

TEST(Decoder, SequencesOfABatchEqualEachAlone) {
  c10::InferenceMode no_gradients;
  for (const std::string& name : golden_names()) {
    Golden golden = open_golden(name);
    std::unique_ptr<CausalLm> model = load(*golden.checkpoint);
    at::Tensor first = golden.ids.narrow(0, 0, 9), second = golden.ids.narrow(0, 9, 15);
    nn::DenseAttention attention({9, 15});
    StepContext step{.positions = at::cat({at::arange(9, at::kLong), at::arange(15, at::kLong)}),
                     .attention = &attention};
    at::Tensor together = model->logits(model->forward(at::cat({first, second}), step));
    EXPECT_TRUE(together.narrow(0, 0, 9).equal(run_logits(*model, first))) << name;
    EXPECT_TRUE(together.narrow(0, 9, 15).equal(run_logits(*model, second))) << name;
  }
}

// Blocks made one by one and dropped give what the whole model gives.
TEST(Decoder, BlocksLoadAndDropIndependently) {
  c10::InferenceMode no_gradients;
  Golden golden = open_golden("qwen3_moe");
  nn::WeightSource source(*golden.checkpoint, {});
  std::unique_ptr<CausalLm> shell = make_causal_lm_shell(source);
  at::Tensor hidden = shell->embed(golden.ids);
  nn::DenseAttention attention({golden.ids.size(0)});
  StepContext step{.positions = at::arange(golden.ids.size(0), at::kLong), .attention = &attention};
  for (int64_t i = 0; i < shell->info().num_layers; ++i) {
    std::unique_ptr<DecoderBlock> block = shell->make_block(i, source);
    EXPECT_TRUE(block->forward(hidden, step).equal(shell->make_block(i, source)->forward(hidden, step)));
    hidden = block->forward(hidden, step);
  }
  source.finish("");
  EXPECT_TRUE(shell->logits(hidden).equal(run_logits(*load(*golden.checkpoint), golden.ids)));
}

TEST(Decoder, LinearsAreNamedAsInTheFile) {
  Golden golden = open_golden("qwen3_moe");
  nn::WeightSource source(*golden.checkpoint, {});
  std::unique_ptr<CausalLm> shell = make_causal_lm_shell(source);
  for (int64_t i = 0; i < shell->info().num_layers; ++i) {
    std::unique_ptr<DecoderBlock> block = shell->make_block(i, source);
    std::vector<DecoderBlock::NamedLinear> linears = block->linears();
    EXPECT_EQ(linears.size(), i == 1 ? 7u : 4u + 3 * 8);  // layer 1 is dense
    EXPECT_EQ(linears[0].fusion_group, linears[2].fusion_group);
    EXPECT_NE(linears[2].fusion_group, linears[3].fusion_group);
    EXPECT_EQ(linears[4].fusion_group, linears[5].fusion_group);
    for (const auto& linear : linears)
      EXPECT_TRUE(source.has(cat(shell->info().blocks_prefix, ".", i, ".", linear.name, ".weight")))
          << linear.name;
  }
}

// The slope of a block's output along a random direction of one weight, by autograd and by a central
// difference.
TEST(Decoder, GradientsMatchDifferences) {
  for (const char* name : {"qwen2_window", "gemma3_text", "qwen3_moe_raw", "gpt_oss", "deepseek_v3"}) {
    Golden golden = open_golden(name);
    nn::WeightSource source(*golden.checkpoint, {.compute_dtype = at::kDouble});
    std::unique_ptr<CausalLm> shell = make_causal_lm_shell(source);
    std::unique_ptr<DecoderBlock> block = shell->make_block(1, source);
    nn::DenseAttention attention({golden.ids.size(0)});
    StepContext step{.positions = at::arange(golden.ids.size(0), at::kLong), .attention = &attention};
    at::Tensor hidden = golden.hidden[1].to(at::kDouble);
    for (DecoderBlock::NamedLinear& linear : block->linears()) {
      at::Tensor weight = linear.linear->dense_weight().to(at::kDouble).clone();
      at::Tensor direction = at::arange(weight.numel(), at::kDouble).sin().view(weight.sizes());
      auto output = [&](const at::Tensor& w) {
        linear.linear->set_dense_weight(w);
        return block->forward(hidden, step).pow(2).mean();
      };
      at::Tensor leaf = weight.clone().requires_grad_();
      output(leaf).backward();
      double slope = (leaf.grad() * direction).sum().item<double>();
      constexpr double kStep = 1e-5;
      double difference =
          ((output(weight + direction * kStep) - output(weight - direction * kStep)) / (2 * kStep))
              .item<double>();
      linear.linear->set_dense_weight(weight);
      EXPECT_NEAR(slope, difference, 1e-6 * (std::abs(difference) + 1)) << name << " " << linear.name;
    }
  }
}

TEST(Decoder, RefusesIdsOutsideTheVocabulary) {
  Golden golden = open_golden("llama");
  std::unique_ptr<CausalLm> model = load(*golden.checkpoint);
  for (int64_t id : {int64_t{-1}, int64_t{128}})
    EXPECT_THROW(model->embed(at::tensor({id}, at::kLong)), Error);
}

// F013: both copies of a tied embedding are in the file.
TEST(TiedHead, F013SecondCopyIsDropped) {
  MemoryCheckpoint copy;
  copy_golden("qwen3_tied", copy);
  std::unique_ptr<CausalLm> alone = load(copy);
  copy.add("lm_head.weight", nn::tensor_over(copy.read("model.embed_tokens.weight"), "copy").clone());
  std::unique_ptr<CausalLm> both = load(copy);
  EXPECT_TRUE(both->info().tied_embeddings);
  at::Tensor ids = open_golden("qwen3_tied").ids;
  EXPECT_TRUE(run_logits(*alone, ids).equal(run_logits(*both, ids)));
}

TEST(TiedHead, AnotherHeadInTheFileIsUsed) {
  MemoryCheckpoint copy;
  copy_golden("qwen3_tied", copy);
  copy.add("lm_head.weight", nn::tensor_over(copy.read("model.embed_tokens.weight"), "copy") * 2);
  std::unique_ptr<CausalLm> model = load(copy);
  EXPECT_FALSE(model->info().tied_embeddings);
  Golden golden = open_golden("qwen3_tied");
  EXPECT_LE(error_ratio(run_logits(*model, golden.ids), golden.logits * 2, kEpsilonF32, 18, 128), 1);
}

// F015: no head, and the config does not tie.
TEST(TiedHead, F015MissingHeadStopsTheLoad) {
  MemoryCheckpoint copy;
  copy_golden("llama", copy);
  copy.remove("lm_head.weight");
  std::string message = load_error(copy, ErrorKind::kBadFile);
  EXPECT_NE(message.find("lm_head.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("tie_word_embeddings"), std::string::npos) << message;
  EXPECT_TRUE(load(copy, {.force_tied_head = true})->info().tied_embeddings);
}

TEST(Decoder, EveryTensorMustBeUsedAndThere) {
  MemoryCheckpoint copy;
  copy_golden("llama", copy);
  copy.add("model.layers.0.rotary_emb.inv_freq", at::arange(8, at::kFloat));
  load(copy);  // follows from the config
  copy.add("model.layers.2.mlp.up_proj.weight", at::arange(8, at::kFloat));
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model.layers.2.mlp.up_proj.weight"),
            std::string::npos);
  copy.remove("model.layers.2.mlp.up_proj.weight");
  copy.remove("model.layers.1.mlp.up_proj.weight");
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model.layers.1.mlp.up_proj.weight"),
            std::string::npos);
}

TEST(Decoder, RequiredBiasMustBeThere) {
  MemoryCheckpoint copy;
  copy_golden("qwen2_window", copy);
  copy.remove("model.layers.1.self_attn.k_proj.bias");
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model.layers.1.self_attn.k_proj.bias"),
            std::string::npos);
}

TEST(Decoder, SinksAndRouterBiasMustBeThere) {
  for (const char* name : {"model.layers.2.self_attn.sinks", "model.layers.1.mlp.router.bias",
                           "model.layers.3.mlp.experts.4.down_proj.bias"}) {
    MemoryCheckpoint copy;
    copy_golden("gpt_oss", copy);
    copy.remove(name);
    EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find(name), std::string::npos) << name;
    copy.add(name, at::arange(3, at::kFloat));
    EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("has shape [3], expected ["), std::string::npos);
  }
}

TEST(Decoder, MoreExpertsThanTheConfigCountsStopTheLoad) {
  MemoryCheckpoint copy;
  copy_golden("gpt_oss", copy);
  copy.edit_config()["num_local_experts"] = 4;
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("mlp.router.weight"), std::string::npos);
}

struct BadKey {
  const char* model;
  const char* key;
  json value;  // null removes the key
  ErrorKind kind;
};

// The message names the key.
TEST(Families, BadConfigKeysAreNamed) {
  const std::vector<BadKey> cases = {
      {"llama", "hidden_size", nullptr, ErrorKind::kBadFile},
      {"llama", "hidden_size", "64", ErrorKind::kBadFile},
      {"llama", "hidden_size", 64.5, ErrorKind::kBadFile},
      {"llama", "hidden_size", true, ErrorKind::kBadFile},
      {"llama", "hidden_size", -64, ErrorKind::kBadFile},
      {"llama", "num_hidden_layers", 1000000, ErrorKind::kBadFile},
      {"llama", "num_hidden_layers", uint64_t{1} << 63, ErrorKind::kBadFile},
      {"llama", "num_key_value_heads", 3, ErrorKind::kBadFile},
      {"llama", "head_dim", 15, ErrorKind::kBadFile},
      {"llama", "rms_norm_eps", 0, ErrorKind::kBadFile},
      {"llama", "vocab_size", nullptr, ErrorKind::kBadFile},
      {"llama", "max_position_embeddings", nullptr, ErrorKind::kBadFile},
      {"llama", "tie_word_embeddings", "yes", ErrorKind::kBadFile},
      {"llama", "hidden_act", "relu6", ErrorKind::kUnsupported},
      {"llama", "rope_parameters", {{"rope_type", "spiral"}}, ErrorKind::kUnsupported},
      {"llama", "rope_parameters", {{"rope_type", "llama3"}}, ErrorKind::kBadFile},
      {"llama", "rope_parameters", 5, ErrorKind::kBadFile},
      {"llama", "model_type", "nosuch", ErrorKind::kUnsupported},
      {"llama", "architectures", {"NoSuchModel"}, ErrorKind::kUnsupported},
      {"llama", "architectures", "LlamaForCausalLM", ErrorKind::kBadFile},
      {"qwen2_window", "layer_types", {"full_attention"}, ErrorKind::kBadFile},
      {"qwen2_window", "layer_types", {"full_attention", "linear_attention"}, ErrorKind::kUnsupported},
      {"qwen3_moe", "num_experts_per_tok", 9, ErrorKind::kBadFile},
      {"qwen3_moe", "mlp_only_layers", {"1"}, ErrorKind::kBadFile},
      {"gemma3_text", "use_bidirectional_attention", true, ErrorKind::kUnsupported},
      {"gemma3_text", "sliding_window", 0, ErrorKind::kBadFile},
      {"gpt_oss", "num_local_experts", nullptr, ErrorKind::kBadFile},
      {"gpt_oss", "num_experts_per_tok", 6, ErrorKind::kBadFile},
      {"gpt_oss", "swiglu_limit", 0, ErrorKind::kBadFile},
      {"gpt_oss", "sliding_window", "wide", ErrorKind::kBadFile},
      {"gpt_oss", "hidden_act", "gelu", ErrorKind::kUnsupported},
  };
  for (const BadKey& bad : cases) {
    MemoryCheckpoint copy;
    copy_golden(bad.model, copy);
    bad.value.is_null() ? static_cast<void>(copy.edit_config().erase(bad.key))
                        : static_cast<void>(copy.edit_config()[bad.key] = bad.value);
    std::string message = load_error(copy, bad.kind);
    bool inner = std::string(bad.key) == "rope_parameters" && bad.value.is_object();
    std::string named = inner ? (bad.kind == ErrorKind::kUnsupported ? "rope_type" : "factor") : bad.key;
    EXPECT_NE(message.find(named), std::string::npos) << bad.key << ": " << message;
  }
}

// What the config leaves out is what Transformers takes: windows alternate, the rope is stretched 32 times.
TEST(Families, LayerTypesMayBeAbsent) {
  c10::InferenceMode no_gradients;
  MemoryCheckpoint copy;
  copy_golden("gpt_oss", copy);
  at::Tensor ids = open_golden("gpt_oss").ids, want = run_logits(*load(copy), ids);
  copy.edit_config().erase("layer_types");
  EXPECT_TRUE(run_logits(*load(copy), ids).equal(want));
  json rope = {{"rope_theta", 150000},
               {"rope_type", "yarn"},
               {"factor", 32},
               {"truncate", false},
               {"original_max_position_embeddings", 4096}};
  copy.edit_config()["rope_parameters"] = rope;
  want = run_logits(*load(copy), ids);
  copy.edit_config().erase("rope_parameters");
  EXPECT_TRUE(run_logits(*load(copy), ids).equal(want));
}

TEST(Families, HeadSizeMayBeAbsent) {
  MemoryCheckpoint copy;
  copy_golden("llama", copy);
  copy.edit_config().erase("head_dim");
  EXPECT_EQ(load(copy)->info().head_dim, 16);
}

TEST(Families, FoundByEitherKey) {
  MemoryCheckpoint copy;
  copy_golden("llama", copy);
  copy.edit_config().erase("model_type");
  EXPECT_EQ(load(copy)->info().family, "llama");
  copy.edit_config()["model_type"] = "llama";
  for (const json& architectures : {json::array(), json({"Other", "LlamaForCausalLM"}), json(nullptr)}) {
    copy.edit_config()["architectures"] = architectures;
    EXPECT_EQ(load(copy)->info().family, "llama");
  }
  copy.edit_config().erase("model_type");
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model_type"), std::string::npos);
}

// The picture-reading model keeps its text tower under a prefix, in two layouts of names.
TEST(Families, TextTowerInsideAnother) {
  Golden golden = open_golden("gemma3_old");
  for (const auto& [prefix, head] : {std::pair{"language_model.model.", "language_model.lm_head.weight"},
                                     std::pair{"model.language_model.", "lm_head.weight"}}) {
    MemoryCheckpoint copy;
    copy.edit_config() = {{"model_type", "gemma3"}, {"text_config", golden.checkpoint->config()}};
    for (const TensorInfo& info : golden.checkpoint->tensors())
      copy.add(prefix + info.name.substr(std::string("model.").size()),
               nn::tensor_over(golden.checkpoint->read(info.name), info.name));
    copy.add("vision_tower.patch.weight", at::arange(4, at::kFloat));
    std::unique_ptr<CausalLm> model = load(copy);
    EXPECT_EQ(model->info().blocks_prefix, std::string(prefix) + "layers");
    EXPECT_LE(error_ratio(run_logits(*model, golden.ids), golden.logits, kEpsilonF32, 26, 128), 1);
    copy.add(head, nn::tensor_over(copy.read(prefix + std::string("embed_tokens.weight")), "copy").clone());
    EXPECT_TRUE(load(copy)->info().tied_embeddings);
  }
}

}  // namespace
}  // namespace quaver::models
