// Text encoders agree with Transformers block by block, on both paths, in float32 and in 16 bits; and what
// they refuse.
#include "models/text_encoder/text_encoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "checkpoint/safetensors_file.h"
#include "models/golden_model.h"
#include "nn/kernel_path.h"

namespace quaver::models {
namespace {

const std::string kTextEncoders = std::string(QUAVER_TEST_DATA) + "/golden/text_encoder/";
// Products in series per block: q, scores, mix, out, up, down; and norms. The widest inner size.
constexpr double kSumsPerTextBlock = 8, kTextWidth = 128, kTrainedWidth = 512;

struct TextGolden {
  std::unique_ptr<Checkpoint> checkpoint;
  std::string expected;
  at::Tensor tensor(const std::string& name) const { return read_tensor(expected, name); }
  bool has(const std::string& name) const { return SafetensorsFile::open(expected).find(name) != nullptr; }
  std::vector<int64_t> lengths() const {
    at::Tensor values = tensor("lengths");
    return {values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel()};
  }
};

TextGolden open_text_golden(const std::string& name) {
  return {open_hugging_face_folder(kTextEncoders + name), kTextEncoders + name + ".safetensors"};
}

std::unique_ptr<TextEncoder> load_text(const Checkpoint& checkpoint, const nn::LoadOptions& options = {}) {
  nn::WeightSource source(checkpoint, options);
  return load_text_encoder(source);
}

double text_depth(double blocks) { return kSumsPerTextBlock * blocks + 2; }

double text_ratio(const at::Tensor& got, const at::Tensor& want, double blocks) {
  return error_ratio(got, want, kEpsilonF32, text_depth(blocks), kTextWidth);
}

void expect_like_transformers(const TextGolden& golden, const TextEncoder& encoder) {
  const at::Tensor ids = golden.tensor("ids"), want = golden.tensor("hidden");
  const int64_t blocks = encoder.info().num_blocks;
  const TextContext context = encoder.context(ids.size(1));
  at::Tensor hidden = encoder.embed(ids);
  EXPECT_LE(text_ratio(hidden, want[0], 0), 1) << "embedding";
  for (int64_t i = 0; i < blocks; ++i) {
    hidden = encoder.block(i).forward(hidden, context);
    EXPECT_LE(text_ratio(hidden, want[i + 1], static_cast<double>(i + 1)), 1) << "block " << i;
  }
  const TextRows got = encoder.forward(ids);
  EXPECT_LE(text_ratio(got.rows, golden.tensor("rows"), static_cast<double>(blocks)), 1);
  EXPECT_TRUE(got.rows.equal(encoder.output(hidden, ids).rows));
  ASSERT_EQ(got.pooled.defined(), golden.has("pooled"));
  ASSERT_EQ(encoder.info().pooled_width, got.pooled.defined() ? got.pooled.size(1) : 0);
  if (got.pooled.defined()) {
    EXPECT_LE(text_ratio(got.pooled, golden.tensor("pooled"), static_cast<double>(blocks)), 1);
  }
}

class TextEncoderTest : public testing::TestWithParam<const char*> {
 protected:
  TextGolden golden_ = open_text_golden(GetParam());
  c10::InferenceMode no_gradients_;
};

TEST_P(TextEncoderTest, EqualsTransformersWithKernels) {
  expect_like_transformers(golden_, *load_text(*golden_.checkpoint, {.exact_activations = true}));
}

TEST_P(TextEncoderTest, EqualsTransformersWithoutKernels) {
  nn::AtenOnly aten;
  expect_like_transformers(golden_, *load_text(*golden_.checkpoint));
}

TEST_P(TextEncoderTest, KernelLayoutsAloneAreEnough) {
  expect_like_transformers(
      golden_, *load_text(*golden_.checkpoint, {.kernel_layout_only = true, .exact_activations = true}));
}

TEST_P(TextEncoderTest, TokensBehindALengthAreAsIfTheyWerentThere) {
  std::unique_ptr<TextEncoder> encoder = load_text(*golden_.checkpoint, {.exact_activations = true});
  const TextRows got = encoder->forward(golden_.tensor("ids"), golden_.lengths());
  EXPECT_LE(text_ratio(got.rows, golden_.tensor("rows_masked"), 3), 1);
  const int64_t first = golden_.lengths()[0], rest = got.rows.size(1) - first;
  EXPECT_EQ(got.rows[0].narrow(0, first, rest).abs().max().item<float>(), 0);
}

TEST_P(TextEncoderTest, ListsTheLinearsOfEveryBlockUnderTheFilesNames) {
  std::unique_ptr<TextEncoder> encoder = load_text(*golden_.checkpoint);
  nn::WeightSource source(*golden_.checkpoint, {});
  size_t listed = 0, stored = 0;
  for (int64_t i = 0; i < encoder->info().num_blocks; ++i)
    for (const NamedLinear& layer : encoder->block(i).linears()) {
      const std::string name = cat(encoder->info().blocks_prefix, ".", i, ".", layer.name);
      EXPECT_TRUE(source.has(name + ".weight") || source.is_quantized(name)) << name;
      ++listed;
    }
  for (const TensorInfo& tensor : golden_.checkpoint->tensors())
    stored += tensor.name.starts_with(encoder->info().blocks_prefix) && tensor.shape.size() == 2 &&
              (tensor.name.ends_with(".weight") || tensor.name.ends_with(".qweight")) &&
              tensor.name.find("relative_attention_bias") == std::string::npos;
  EXPECT_EQ(listed, stored);
}

INSTANTIATE_TEST_SUITE_P(Families, TextEncoderTest,
                         testing::Values("clip", "clip_projected", "clip_bare", "t5", "t5_relu", "umt5",
                                         "qwen3", "t5_w4g32"),
                         [](const auto& row) { return std::string(row.param); });

double text_error(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kFloat) - want).norm().item<double>() / want.norm().item<double>();
}

