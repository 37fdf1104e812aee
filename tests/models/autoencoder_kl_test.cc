// Autoencoders agree with diffusers in float32, whole and in tiles, on both paths; and what they refuse.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/safetensors_writer.h"
#include "models/golden_model.h"
#include "models/vae/image_vae.h"
#include "nn/kernel_path.h"

namespace quaver::models {
namespace {

const std::string kVaes = std::string(QUAVER_TEST_DATA) + "/golden/models/vae/";
const std::string kTrained = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux/vae";
// Products in series: norm, convolution, norm, convolution and sum of a residual block; four of attention.
constexpr double kSumsPerBlock = 5, kSumsOfAttention = 6;

std::unique_ptr<Checkpoint> open_vae(const std::string& name) {
  return present_image_vae(open_hugging_face_folder(kVaes + name));
}

at::Tensor expected(const std::string& name, const std::string& tensor) {
  return read_tensor(kVaes + name + ".safetensors", tensor);
}

std::unique_ptr<ImageVae> load_vae(const Checkpoint& checkpoint, const nn::LoadOptions& options = {}) {
  nn::WeightSource source(checkpoint, options);
  return load_image_vae(source);
}

// Of the decoder, the deeper network; sizes from the config.
struct Depth {
  double sums, width;
  explicit Depth(const json& config) {
    const auto channels = config["block_out_channels"].get<std::vector<double>>();
    const double blocks =
        2 + static_cast<double>(channels.size()) * (config["layers_per_block"].get<double>() + 1);
    sums = blocks * kSumsPerBlock + kSumsOfAttention + static_cast<double>(channels.size()) + 4;
    width = 9 * channels.back();
  }
  double ratio(const at::Tensor& got, const at::Tensor& want) const {
    return error_ratio(got, want, kEpsilonF32, sums, width);
  }
};

// What the moments mean to a transformer.
LatentDistribution seen_by_transformer(const at::Tensor& moments, const json& config) {
  at::Tensor mean =
      at::tensor(config.value("shift_factor", json()).is_null() ? 0.0 : config["shift_factor"].get<double>());
  at::Tensor std = at::tensor(1 / config["scaling_factor"].get<double>());
  if (!config["latents_mean"].is_null()) {
    mean = at::tensor(config["latents_mean"].get<std::vector<double>>()).view({1, -1, 1, 1});
    std = at::tensor(config["latents_std"].get<std::vector<double>>()).view({1, -1, 1, 1});
  }
  const auto halves = moments.chunk(2, 1);
  return {(halves[0] - mean) / std, at::exp(halves[1].clamp(-30, 20) / 2) / std};
}

void expect_like_diffusers(const std::string& name, const std::string& prefix, const VaeOptions& options) {
  const auto checkpoint = open_vae(name);
  const auto vae = load_vae(*checkpoint);
  const Depth depth(checkpoint->config());
  const LatentDistribution want =
      seen_by_transformer(expected(name, prefix + "moments"), checkpoint->config());
  const LatentDistribution got = vae->encode(expected(name, "pixels"), options);
  EXPECT_LE(depth.ratio(got.mean, want.mean), 1);
  EXPECT_LE(depth.ratio(got.std, want.std), 1);
  EXPECT_LE(depth.ratio(vae->decode(expected(name, "latents"), options), expected(name, prefix + "decoded")),
            1);
}

class VaeTest : public testing::Test {
  c10::InferenceMode no_gradients_;
};

class VaeGoldenTest : public testing::TestWithParam<const char*> {
  c10::InferenceMode no_gradients_;
};

TEST_P(VaeGoldenTest, EqualsDiffusersWithKernels) { expect_like_diffusers(GetParam(), "", {}); }

TEST_P(VaeGoldenTest, EqualsDiffusersWithoutKernels) {
  nn::AtenOnly aten;
  expect_like_diffusers(GetParam(), "", {});
}

TEST_P(VaeGoldenTest, APicturesResultIsItsOwnWhateverStandsBesideIt) {
  const auto vae = load_vae(*open_vae(GetParam()));
  at::Tensor pixels = expected(GetParam(), "pixels"), latents = expected(GetParam(), "latents");
  EXPECT_TRUE(vae->decode(latents)[1].equal(vae->decode(latents.slice(0, 1))[0]));
  EXPECT_TRUE(vae->encode(pixels).mean[1].equal(vae->encode(pixels.slice(0, 1)).mean[0]));
}

INSTANTIATE_TEST_SUITE_P(Configs, VaeGoldenTest,
                         testing::Values("kl_flux", "kl_quant_convs", "kl_mean_std", "kl_tiled",
                                         "kl_original"),
                         [](const auto& row) { return std::string(row.param); });

TEST_F(VaeTest, TilesEqualThoseOfDiffusers) { expect_like_diffusers("kl_tiled", "tiled_", {.tile = true}); }

TEST_F(VaeTest, OneTileThatCoversAllIsTheWhole) {
  const auto vae = load_vae(*open_vae("kl_tiled"));
  at::Tensor latents = expected("kl_tiled", "latents"), pixels = expected("kl_tiled", "pixels");
  const VaeOptions one_tile = {.tile = true, .tile_pixels = 80};  // as high as the picture
  EXPECT_TRUE(vae->decode(latents, one_tile).equal(vae->decode(latents)));
  EXPECT_TRUE(vae->encode(pixels, one_tile).mean.equal(vae->encode(pixels).mean));
}

TEST_F(VaeTest, TilesWithoutOverlapStandSideBySide) {
  const auto vae = load_vae(*open_vae("kl_tiled"));
  at::Tensor latents = expected("kl_tiled", "latents");  // [2, 4, 20, 13]
  at::Tensor tiled = vae->decode(latents, {.tile = true, .tile_pixels = 32, .overlap = 0});
  at::Tensor corner = vae->decode(latents.slice(2, 16).slice(3, 8));
  EXPECT_TRUE(tiled.slice(2, 64).slice(3, 32).equal(corner));
}

// The demo model's trained weights, and a latent and picture of its pipeline in diffusers.
TEST_F(VaeTest, TrainedModelGivesThePipelinesPicture) {
  const auto checkpoint = open_hugging_face_folder(kTrained);
  const auto vae = load_vae(*checkpoint);
  const Depth depth(checkpoint->config());
  at::Tensor picture = expected("trained", "image");
  at::Tensor got = (vae->decode(expected("trained", "latents")) / 2 + 0.5).clamp(0, 1);
  EXPECT_LE(depth.ratio(got, picture), 1);
  EXPECT_LE(depth.ratio(vae->encode(picture * 2 - 1).mean, expected("trained", "encoded")), 1);
}

TEST_F(VaeTest, ComputesInBfloat16) {
  const auto checkpoint = open_vae("kl_flux");
  const auto vae = load_vae(*checkpoint, {.compute_dtype = at::kBFloat16});
  at::Tensor got = vae->decode(expected("kl_flux", "latents"));
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  const Depth depth(checkpoint->config());
  EXPECT_LE(error_ratio(got, expected("kl_flux", "decoded"), kEpsilonBf16, depth.sums, 1), 1);
}

// Field case F110: float16 overflows in autoencoders that were not trained for it.
TEST_F(VaeTest, Float16BecomesFloat32WhereTheConfigForcesIt) {
  const auto checkpoint = open_vae("kl_flux");
  at::Tensor latents = expected("kl_flux", "latents");
  const auto upcast = load_vae(*checkpoint, {.compute_dtype = at::kHalf});
  EXPECT_EQ(upcast->info().dtype, at::kFloat);
  EXPECT_TRUE(upcast->decode(latents).equal(load_vae(*checkpoint)->decode(latents)));
  nn::MemoryCheckpoint free;
  copy_checkpoint(*checkpoint, free);
  free.edit_config()["force_upcast"] = false;
  EXPECT_EQ(load_vae(free, {.compute_dtype = at::kHalf})->info().dtype, at::kHalf);
}

TEST_F(VaeTest, SamplesAroundTheMean) {
  const LatentDistribution latent = {at::arange(4, at::kFloat), at::ones({4}) * 0.5};
  EXPECT_TRUE(latent.sample(at::ones({4}) * 4).equal(at::arange(2, 6, at::kFloat)));
}

// As diffusers does, to e^-30 and e^20.
TEST_F(VaeTest, CutsVariancesThatAreOutOfAllMeasure) {
  nn::MemoryCheckpoint copy;
  copy_checkpoint(*open_vae("kl_flux"), copy);
  copy.add("encoder.conv_out.bias", at::tensor({0, 0, 0, 0, 1000, 1000, -1000, -1000}, at::kFloat));
  at::Tensor std = load_vae(copy)->encode(at::zeros({1, 3, 8, 8})).std.flatten() / 0.3611;
  at::Tensor want = at::exp(at::tensor({10.0, 10.0, -15.0, -15.0}));
  EXPECT_LE(error_ratio(std / want, at::ones({4}), kEpsilonF32, 4, 1), 1);
}

TEST_F(VaeTest, SaysWhatItIs) {
  const ImageVaeInfo& info = load_vae(*open_vae("kl_flux"))->info();
  EXPECT_EQ(info.scale, 8);
  EXPECT_EQ(info.latent_channels, 4);
  EXPECT_EQ(info.sample_pixels, 32);
}

TEST_F(VaeTest, LoadsShapesAlone) {
  EXPECT_EQ(load_vae(*open_vae("kl_quant_convs"), {.device = at::kMeta})->info().scale, 2);
}

template <class Body>
std::string error_of(ErrorKind kind, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

void expect_config_refused(const char* key, const json& value, const std::string& part,
                           ErrorKind kind = ErrorKind::kBadFile) {
  nn::MemoryCheckpoint copy;
  copy_checkpoint(*open_vae("kl_mean_std"), copy);
  copy.edit_config()[key] = value;
  const std::string message = error_of(kind, [&] { load_vae(copy); });
  EXPECT_NE(message.find(part), std::string::npos) << key << ": " << message;
}

TEST_F(VaeTest, RefusesConfigsItDoesNotKnow) {
  const ErrorKind unsupported = ErrorKind::kUnsupported;
  expect_config_refused("_class_name", "AutoencoderTiny", "expected one of: AutoencoderKL", unsupported);
  expect_config_refused("down_block_types", {"DownEncoderBlock2D"}, "names 1 blocks");
  expect_config_refused("up_block_types",
                        json::array({"UpDecoderBlock2D", "UpDecoderBlock2D", "AttnUpDecoderBlock2D"}),
                        "names 'AttnUpDecoderBlock2D'", unsupported);
  expect_config_refused("act_fn", "relu", "is 'relu', expected silu", unsupported);
  expect_config_refused("out_channels", 4, "expected that of in_channels, 3", unsupported);
  expect_config_refused("norm_num_groups", 3, "holds 8, expected multiples of norm_num_groups, 3");
  expect_config_refused("block_out_channels", json::array(), "lists 0 levels");
  expect_config_refused("sample_size", json::array({0, 4}), "sample_size");
  expect_config_refused("latents_std", nullptr, "'latents_std' is missing: both are given, or none");
  expect_config_refused("latents_std", {1, 1, 0, 1}, "above zero");
  expect_config_refused("latents_mean", {1, 2}, "one number for each of latent_channels, 4");
  expect_config_refused("latents_mean", {1, 2, "x", 4}, "finite numbers, got \"x\"");
}

TEST_F(VaeTest, RefusesTensorsThatTheConfigDoesNotDescribe) {
  expect_config_refused("layers_per_block", 4, "'encoder.down_blocks.0.resnets.3.norm1.weight' is missing");
  expect_config_refused("layers_per_block", 2, "48 tensors belong to no layer of this model");
  expect_config_refused("mid_block_add_attention", true, "attentions.0");
  expect_config_refused("use_post_quant_conv", true, "'post_quant_conv.weight' is missing");
}

TEST_F(VaeTest, RefusesOtherPicturesAndOptions) {
  const auto vae = load_vae(*open_vae("kl_flux"));
  const ErrorKind invalid = ErrorKind::kInvalidInput;
  auto encoding = [&](std::vector<int64_t> shape) {
    return error_of(invalid, [&] { vae->encode(at::zeros(shape)); });
  };
  EXPECT_EQ(encoding({1, 3, 16, 20}), "a picture is 20 wide and 16 high, expected multiples of 8");
  EXPECT_EQ(encoding({1, 4, 16, 16}), "pixels have shape [1, 4, 16, 16], expected [batch, 3, height, width]");
  EXPECT_EQ(encoding({3, 16, 16}), "pixels have shape [3, 16, 16], expected [batch, 3, height, width]");
  EXPECT_EQ(encoding({1, 3, 0, 16}), "pixels have shape [1, 3, 0, 16], expected [batch, 3, height, width]");
  auto decoding = [&](const VaeOptions& options) {
    return error_of(invalid, [&] { vae->decode(at::zeros({1, 4, 2, 2}), options); });
  };
  EXPECT_EQ(decoding({.tile = true, .tile_pixels = 20}), "tile_pixels is 20, expected a multiple of 8");
  EXPECT_EQ(decoding({.tile = true, .tile_pixels = -8}), "tile_pixels is -8, expected a multiple of 8");
  EXPECT_EQ(decoding({.tile = true, .overlap = 0.75}), "overlap is 0.75, expected from 0 to 0.5 of a tile");
}

// A file as FLUX.1's makers publish it, with tensors of zeros.
class VaeFileTest : public testing::Test {
 protected:
  VaeFileTest() {
    for (int level : {0, 1})
      for (int block : {0, 1})
        add(cat("encoder.down.", level, ".block.", block, ".conv1.weight"), {32 << level, 32, 3, 3});
    add("decoder.conv_in.weight", {64, 16, 3, 3});
    add("decoder.up.0.block.2.nin_shortcut.bias", {32});
    add("decoder.mid.attn_1.proj_out.weight", {64, 64, 1, 1});
  }
  void add(const std::string& name, std::vector<int64_t> shape) {
    uint64_t bytes = 2;
    for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
    tensors_.push_back({name, DType::kBF16, std::move(shape), bytes});
  }
  std::unique_ptr<Checkpoint> open() {
    write_safetensors_file(
        path(), tensors_,
        [](const TensorInfo& info) { return nn::view_of(at::zeros(info.shape, at::kBFloat16)); }, {});
    return open_image_vae_file(path());
  }
  ~VaeFileTest() override { std::filesystem::remove(path()); }
  static std::string path() {
    return cat(testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(),
               ".safetensors");
  }
  std::vector<TensorInfo> tensors_;
};

// The values of black-forest-labs/FLUX.1-dev: vae/config.json.
TEST_F(VaeFileTest, BringsTheConfigThatTheFileLacks) {
  const auto checkpoint = open();
  const json& config = checkpoint->config();
  EXPECT_EQ(config["block_out_channels"], json({32, 64}));
  EXPECT_EQ(config["layers_per_block"], 2);
  EXPECT_EQ(config["latent_channels"], 16);
  EXPECT_EQ(config["norm_num_groups"], 32);
  EXPECT_EQ(config["scaling_factor"], 0.3611);
  EXPECT_EQ(config["shift_factor"], 0.1159);
  EXPECT_EQ(config["sample_size"], 1024);
}

TEST_F(VaeFileTest, ShowsTheNamesOfDiffusers) {
  const auto checkpoint = open();
  EXPECT_TRUE(checkpoint->find("encoder.down_blocks.1.resnets.0.conv1.weight"));
  EXPECT_TRUE(checkpoint->find("decoder.up_blocks.1.resnets.2.conv_shortcut.bias"));
  const TensorInfo* attention = checkpoint->find("decoder.mid_block.attentions.0.to_out.0.weight");
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention->shape, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(checkpoint->read(attention->name).shape, attention->shape);
}

TEST_F(VaeFileTest, RefusesOtherAutoencoders) {
  add("quant_conv.weight", {32, 32, 1, 1});
  const std::string message = error_of(ErrorKind::kUnsupported, [&] { open(); });
  EXPECT_NE(message.find(".safetensors: is no autoencoder as FLUX.1's makers publish it"), std::string::npos)
      << message;
}

TEST_F(VaeFileTest, RefusesTwoTensorsOfOnePlace) {
  add("decoder.up_blocks.1.resnets.2.conv_shortcut.bias", {32});
  const std::string message = error_of(ErrorKind::kBadFile, [&] { open(); });
  EXPECT_NE(message.find("has the place of"), std::string::npos) << message;
}

}  // namespace
}  // namespace quaver::models
