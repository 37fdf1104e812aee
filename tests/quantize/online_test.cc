// Rounding while loading: which layers, under which names, and that it equals the folder that quantize
// writes.
#include "quantize/online.h"

#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "checkpoint/scratch_folder.h"
#include "formats/format.h"
#include "models/llm/causal_lm.h"
#include "nn/linear.h"
#include "quantize/job.h"

namespace quaver::quantize {
namespace {

const std::string kOnlineData = std::string(QUAVER_TEST_DATA) + "/";

struct LoadedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<models::CausalLm> model;
};

LoadedModel load_model(const std::string& path, const std::string& quantization,
                       nn::LoadOptions options = {}) {
  LoadedModel loaded{.checkpoint = models::open_model(path), .model = nullptr};
  if (!quantization.empty()) options.round_plain = online_rounding(*loaded.checkpoint, quantization);
  nn::WeightSource source(*loaded.checkpoint, options);
  loaded.model = models::load_causal_lm(source);
  return loaded;
}

at::Tensor logits_of(const LoadedModel& loaded) {
  c10::InferenceMode no_gradients;
  const at::Tensor ids = at::arange(1, 25, at::kLong), positions = at::arange(24, at::kLong);
  nn::DenseAttention attention({24});
  return loaded.model->logits(loaded.model->forward(ids, {.positions = positions, .attention = &attention}));
}

std::string message_of(const std::function<void()>& action) {
  const testing::Caught caught = testing::catch_error(action);
  EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput) << caught.message;
  return caught.message;
}

class OnlineModels : public ::testing::TestWithParam<const char*> {};

TEST_P(OnlineModels, RoundsTheLayersOfBlocksAndNoOther) {
  const std::string path = kOnlineData + GetParam();
  std::unique_ptr<Checkpoint> checkpoint = models::open_model(path);
  const nn::RoundPlain round = online_rounding(*checkpoint, "int4");
  std::set<std::string> rounded, left;
  nn::LoadOptions options;
  options.round_plain = [&](const std::string& layer, const at::Tensor& weight) {
    std::optional<QuantWeight> quant = round(layer, weight);
    (quant ? rounded : left).insert(layer);
    return quant;
  };
  nn::WeightSource source(*checkpoint, options);
  std::unique_ptr<models::CausalLm> model = models::load_causal_lm(source);
  std::set<std::string> expected, unfit;
  for (int64_t i = 0; i < model->info().num_layers; ++i)
    for (const auto& linear : model->block(i).linears()) {
      const std::string name = cat(model->info().blocks_prefix, ".", i, ".", linear.name);
      if (linear.linear->out_features() % 32 != 0 || linear.linear->in_features() % 32 != 0) {
        unfit.insert(name);
        continue;
      }
      expected.insert(name);
      ASSERT_NE(linear.linear->quant_weight(), nullptr) << linear.name;
      EXPECT_EQ(linear.linear->quant_weight()->element, Element::kInt4);
    }
  EXPECT_EQ(rounded, expected);
  for (const std::string& layer : left)
    EXPECT_TRUE(layer == model->info().head || layer.ends_with(".mlp.gate") || unfit.contains(layer))
        << layer;
}

INSTANTIATE_TEST_SUITE_P(All, OnlineModels,
                         ::testing::Values("golden/models/llama", "golden/models/qwen3_tied",
                                           "golden/models/qwen3_moe", "golden/models/gguf/llama_q8.gguf",
                                           "golden/models/gguf/qwen3moe.gguf"));

using NameAndScheme = std::pair<const char*, const char*>;

class OnlineNames : public ::testing::TestWithParam<NameAndScheme> {};

