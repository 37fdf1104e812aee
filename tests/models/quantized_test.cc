// Quantized checkpoints of other tools: float32 logits equal those of their dequantized weights.
#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/safetensors_file.h"
#include "models/golden_model.h"
#include "nn/kernel_path.h"

namespace quaver::models {
namespace {

const char* const kLogits = "logits_dequant_f32";

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtureRoot)) {
    std::filesystem::path file = entry.path() / "expected.safetensors";  // some are layers alone
    if (std::filesystem::exists(file) && SafetensorsFile::open(file).find(kLogits))
      names.push_back(entry.path().filename().string());
  }
  return names;
}

class QuantizedModelTest : public testing::TestWithParam<std::string> {
 protected:
  // Weights alone: inputs are tested with the tools' own logits in activation_quant_test.cc.
  at::Tensor logits(nn::LoadOptions options) {
    options.strict_activations = false;
    std::unique_ptr<Checkpoint> checkpoint = open_model(kFixtureRoot + GetParam());
    nn::WeightSource source(*checkpoint, options);
    std::unique_ptr<CausalLm> model = load_causal_lm(source);
    return run_logits(*model, expected("input_ids"));
  }
  at::Tensor expected(const std::string& name) {
    return read_tensor(kFixtureRoot + GetParam() + "/expected.safetensors", name);
  }
  // One or two layers of width 256 at most.
  double ratio(const at::Tensor& got) { return error_ratio(got, expected(kLogits), kEpsilonF32, 20, 256); }
  c10::InferenceMode no_gradients_;
};

TEST_P(QuantizedModelTest, Kernels) { EXPECT_LE(ratio(logits({.exact_activations = true})), 1); }

TEST_P(QuantizedModelTest, KernelLayoutOnly) {
  EXPECT_LE(ratio(logits({.kernel_layout_only = true, .exact_activations = true})), 1);
}

TEST_P(QuantizedModelTest, Aten) {
  nn::AtenOnly reference;
  EXPECT_LE(ratio(logits({})), 1);
}

TEST_P(QuantizedModelTest, DenseOnLoad) { EXPECT_LE(ratio(logits({.keep_quantized = false})), 1); }

// Activations rounded to 8 bits cost about 1 / 254 of a block's largest value per product: well below the
// effect of 4-bit weights, and far above rounding errors.
TEST_P(QuantizedModelTest, RoundedActivationsStayClose) {
  at::Tensor want = expected(kLogits);
  double error = (logits({}) - want).norm().item<double>() / want.norm().item<double>();
  EXPECT_LE(error, 0.03);
}

std::string fixture_name(const testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, QuantizedModelTest, testing::ValuesIn(fixtures()), fixture_name);

}  // namespace
}  // namespace quaver::models