class HalfTextEncoderTest : public testing::TestWithParam<const char*> {
 protected:
  TextGolden golden_ = open_text_golden(GetParam());
  c10::InferenceMode no_gradients_;
};

// As wrong as the reference in bfloat16 is, and twice that for luck.
TEST_P(HalfTextEncoderTest, Bfloat16) {
  const double reference = text_error(golden_.tensor("rows_bf16"), golden_.tensor("rows"));
  const TextRows got =
      load_text(*golden_.checkpoint, {.compute_dtype = at::kBFloat16})->forward(golden_.tensor("ids"));
  EXPECT_EQ(got.rows.scalar_type(), at::kBFloat16);
  EXPECT_LE(text_error(got.rows, golden_.tensor("rows")), 2 * reference);
}

// Three bits more than bfloat16.
TEST_P(HalfTextEncoderTest, Float16) {
  const double reference = text_error(golden_.tensor("rows_bf16"), golden_.tensor("rows"));
  const TextRows got =
      load_text(*golden_.checkpoint, {.compute_dtype = at::kHalf})->forward(golden_.tensor("ids"));
  EXPECT_EQ(got.rows.scalar_type(), at::kHalf);
  EXPECT_LE(text_error(got.rows, golden_.tensor("rows")), 2 * reference / 8);
}

INSTANTIATE_TEST_SUITE_P(Families, HalfTextEncoderTest,
                         testing::Values("clip", "clip_projected", "t5", "t5_relu", "umt5", "qwen3"),
                         [](const auto& row) { return std::string(row.param); });

// Field report F110: pictures of FLUX were black in float16, since the feed-forward part of a block goes past
// 65504.
TEST(TextEncoderFieldTest, F110LargeRowsOfT5StayFiniteInFloat16) {
  c10::InferenceMode no_gradients;
  for (const char* name : {"t5", "t5_relu", "umt5"}) {
    TextGolden golden = open_text_golden(name);
    nn::MemoryCheckpoint copy;
    copy_checkpoint(*golden.checkpoint, copy);
    for (const TensorInfo& tensor : golden.checkpoint->tensors())
      if (tensor.name.ends_with("DenseReluDense.wo.weight"))
        copy.add(tensor.name, read_tensor(golden.checkpoint->file_of(tensor.name), tensor.name) * 0x1p15);
    auto rows = [&](at::ScalarType dtype) {
      return load_text(copy, {.compute_dtype = dtype})->forward(golden.tensor("ids")).rows;
    };
    const at::Tensor want = rows(at::kFloat), got = rows(at::kHalf);
    ASSERT_TRUE(at::isfinite(got).all().item<bool>()) << name;
    EXPECT_LE(text_error(got, want), 0.02) << name;
  }
}

