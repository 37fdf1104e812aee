// LoRA files in every spelling do to a transformer what diffusers has them do, on plain and on quantized
// weights; whole runs with adapters equal diffusers'; bad files are refused in one sentence.
#include "diffusion/lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/log.h"
#include "base/remove_tree.h"
#include "checkpoint/lora_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_writer.h"
#include "diffusion/family.h"
#include "diffusion/image_job.h"
#include "models/dit/dit.h"
#include "nn/kernel_path.h"
#include "nn/low_rank.h"
#include "nn/tensor_bridge.h"

namespace quaver::diffusion {
namespace {

using ::testing::HasSubstr;

const std::string kLoras = std::string(QUAVER_TEST_DATA) + "/golden/lora/";
const std::string kTiny = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/flux_guided";

std::string lora_path(const std::string& name) { return kLoras + name + ".safetensors"; }

at::Tensor golden_tensor(const std::string& file, const std::string& name) {
  return nn::tensor_over(SafetensorsFile::open(file).read(name), name).clone();
}

double relative_change(const at::Tensor& got, const at::Tensor& want) {
  return ((got - want).norm() / want.norm()).item<double>();
}

std::unique_ptr<models::Dit> tiny_flux(const nn::LoadOptions& options = {}) {
  const std::unique_ptr<Checkpoint> files = open_hugging_face_folder(kTiny);
  nn::WeightSource source(*files, options);
  return models::load_dit(source);
}

at::Tensor tiny_velocity(const models::Dit& model, std::vector<double> scales) {
  const std::string inputs = kTiny + ".safetensors";
  const nn::LowRankScope scope(std::move(scales));
  return model.forward({.latents = golden_tensor(inputs, "latents"),
                        .text = golden_tensor(inputs, "text"),
                        .pooled = golden_tensor(inputs, "pooled"),
                        .sigma = golden_tensor(inputs, "sigma"),
                        .guidance = golden_tensor(inputs, "guidance"),
                        .rope = model.rope(7, 3, 5)});
}

void load_onto(models::Dit& model, const std::vector<std::string>& paths) {
  std::vector<Adapter> adapters;
  for (const std::string& path : paths) adapters.push_back({.name = path, .path = path});
  load_adapters(adapters, {{"transformer", model.linears()}}, find_image_family("FluxPipeline")->lora, {});
}

class LoraTest : public testing::Test {
 protected:
  LoraTest() : scratch_(std::filesystem::temp_directory_path() / cat("quaver-lora-", ::getpid())) {
    std::filesystem::create_directories(scratch_);
  }
  ~LoraTest() override { remove_tree(scratch_); }

  // A file of zeros with these shapes.
  std::string zeros(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
    std::vector<TensorInfo> infos;
    for (const auto& [name, shape] : tensors) {
      uint64_t count = 1;
      for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
      infos.push_back({name, DType::kF32, shape, 4 * count});
    }
    const std::string path = (scratch_ / "file.safetensors").string();
    write_safetensors_file(path, infos,
                           [](const TensorInfo& info) {
                             return TensorView{
                                 info.dtype, info.shape,
                                 Buffer::copy_of(std::vector<float>(info.size_bytes / 4, fill_))};
                           },
                           {});
    return path;
  }
  std::string message_of(const std::string& path) {
    try {
      const std::unique_ptr<models::Dit> model = tiny_flux();
      load_onto(*model, {path});
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kBadFile || error.kind() == ErrorKind::kUnsupported);
      return error.what();
    }
    return "nothing was thrown";
  }

