// FLUX.1 and Ovis-Image: one architecture, whose variants are a row of options.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <numeric>
#include <optional>
#include <utility>

#include "models/dit/families.h"
#include "models/dit/flux_blocks.h"
#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"
#include "nn/axis_rope.h"
#include "nn/modulation.h"
#include "nn/norm.h"
#include "nn/timestep_embedding.h"

namespace quaver::models {

namespace {

// Where relatives differ.
struct FluxVariant {
  const char* family;
  FluxMlp mlp;
  bool pooled_text;       // the condition takes pooled text (and guidance, where the config says so)
  bool text_norm;         // an RMS norm before the text's projection
  bool text_positions;    // text tokens stand at (0, i, i), not at the origin
  const char* condition;  // prefix of the layers that make the condition, with its dot
};
constexpr FluxVariant kFlux = {"flux", FluxMlp::kGelu, true, false, false, "time_text_embed."};
constexpr FluxVariant kOvisImage = {"ovis_image", FluxMlp::kSwiglu, false, true, true, ""};

constexpr int64_t kTimeChannels = 256;
constexpr double kTimeScale = 1000, kRopeTheta = 10000, kEps = 1e-6;
constexpr int64_t kMlpRatio = 4;

struct FluxConfig {
  DitInfo info;
  int64_t doubles = 0, singles = 0;
  std::vector<int64_t> axes;
  FluxBlockConfig block;
};

FluxConfig read_flux(const ConfigReader& config, const FluxVariant& variant) {
  FluxConfig out;
  out.doubles = config.count("num_layers");
  out.singles = config.whole_or("num_single_layers", 0);
  DitInfo& info = out.info;
  info = {.family = variant.family,
          .num_blocks = out.doubles + out.singles,
          .channels = config.count("in_channels"),
          .num_heads = config.count("num_attention_heads"),
          .head_dim = config.count("attention_head_dim"),
          .text_width = config.count("joint_attention_dim")};
  info.width = info.num_heads * info.head_dim;
  if (variant.pooled_text) info.pooled_width = config.count("pooled_projection_dim");
  info.takes_guidance = variant.pooled_text && config.flag("guidance_embeds", false);
  if (int64_t out_channels = config.count_or("out_channels", info.channels); out_channels != info.channels)
    config.unsupported("out_channels", "is ", out_channels, ", expected that of in_channels, ",
                       info.channels);
  if (int64_t patch = config.count_or("patch_size", 1); patch != 1)
    config.unsupported("patch_size", "is ", patch,
                       ", expected 1: pictures are packed before the transformer");
  out.axes = config.numbers("axes_dims_rope");
  if (out.axes.empty()) out.axes = {16, 56, 56};
  if (out.axes.size() != 3 || std::accumulate(out.axes.begin(), out.axes.end(), int64_t{0}) != info.head_dim)
    config.bad("axes_dims_rope", "is ", json(out.axes).dump(), ", expected three numbers that add up to ",
               "attention_head_dim, ", info.head_dim);
  for (int64_t axis : out.axes)
    if (axis <= 0 || axis % 2 != 0) config.bad("axes_dims_rope", "holds ", axis, ", expected even numbers");
  out.block = {.width = info.width,
               .head_dim = info.head_dim,
               .mlp = variant.mlp,
               .mlp_width = kMlpRatio * info.width};
  info.values_per_token = flux_values_per_token(out.block);
  return out;
}

class Flux : public Dit {
 public:
  Flux(const FluxVariant& variant, FluxConfig config, nn::WeightSource& source)
      : Dit(source.options()),
        variant_(variant),
        config_(std::move(config)),
        device_(source.options().device) {
    const DitInfo& info = config_.info;
    auto mlp = [&](const char* name, int64_t in) {
      return nn::EmbeddingMlp(source, cat(variant.condition, name, "_embedder"), in, info.width);
    };
    time_ = mlp("timestep", kTimeChannels);
    if (info.takes_guidance) guidance_ = mlp("guidance", kTimeChannels);
    if (variant.pooled_text) pooled_ = mlp("text", info.pooled_width);
    if (variant.text_norm)
      text_norm_.emplace(source.tensor("context_embedder_norm.weight", {info.text_width}), kEps,
                         nn::NormFlavour::kCastThenScale);
    text_in_ = source.linear("context_embedder", info.width, info.text_width, nn::Bias::kRequired);
    image_in_ = source.linear("x_embedder", info.width, info.channels, nn::Bias::kRequired);
    norm_out_ = source.linear("norm_out.linear", 2 * info.width, info.width, nn::Bias::kRequired);
    image_out_ = source.linear("proj_out", info.channels, info.width, nn::Bias::kRequired);
    dtype_ = source.options().compute_dtype;
  }