// The layers of a real file, whose kernels may round activations to 8 bits: well below the effect of the
// weights' 4.
TEST(QuantizedTextEncoderTest, RoundedActivationsStayClose) {
  c10::InferenceMode no_gradients;
  TextGolden golden = open_text_golden("t5_w4g32");
  std::unique_ptr<TextEncoder> encoder = load_text(*golden.checkpoint);
  for (const NamedLinear& layer : encoder->block(0).linears())
    EXPECT_NE(layer.linear->quant_weight(), nullptr) << layer.name;
  EXPECT_LE(text_error(encoder->forward(golden.tensor("ids")).rows, golden.tensor("rows")), 0.03);
}

// The trained model, as diffusers' pipeline calls it: without masks.
TEST(TrainedTextEncoderTest, EqualsTheReferenceRun) {
  c10::InferenceMode no_gradients;
  const std::filesystem::path folder =
      std::filesystem::path(QUAVER_TEST_DATA).parent_path() / "models/shapes-flux";
  const std::string file = std::string(QUAVER_TEST_DATA) + "/../models/reference/shapes-flux.safetensors";
  const nn::LoadOptions options{.exact_activations = true};
  const auto clip = load_text(*open_hugging_face_folder(folder / "text_encoder"), options),
             t5 = load_text(*open_hugging_face_folder(folder / "text_encoder_2"), options);
  auto ratio = [&](const at::Tensor& got, const std::string& name) {
    return error_ratio(got, read_tensor(file, name), kEpsilonF32, text_depth(3), kTrainedWidth);
  };
  for (int n = 0; n < 3; ++n) {
    const at::Tensor clip_ids = read_tensor(file, cat(n, ".clip_ids")).to(at::kLong),
                     t5_ids = read_tensor(file, cat(n, ".t5_ids")).to(at::kLong);
    EXPECT_LE(ratio(clip->forward(clip_ids).pooled, cat(n, ".clip_pooled")), 1) << n;
    EXPECT_LE(ratio(t5->forward(t5_ids).rows, cat(n, ".t5_hidden")), 1) << n;
  }
}

// The derivative of `loss` by one element of x: from the graph, and by central differences in float64.
template <class Loss>
void expect_gradient(const Loss& loss, const at::Tensor& x, const std::string& what) {
  at::Tensor tuned = x.clone().set_requires_grad(true), up = x.clone(), down = x.clone();
  loss(tuned).backward();
  const double step = 1e-5, analytic = tuned.grad().flatten()[130].template item<double>();
  up.flatten()[130] += step, down.flatten()[130] -= step;
  const double numeric = (loss(up) - loss(down)).template item<double>() / (2 * step);
  EXPECT_NEAR(analytic, numeric, 1e-7 + 1e-5 * std::abs(numeric)) << what;
  EXPECT_NE(analytic, 0) << what;
}

TEST(TextEncoderGradientTest, BlocksHaveGradients) {
  for (const char* name : {"clip", "t5", "umt5", "qwen3"}) {
    TextGolden golden = open_text_golden(name);
    std::unique_ptr<TextEncoder> encoder = load_text(*golden.checkpoint, {.compute_dtype = at::kDouble});
    const at::Tensor hidden = golden.tensor("hidden")[0].to(at::kDouble);
    const TextContext context = encoder->context(hidden.size(1));
    TextBlock& block = encoder->block(0);
    auto loss = [&](const at::Tensor& x) { return block.forward(x, context).square().mean(); };
    expect_gradient(loss, hidden, cat(name, " hidden"));
    for (NamedLinear& layer : block.linears()) {
      const at::Tensor weight = layer.linear->dense_weight().clone();
      auto with = [&](const at::Tensor& w) {
        layer.linear->set_dense_weight(w);
        return loss(hidden);
      };
      expect_gradient(with, weight, cat(name, " ", layer.name));
      layer.linear->set_dense_weight(weight);
    }
  }
}

struct Refusal {
  const char* golden;
  const char* key;
  json value;
  const char* says;
};

std::string text_refusal(const Checkpoint& checkpoint) {
  try {
    load_text(checkpoint);
  } catch (const Error& error) {
    return error.what();
  }
  return "it loads";
}