  std::filesystem::path scratch_;
  static float fill_;
  c10::InferenceMode no_gradients_;
};
float LoraTest::fill_ = 0;

class LoraSpelling : public LoraTest, public testing::WithParamInterface<const char*> {};

// Both bodies; 1e-5 leaves room for sums in another order.
TEST_P(LoraSpelling, DoesWhatDiffusersHasItDo) {
  const std::unique_ptr<models::Dit> model = tiny_flux();
  const std::string velocities = lora_path("velocities");
  load_onto(*model, {lora_path(GetParam())});
  EXPECT_LE(relative_change(tiny_velocity(*model, {1}), golden_tensor(velocities, GetParam())), 1e-5);
  EXPECT_LE(relative_change(tiny_velocity(*model, {}), golden_tensor(velocities, "none")), 1e-5);
  EXPECT_TRUE(tiny_velocity(*model, {0}).equal(tiny_velocity(*model, {})));
  const nn::AtenOnly aten;
  EXPECT_LE(relative_change(tiny_velocity(*model, {1}), golden_tensor(velocities, GetParam())), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Files, LoraSpelling,
                         testing::Values("diffusers", "diffusers_alpha", "diffusers_settings",
                                         "diffusers_down_up", "kohya", "kohya_outer", "comfy", "one_trainer",
                                         "xlabs", "peft"),
                         [](const auto& row) { return std::string(row.param); });

TEST_F(LoraTest, TwoAtOnceWithScales) {
  const std::unique_ptr<models::Dit> model = tiny_flux();
  load_onto(*model, {lora_path("diffusers"), lora_path("kohya")});
  EXPECT_LE(
      relative_change(tiny_velocity(*model, {0.5, -1.5}), golden_tensor(lora_path("velocities"), "two")),
      1e-5);
}

// Symmetric around code 8, in groups of 16; layers of other widths stay plain.
std::optional<QuantWeight> four_bits(const std::string&, const at::Tensor& plain) {
  constexpr int64_t kGroup = 16;
  const int64_t rows = plain.size(0), cols = plain.size(1);
  if (cols % kGroup != 0) return std::nullopt;
  const at::Tensor w = plain.to(at::kFloat).contiguous();
  std::vector<float> scales;
  std::vector<uint8_t> codes(static_cast<size_t>(rows * cols / 2));
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float* values = w.const_data_ptr<float>();
    if (i % kGroup == 0) {
      float most = 1e-6f;
      for (int64_t k = i; k < i + kGroup; ++k) most = std::max(most, std::abs(values[k]));
      scales.push_back(most / 7);
    }
    const int code = static_cast<int>(std::lround(values[i] / scales.back())) + 8;
    codes[static_cast<size_t>(i / 2)] |= static_cast<uint8_t>(code << (i % 2 * 4));
  }
  QuantWeight out;
  out.element = Element::kInt4;
  out.shape = {rows, cols};
  out.group = {1, kGroup};
  out.codes = Buffer::copy_of(codes);
  out.scale.codec = ScaleCodec::kF32;
  out.scale.data = Buffer::copy_of(scales);
  out.offset = IntegerZeros{Buffer::copy_of(std::vector<uint8_t>(scales.size(), 8))};
  return out;
}

TEST_F(LoraTest, OnQuantizedWeightsIsTheDequantizedWeightAndTheUpdate) {
  const std::unique_ptr<models::Dit> quantized =
                                         tiny_flux({.exact_activations = true, .round_plain = four_bits}),
                                     merged = tiny_flux();
  load_onto(*quantized, {lora_path("diffusers")});
  std::vector<models::NamedLinear> from = quantized->linears(), to = merged->linears();
  size_t in_codes = 0, updated = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    in_codes += from[i].linear->quant_weight() != nullptr;
    at::Tensor weight = from[i].linear->dense_weight().to(at::kFloat);
    const std::string name = "transformer." + from[i].name;
    if (SafetensorsFile::open(lora_path("diffusers")).find(name + ".lora_A.weight")) {
      ++updated;
      const auto part = [&](const char* end) {
        return golden_tensor(lora_path("diffusers"), name + end).to(at::kFloat);
      };
      weight = weight + 0.75 * at::matmul(part(".lora_B.weight"), part(".lora_A.weight"));
    }
    to[i].linear->set_dense_weight(weight);
  }
  EXPECT_GE(in_codes, 40u);
  EXPECT_EQ(updated, 20u);
  EXPECT_LE(relative_change(tiny_velocity(*quantized, {0.75}), tiny_velocity(*merged, {})), 1e-5);
}

class ShapesLora : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ImagePipelineOptions options;
    options.adapters = {{.name = "style", .path = lora_path("shapes-style")},
                        {.name = "form", .path = lora_path("shapes-form")}};
    const std::string folder = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";
    pipeline_ = ImagePipeline::load(DiffusersFolder::open(folder), options).release();
  }
  static void TearDownTestSuite() { delete pipeline_; }

  static json facts() {
    const SafetensorsFile file = SafetensorsFile::open(lora_path("latents"));
    return parse_json(file.metadata().at("facts"), "facts");
  }
  static ImageSpec spec(const json& run, std::vector<double> scales) {
    ImageSpec spec{.prompt = run.at("prompt"),
                   .width = run.at("width"),
                   .height = run.at("height"),
                   .steps = run.at("num_inference_steps"),
                   .text_tokens = run.at("max_sequence_length")};
    spec.guidance.embedded = run.at("guidance_scale");
    spec.noise = golden_tensor(lora_path("latents"), "noise");
    spec.adapter_scales = std::move(scales);
    return spec;
  }
  static at::Tensor latents(const ImageSpec& wanted) {
    ImageJob job(*pipeline_, {wanted});
    while (job.steps_done() < job.steps()) job.step();
    return job.latents();
  }
  static ImagePipeline* pipeline_;
};
ImagePipeline* ShapesLora::pipeline_ = nullptr;