  const DitInfo& info() const override { return config_.info; }

  std::string block_name(int64_t index) const override {
    require(index >= 0 && index < config_.info.num_blocks, ErrorKind::kInternal, "no block ", index);
    return index < config_.doubles ? cat("transformer_blocks.", index)
                                   : cat("single_transformer_blocks.", index - config_.doubles);
  }

  nn::RopeAngles rope(int64_t text_tokens, int64_t rows, int64_t cols) const override {
    const at::TensorOptions whole = at::TensorOptions(at::kLong).device(device_);
    at::Tensor text = at::zeros({text_tokens, 3}, whole);
    if (variant_.text_positions) text.narrow(1, 1, 2).add_(at::arange(text_tokens, whole).unsqueeze(1));
    at::Tensor image = at::zeros({rows, cols, 3}, whole);
    image.select(2, 1).add_(at::arange(rows, whole).unsqueeze(1));
    image.select(2, 2).add_(at::arange(cols, whole).unsqueeze(0));
    // Not in the weights' dtype: rounded angles would turn heads by other ones.
    return nn::axis_angles(at::cat({text, image.flatten(0, 1)}), config_.axes, kRopeTheta,
                           dtype_ == at::kDouble ? at::kDouble : at::kFloat);
  }

  at::Tensor condition(const DitInput& input) const override {
    auto of_number = [&](const nn::EmbeddingMlp& mlp, const at::Tensor& number) {
      return mlp.forward(nn::sinusoidal_embedding(number * kTimeScale, kTimeChannels).to(dtype_));
    };
    at::Tensor sum = of_number(time_, input.sigma);
    if (guidance_) sum = sum + of_number(*guidance_, input.guidance);
    if (pooled_) sum = sum + pooled_->forward(input.pooled.to(dtype_));
    return at::silu(sum);
  }

  DitState embed_tokens(const at::Tensor& latents, const at::Tensor& given_text) const override {
    auto projected = [&](const nn::Linear& layer, const at::Tensor& x) {
      return layer.forward(x.flatten(0, 1)).unflatten(0, {x.size(0), x.size(1)});
    };
    at::Tensor text = given_text.to(dtype_);
    if (text_norm_) text = text_norm_->forward(text);
    return {projected(image_in_, latents.to(dtype_)), projected(text_in_, text)};
  }

  at::Tensor project_out(const at::Tensor& image, const at::Tensor& condition) const override {
    std::vector<at::Tensor> m = norm_out_.forward(condition).chunk(2, -1);  // scale, then shift
    at::Tensor rows = nn::modulated_norm(image, m[1], m[0], kEps);
    return image_out_.forward(rows.flatten(0, 1)).unflatten(0, {rows.size(0), rows.size(1)});
  }

  std::vector<NamedLinear> outer_linears() override {
    std::vector<NamedLinear> out = {
        {"context_embedder", &text_in_, 0},
        {"x_embedder", &image_in_, 1},
        {.name = "norm_out.linear", .linear = &norm_out_, .fusion_group = 2, .modulation = true},
        {"proj_out", &image_out_, 3}};
    const auto list = [&](const char* name, nn::EmbeddingMlp& mlp) {
      for (const auto& [layer, linear] : mlp.linears()) {
        const int group = static_cast<int>(out.size());
        out.push_back({cat(variant_.condition, name, "_embedder.", layer), linear, group});
      }
    };
    list("timestep", time_);
    if (guidance_) list("guidance", *guidance_);
    if (pooled_) list("text", *pooled_);
    return out;
  }

  std::unique_ptr<DitBlock> make_block(int64_t index, nn::WeightSource& source) const override {
    return index < config_.doubles ? make_flux_double_block(config_.block, block_name(index), source)
                                   : make_flux_single_block(config_.block, block_name(index), source);
  }

 private:
  FluxVariant variant_;
  FluxConfig config_;
  at::Device device_;
  at::ScalarType dtype_ = at::kFloat;
  nn::EmbeddingMlp time_;
  std::optional<nn::EmbeddingMlp> guidance_, pooled_;
  std::optional<nn::RmsNorm> text_norm_;
  nn::Linear text_in_, image_in_, norm_out_, image_out_;
};

std::unique_ptr<Dit> make_flux_variant(const FluxVariant& variant, nn::WeightSource& source) {
  const ConfigReader config = config_of(source.checkpoint());
  return std::make_unique<Flux>(variant, read_flux(config, variant), source);
}

}  // namespace

std::unique_ptr<Dit> make_flux(nn::WeightSource& source) { return make_flux_variant(kFlux, source); }
std::unique_ptr<Dit> make_ovis_image(nn::WeightSource& source) {
  return make_flux_variant(kOvisImage, source);
}

}  // namespace quaver::models