TEST(TextEncoderFileTest, RefusesWhatItDoesNotKnow) {
  const std::vector<Refusal> refusals = {
      {"clip", "architectures", {"BertModel"}, "is [\"BertModel\"], expected one of: CLIPTextModel, "},
      {"clip", "architectures", nullptr, "is [], expected one of: CLIPTextModel, "},
      {"clip", "hidden_act", "tanh", "known are quick_gelu and gelu"},
      {"clip", "num_attention_heads", 5, "num_attention_heads 5 does not divide"},
      {"clip", "max_position_embeddings", 25, "has shape [24, 64], expected [25, 64]"},
      {"clip_projected", "architectures", {"CLIPTextModel"}, "text_projection.weight"},
      {"t5", "feed_forward_proj", "gated-silu", "known are relu and gated-gelu"},
      {"t5", "feed_forward_proj", "relu", "DenseReluDense.wi.weight"},
      {"t5", "relative_attention_num_buckets", 18, "expected a multiple of 4"},
      {"t5", "relative_attention_max_distance", 4, "expected more than 4"},
      {"t5", "num_layers", 2, "belong to no layer"},
      {"t5", "architectures", {"UMT5EncoderModel"}, "block.1.layer.0.SelfAttention.relative_attention_bias"},
      {"qwen3", "rms_norm_eps", 0, "rms_norm_eps"},
  };
  for (const Refusal& refusal : refusals) {
    nn::MemoryCheckpoint copy;
    copy_checkpoint(*open_text_golden(refusal.golden).checkpoint, copy);
    copy.edit_config()[refusal.key] = refusal.value;
    const std::string said = text_refusal(copy);
    EXPECT_NE(said.find(refusal.says), std::string::npos)
        << refusal.golden << " " << refusal.key << ": " << said;
  }
}

TEST(TextEncoderFileTest, TakesASecondCopyOfTheEmbeddingOnlyWhenEqual) {
  TextGolden golden = open_text_golden("t5");
  nn::MemoryCheckpoint copy;
  copy_checkpoint(*golden.checkpoint, copy);
  const at::Tensor table = read_tensor(golden.checkpoint->file_of("shared.weight"), "shared.weight");
  copy.add("encoder.embed_tokens.weight", table.clone());
  EXPECT_EQ(text_refusal(copy), "it loads");
  copy.add("encoder.embed_tokens.weight", table * 2);
  EXPECT_NE(text_refusal(copy).find("differ, expected one embedding"), std::string::npos)
      << text_refusal(copy);
}

TEST(TextEncoderFileTest, DropsTheHeadOfALanguageModel) {
  nn::MemoryCheckpoint copy;
  copy_checkpoint(*open_text_golden("qwen3").checkpoint, copy);
  nn::MemoryCheckpoint whole(copy.config());
  whole.edit_config()["architectures"] = {"Qwen3ForCausalLM"};
  for (const TensorInfo& tensor : copy.tensors())
    whole.add("model." + tensor.name, nn::tensor_over(copy.read(tensor.name), tensor.name).clone());
  whole.add("lm_head.weight", at::ones({128, 64}));
  const at::Tensor ids = open_text_golden("qwen3").tensor("ids");
  EXPECT_TRUE(load_text(whole)->forward(ids).rows.equal(load_text(copy)->forward(ids).rows));
}

void expect_prompt_refused(const TextEncoder& encoder, const at::Tensor& ids, const char* says) {
  try {
    encoder.forward(ids);
    ADD_FAILURE() << "no error, expected: " << says;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(TextEncoderPromptTest, RefusesPromptsItCantEncode) {
  TextGolden golden = open_text_golden("clip_bare");
  std::unique_ptr<TextEncoder> encoder = load_text(*golden.checkpoint);
  const at::Tensor ids = golden.tensor("ids");
  expect_prompt_refused(*encoder, at::cat({ids, ids}, 1), "48 tokens, and its encoder takes at most 24");
  expect_prompt_refused(*encoder, ids.clone().fill_(128), "token id 128 is outside the vocabulary of 128");
  expect_prompt_refused(*encoder, ids.clone().fill_(3), "lacks the end token 120");
  expect_prompt_refused(*encoder, ids.narrow(1, 0, 0), "has no tokens");
}

}  // namespace
}  // namespace quaver::models