// Adapters of the transformer and of both text encoders.
TEST_F(ShapesLora, FinalLatentsEqualDiffusers) {
  const json run = facts();
  for (const auto& [name, scales] : run.at("scales").items()) {
    const ImageSpec wanted = spec(run, {scales.value("style", 0.0), scales.value("form", 0.0)});
    EXPECT_LE(relative_change(latents(wanted), golden_tensor(lora_path("latents"), name)), 1e-3) << name;
  }
}

TEST_F(ShapesLora, PicturesOfOtherScalesShareNoBatch) {
  const json run = facts();
  EXPECT_TRUE(may_share_batch(spec(run, {1, 0}), spec(run, {1, 0})));
  EXPECT_FALSE(may_share_batch(spec(run, {1, 0}), spec(run, {0.5, 0})));
  EXPECT_FALSE(may_share_batch(spec(run, {1, 0}), spec(run, {})));
  EXPECT_EQ(pipeline_->facts().adapters.at(1).name, "form");
}

// Of two jobs that go on in turns each keeps its own adapters.
TEST_F(ShapesLora, JobsKeepTheirOwnAdapters) {
  const json run = facts();
  ImageJob style(*pipeline_, {spec(run, {1, 0})}), none(*pipeline_, {spec(run, {})});
  while (style.steps_done() < style.steps()) style.step(), none.step();
  EXPECT_LE(relative_change(style.latents(), golden_tensor(lora_path("latents"), "style")), 1e-3);
  EXPECT_LE(relative_change(none.latents(), golden_tensor(lora_path("latents"), "none")), 1e-3);
}

const std::string kToQ = "transformer.transformer_blocks.0.attn.to_q";

TEST_F(LoraTest, LayersThatTheTransformerLacksAreNamed) {
  EXPECT_THAT(message_of(zeros({{kToQ + ".lora_A.weight", {2, 48}},
                                {kToQ + ".lora_B.weight", {48, 2}},
                                {"transformer.transformer_blocks.9.attn.to_q.lora_A.weight", {2, 48}},
                                {"transformer.transformer_blocks.9.attn.to_q.lora_B.weight", {48, 2}}})),
              HasSubstr("1 of its 2 layers are not in this transformer, "
                        "'transformer.transformer_blocks.9.attn.to_q' for one"));
}

TEST_F(LoraTest, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(message_of(zeros({{kToQ + ".lora_A.weight", {2, 40}}, {kToQ + ".lora_B.weight", {48, 2}}})),
              HasSubstr(".lora_A.weight' is [2, 40], expected [2, 48] for transformer_blocks.0.attn.to_q"));
  const std::string qkv = "lora_unet_double_blocks_0_img_attn_qkv";
  EXPECT_THAT(
      message_of(zeros({{qkv + ".lora_down.weight", {2, 48}}, {qkv + ".lora_up.weight", {96, 2}}})),
      HasSubstr(".lora_up.weight' is [96, 2], expected [144, 2] for transformer_blocks.0.attn.to_q, "));
}

TEST_F(LoraTest, OneLayerUnderTwoNamesIsRefused) {
  const std::string other = "lora_unet_double_blocks_0_img_attn_qkv";
  EXPECT_THAT(message_of(zeros({{kToQ + ".lora_A.weight", {2, 48}},
                                {kToQ + ".lora_B.weight", {48, 2}},
                                {other + ".lora_down.weight", {2, 48}},
                                {other + ".lora_up.weight", {144, 2}}})),
              HasSubstr("are both for the layer transformer_blocks.0.attn.to_q"));
}

TEST_F(LoraTest, ValuesThatAreNotFiniteAreNamed) {
  fill_ = NAN;
  const std::string path = zeros({{kToQ + ".lora_A.weight", {2, 48}}, {kToQ + ".lora_B.weight", {48, 2}}});
  fill_ = 0;
  EXPECT_THAT(message_of(path), HasSubstr(".lora_B.weight' has values that are not finite"));
}

TEST_F(LoraTest, LayersOfATextEncoderThatIsNotThereAreCounted) {
  const std::string te = "lora_te1_text_model_encoder_layers_0_mlp_fc1";
  testing::internal::CaptureStderr();
  EXPECT_EQ(message_of(zeros({{kToQ + ".lora_A.weight", {2, 48}},
                              {kToQ + ".lora_B.weight", {48, 2}},
                              {te + ".lora_down.weight", {2, 8}},
                              {te + ".lora_up.weight", {8, 2}}})),
            "nothing was thrown");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("1 of its 2 layers are left out, since this model's text encoders don't have them"));
  EXPECT_THAT(message_of(zeros({{te + ".lora_down.weight", {2, 8}}, {te + ".lora_up.weight", {8, 2}}})),
              HasSubstr("none of its 1 layers is in this model"));
}

}  // namespace
}  // namespace quaver::diffusion