// Bit for bit, whichever body of the layers runs.
TEST_P(OnlineNames, EqualsTheFolderThatQuantizeWrites) {
  const auto [name, scheme] = GetParam();
  const std::string path = kOnlineData + "golden/models/qwen3_moe";
  testing::ScratchFolder scratch;
  JobOptions job{.model = path, .output_dir = scratch.path() / "out", .format = "llm_compressor"};
  if (std::string(name).starts_with("mxfp"))
    job.format = "auto_round";  // the other one scales inputs otherwise
  job.method = Method::kRtn;
  job.rules.base = scheme_from_name(scheme);
  run_job(job, {});
  for (const bool kernels_alone : {false, true}) {
    const nn::LoadOptions options{.kernel_layout_only = kernels_alone};
    EXPECT_TRUE(
        logits_of(load_model(path, name, options)).equal(logits_of(load_model(job.output_dir, "", options))));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnlineNames,
                         ::testing::Values(NameAndScheme{"fp8", "FP8_DYNAMIC"},
                                           NameAndScheme{"int8", "W8A16"}, NameAndScheme{"int4", "W4A16"},
                                           NameAndScheme{"mxfp4", "MXFP4"}, NameAndScheme{"mxfp8", "MXFP8"}));

TEST(Online, InputsAreQuantizedUnlessToldOtherwise) {
  const std::string path = kOnlineData + "golden/models/llama";
  const auto input = [&](const char* name, bool strict) {
    LoadedModel loaded = load_model(path, name, {.strict_activations = strict});
    const nn::InputQuant& quant = loaded.model->block(0).linears()[0].linear->input_quant();
    return quant.active() ? nn::describe(quant.quant()) : "none";
  };
  EXPECT_EQ(input("fp8", true), "e4m3fn per token");
  EXPECT_EQ(input("fp8", false), "none");
  EXPECT_EQ(input("mxfp4", true), "e2m1 g32");
  EXPECT_EQ(input("mxfp8", true), "e4m3fn g32");
  EXPECT_EQ(input("nvfp4", true), "e2m1 g16 under a scale per token");
  EXPECT_EQ(input("int4", true), "none");
  EXPECT_EQ(input("int8", true), "none");
}

TEST(Online, FusedLayersShareTheScaleOverTheirScales) {
  LoadedModel loaded = load_model(kOnlineData + "golden/models/llama", "nvfp4");
  const auto linears = loaded.model->block(0).linears();
  const auto divisor = [&](size_t i) { return linears[i].linear->quant_weight()->scale.super->divisor; };
  EXPECT_EQ(divisor(0), divisor(1));
  EXPECT_EQ(divisor(1), divisor(2));
  EXPECT_NE(divisor(2), divisor(3));
  EXPECT_EQ(divisor(4), divisor(5));
}

TEST(Online, UnknownNamesAreListed) {
  const std::string message = message_of([] { check_online_name("fp9"); });
  for (const char* word : {"'fp9'", "fp8, int8, int4, mxfp4, mxfp8, nvfp4", "its own method"})
    EXPECT_NE(message.find(word), std::string::npos) << message;
  for (const char* name :
       {"fp8", "int4", "nvfp4", "gptq", "AWQ_marlin", "compressed-tensors", "llm_compressor"})
    check_online_name(name);
}

TEST(Online, AQuantizedCheckpointTakesItsOwnNameAlone) {
  const auto rounding = [](const char* folder, const char* name) {
    std::unique_ptr<Checkpoint> checkpoint =
        models::open_model(kOnlineData + "fixtures/checkpoints/" + folder);
    return online_rounding(*checkpoint, name) != nullptr;
  };
  EXPECT_FALSE(rounding("gptqmodel-w4g32-actorder", "gptq"));
  EXPECT_FALSE(rounding("transformers-fp8-block", "fp8"));
  EXPECT_FALSE(rounding("ct-w4a16-g128-sym", "compressed-tensors"));
  for (const char* name : {"int4", "awq", "fp8"}) {
    const std::string message = message_of([&] { rounding("gptqmodel-w4g32-actorder", name); });
    for (const std::string& word : {std::string("auto_gptq"), cat("leave --quantization ", name, " out")})
      EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

TEST(Online, APlainCheckpointTakesNoFormatsName) {
  std::unique_ptr<Checkpoint> plain = models::open_model(kOnlineData + "golden/models/llama");
  const std::string message = message_of([&] { online_rounding(*plain, "gptq"); });
  for (const char* word : {"is plain, not gptq", "fp8, int8"})
    EXPECT_NE(message.find(word), std::string::npos) << message;
}

}  // namespace
}  // namespace quaver::quantize
