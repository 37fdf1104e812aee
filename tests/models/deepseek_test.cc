// DeepSeek-V2 and V3 beyond their golden logits: names, spellings of the config, draft layers, 8-bit blocks.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "models/golden_model.h"
#include "nn/kernel_path.h"
#include "nn/tensor_bridge.h"

namespace quaver::models {
namespace {

using nn::MemoryCheckpoint;

at::Tensor tensor_of(const MemoryCheckpoint& checkpoint, const std::string& name) {
  return nn::tensor_over(checkpoint.read(name), name);
}

std::vector<std::string> linear_names(const std::string& model, int64_t layer) {
  Golden golden = open_golden(model);
  nn::WeightSource source(*golden.checkpoint, {});
  std::unique_ptr<DecoderBlock> block = make_causal_lm_shell(source)->make_block(layer, source);
  std::vector<std::string> names;
  for (const auto& linear : block->linears()) {
    names.push_back(linear.name);
    EXPECT_TRUE(source.has(cat("model.layers.", layer, ".", linear.name, ".weight"))) << linear.name;
  }
  return names;
}

TEST(DeepSeek, LinearsAreNamedAsInTheFile) {
  EXPECT_EQ(linear_names("deepseek_v3", 0),
            (std::vector<std::string>{"self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa",
                                      "self_attn.q_b_proj", "self_attn.kv_b_proj", "self_attn.o_proj",
                                      "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}));
  std::vector<std::string> lite = linear_names("deepseek_v2_lite", 1);
  EXPECT_EQ(lite.size(), 4u + 6 * 3 + 3);
  EXPECT_EQ(lite.front(), "self_attn.q_proj");
  EXPECT_EQ(lite.back(), "mlp.shared_experts.down_proj");
}

// Gate and up, and the two narrow layers over the input; nothing else.
TEST(DeepSeek, FusionGroups) {
  for (const char* name : {"deepseek_v3", "deepseek_v2_lite"}) {
    Golden golden = open_golden(name);
    nn::WeightSource source(*golden.checkpoint, {});
    std::unique_ptr<DecoderBlock> block = make_causal_lm_shell(source)->make_block(1, source);
    std::map<int, std::string> groups;
    for (const auto& linear : block->linears()) groups[linear.fusion_group] += linear.name + " ";
    int attention = 0;
    for (const auto& [group, names] : groups) {
      attention += names.starts_with("self_attn.");
      if (std::ranges::count(names, ' ') == 1) continue;
      bool narrow = names == "self_attn.q_a_proj self_attn.kv_a_proj_with_mqa ";
      EXPECT_TRUE(narrow || (names.starts_with("mlp.") && names.ends_with(".up_proj "))) << names;
      EXPECT_EQ(std::ranges::count(names, ' '), 2) << names;
    }
    EXPECT_EQ(attention, 4) << name;
  }
}

TEST(DeepSeek, CacheHoldsExpandedHeads) {
  for (const auto& [name, width] : {std::pair{"deepseek_v3", 24}, {"deepseek_v2_lite", 32}}) {
    std::unique_ptr<CausalLm> model = load(*open_golden(name).checkpoint);
    EXPECT_EQ(model->info().head_dim, width) << "the wider of keys and values";
    EXPECT_EQ(model->info().num_kv_heads, 4);
  }
}

// The keys that published folders have more, and those that they lack.
TEST(DeepSeek, PublishedSpellingMeansTheSame) {
  c10::InferenceMode no_gradients;
  Golden golden = open_golden("deepseek_v3");
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  json& config = copy.edit_config();
  config.update({{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"moe_layer_freq", 1}});
  for (const char* key : {"head_dim", "qk_head_dim", "rope_interleave", "num_key_value_heads"})
    config.erase(key);
  EXPECT_TRUE(run_logits(*load(copy), golden.ids).equal(run_logits(*load(*golden.checkpoint), golden.ids)));
}

// Rows of the rotated part sorted: even ones first.
at::Tensor sorted_pairs(const at::Tensor& x, int64_t heads, int64_t plain) {
  at::Tensor by_head = x.unflatten(0, {heads, -1});
  int64_t turned = by_head.size(1) - plain;
  at::Tensor pairs = by_head.narrow(1, plain, turned).unflatten(1, {turned / 2, 2}).transpose(1, 2);
  return at::cat({by_head.narrow(1, 0, plain), pairs.flatten(1, 2)}, 1).flatten(0, 1).contiguous();
}

TEST(DeepSeek, PairsMayBeStoredInHalves) {
  c10::InferenceMode no_gradients;
  Golden golden = open_golden("deepseek_v3");
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  copy.edit_config()["rope_interleave"] = false;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string attention = cat("model.layers.", layer, ".self_attn.");
    const std::string queries = attention + "q_b_proj.weight";
    copy.add(queries, sorted_pairs(tensor_of(copy, queries), 4, 16));
    for (const char* part : {"weight", "bias"}) {
      const std::string keys = cat(attention, "kv_a_proj_with_mqa.", part);
      copy.add(keys, sorted_pairs(tensor_of(copy, keys), 1, 32));
    }
  }
  EXPECT_LE(error_ratio(run_logits(*load(copy), golden.ids), golden.logits, kEpsilonF32, 26, 128), 1);
}

TEST(DeepSeek, DraftLayersAreLeftOut) {
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  copy.add("model.layers.3.enorm.weight", at::ones({64}));
  copy.add("model.layers.3.self_attn.kv_b_proj.weight", at::ones({112, 32}));
  copy.edit_config()["num_nextn_predict_layers"] = 1;
  load(copy);
  copy.edit_config()["num_nextn_predict_layers"] = 0;
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model.layers.3.enorm.weight"), std::string::npos);
}

TEST(DeepSeek, MissingChoiceBiasStopsTheLoad) {
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  copy.remove("model.layers.2.mlp.gate.e_score_correction_bias");
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("model.layers.2.mlp.gate.e_score_correction_bias"),
            std::string::npos);
}

// One value per block, repeated over the block's elements.
at::Tensor over_blocks(const at::Tensor& scale, int64_t block, at::IntArrayRef sizes) {
  return scale.repeat_interleave(block, 0)
      .repeat_interleave(block, 1)
      .narrow(0, 0, sizes[0])
      .narrow(1, 0, sizes[1]);
}

// Turns a layer into e4m3 codes with a scale per block in `codes`, and into what these mean in `values`.
void round_to_blocks(const std::string& layer, int64_t block, MemoryCheckpoint& codes,
                     MemoryCheckpoint& values) {
  constexpr double kLargestCode = 448;
  const std::string name = layer + ".weight";
  at::Tensor weight = tensor_of(codes, name).to(at::kFloat);
  const int64_t rows = (weight.size(0) + block - 1) / block, cols = (weight.size(1) + block - 1) / block;
  at::Tensor padded =
      at::constant_pad_nd(weight, {0, cols * block - weight.size(1), 0, rows * block - weight.size(0)});
  at::Tensor scale = (padded.view({rows, block, cols, block}).abs().amax({1, 3}) / kLargestCode).contiguous();
  at::Tensor scales = over_blocks(scale, block, weight.sizes());
  at::Tensor rounded = (weight / scales).to(at::ScalarType::Float8_e4m3fn);
  codes.add(name, rounded);
  codes.add(layer + ".weight_scale_inv", scale);
  values.add(name, rounded.to(at::kFloat) * scales);
}

class DeepSeekInBlocks : public testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(DeepSeekInBlocks, EqualsItsDequantizedWeights) {
  c10::InferenceMode no_gradients;
  const auto& [name, block] = GetParam();
  Golden golden = open_golden(name);
  MemoryCheckpoint codes, values;
  copy_golden(name, codes), copy_golden(name, values);
  codes.edit_config()["quantization_config"] = {{"quant_method", "fp8"},
                                                {"activation_scheme", "dynamic"},
                                                {"fmt", "e4m3"},
                                                {"weight_block_size", {block, block}}};
  const int64_t layers = codes.config().at("num_hidden_layers").get<int64_t>();
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const std::string& linear : linear_names(name, layer))
      round_to_blocks(cat("model.layers.", layer, ".", linear), block, codes, values);
  at::Tensor want = run_logits(*load(values), golden.ids);
  EXPECT_GT((want - golden.logits).abs().max().item<float>(), 1e-3) << "rounding shows";
  const nn::LoadOptions weights_alone{.strict_activations = false, .exact_activations = true};
  // Per layer: two steps to the queries, two to keys and values, scores, mix, o, gate, down, norms.
  const double depth = 10.0 * static_cast<double>(layers) + 2;
  at::Tensor kernels = run_logits(*load(codes, weights_alone), golden.ids);
  EXPECT_LE(error_ratio(kernels, want, kEpsilonF32, depth, 128), 1);
  nn::AtenOnly reference;
  EXPECT_LE(error_ratio(run_logits(*load(codes, weights_alone), golden.ids), want, kEpsilonF32, depth, 128),
            1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DeepSeekInBlocks,
                         testing::Combine(testing::Values("deepseek_v3", "deepseek_v2_lite"),
                                          testing::Values(int64_t{16}, int64_t{128})),
                         [](const auto& param) {
                           return cat(std::get<0>(param.param), "_", std::get<1>(param.param));
                         });

struct WrongKey {
  const char* model;
  const char* key;
  json value;  // null removes the key
  ErrorKind kind;
};

TEST(DeepSeek, WrongKeysAreNamed) {
  const std::vector<WrongKey> cases = {
      {"deepseek_v3", "topk_group", 5, ErrorKind::kBadFile},
      {"deepseek_v3", "n_routed_experts", 9, ErrorKind::kBadFile},
      {"deepseek_v3", "n_group", 8, ErrorKind::kBadFile},
      {"deepseek_v3", "n_group", nullptr, ErrorKind::kBadFile},
      {"deepseek_v3", "kv_lora_rank", nullptr, ErrorKind::kBadFile},
      {"deepseek_v3", "kv_lora_rank", 0, ErrorKind::kBadFile},
      {"deepseek_v3", "q_lora_rank", -1, ErrorKind::kBadFile},
      {"deepseek_v3", "qk_rope_head_dim", 7, ErrorKind::kBadFile},
      {"deepseek_v3", "qk_nope_head_dim", nullptr, ErrorKind::kBadFile},
      {"deepseek_v3", "v_head_dim", "12", ErrorKind::kBadFile},
      {"deepseek_v3", "num_key_value_heads", 2, ErrorKind::kBadFile},
      {"deepseek_v3", "num_experts_per_tok", 5, ErrorKind::kBadFile},
      {"deepseek_v3", "routed_scaling_factor", nullptr, ErrorKind::kBadFile},
      {"deepseek_v3", "first_k_dense_replace", -1, ErrorKind::kBadFile},
      {"deepseek_v3", "moe_layer_freq", 0, ErrorKind::kBadFile},
      {"deepseek_v3", "scoring_func", "tanh", ErrorKind::kUnsupported},
      {"deepseek_v3", "topk_method", "dice", ErrorKind::kUnsupported},
      {"deepseek_v2_lite", "num_experts_per_tok", 7, ErrorKind::kBadFile},
      {"deepseek_v2_lite", "norm_topk_prob", true, ErrorKind::kUnsupported},
  };
  for (const WrongKey& wrong : cases) {
    MemoryCheckpoint copy;
    copy_golden(wrong.model, copy);
    wrong.value.is_null() ? static_cast<void>(copy.edit_config().erase(wrong.key))
                          : static_cast<void>(copy.edit_config()[wrong.key] = wrong.value);
    std::string message = load_error(copy, wrong.kind);
    EXPECT_NE(message.find(wrong.key), std::string::npos) << wrong.key << ": " << message;
  }
}

TEST(DeepSeek, PartlyRotatedRopeIsRefused) {
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  copy.edit_config()["rope_parameters"]["partial_rotary_factor"] = 0.5;
  EXPECT_NE(load_error(copy, ErrorKind::kUnsupported).find("partial_rotary_factor"), std::string::npos);
}

TEST(DeepSeek, AnotherRankThanTheFilesIsNamed) {
  MemoryCheckpoint copy;
  copy_golden("deepseek_v3", copy);
  copy.edit_config()["kv_lora_rank"] = 31;
  EXPECT_NE(load_error(copy, ErrorKind::kBadFile).find("self_attn.kv_a_proj_with_mqa.weight"),
            std::string::npos);
}

}  // namespace
}  // namespace quaver::models
