#include "models/vae/autoencoder_kl_blocks.h"

#include <ATen/TensorOperators.h>

#include "nn/joint_attention.h"

namespace quaver::models {

namespace {
constexpr double kNormEps = 1e-6;
}

KlResidualBlock::KlResidualBlock(nn::WeightSource& source, const std::string& prefix, int64_t in, int64_t out,
                                 int64_t groups)
    : norm1_(source, prefix + ".norm1", in, groups, kNormEps),
      norm2_(source, prefix + ".norm2", out, groups, kNormEps),
      conv1_(source, prefix + ".conv1", {.in = in, .out = out}),
      conv2_(source, prefix + ".conv2", {.in = out, .out = out}) {
  if (in != out)
    shortcut_.emplace(source, prefix + ".conv_shortcut",
                      nn::ConvShape{.in = in, .out = out, .kernel = 1, .padding = 0});
}

at::Tensor KlResidualBlock::forward(const at::Tensor& x) const {
  at::Tensor y = conv1_.forward(norm1_.forward_silu(x));
  y = conv2_.forward(norm2_.forward_silu(y));
  return y.add_(shortcut_ ? shortcut_->forward(x) : x);
}

void KlResidualBlock::visit_tensors(const nn::TensorVisit& visit) {
  conv1_.visit_tensors(visit), conv2_.visit_tensors(visit);
  if (shortcut_) shortcut_->visit_tensors(visit);
}

KlAttention::KlAttention(nn::WeightSource& source, const std::string& prefix, int64_t channels,
                         int64_t groups)
    : norm_(source, prefix + ".group_norm", channels, groups, kNormEps),
      q_(source.linear(prefix + ".to_q", channels, channels, nn::Bias::kRequired)),
      k_(source.linear(prefix + ".to_k", channels, channels, nn::Bias::kRequired)),
      v_(source.linear(prefix + ".to_v", channels, channels, nn::Bias::kRequired)),
      out_(source.linear(prefix + ".to_out.0", channels, channels, nn::Bias::kRequired)) {}

at::Tensor KlAttention::forward(const at::Tensor& x) const {
  const int64_t batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  at::Tensor pixels = norm_.forward(x).permute({0, 2, 3, 1}).reshape({-1, channels});
  auto one_head = [&](const nn::Linear& layer) {
    return layer.forward(pixels).view({batch, height * width, 1, channels});
  };
  at::Tensor mixed = nn::joint_attention(one_head(q_), one_head(k_), one_head(v_)).view({-1, channels});
  return out_.forward(mixed).view({batch, height, width, channels}).permute({0, 3, 1, 2}) + x;
}

void KlAttention::visit_tensors(const nn::TensorVisit& visit) {
  for (nn::Linear* layer : {&q_, &k_, &v_, &out_}) layer->visit_tensors(visit);
}

KlMiddle::KlMiddle(nn::WeightSource& source, const std::string& prefix, const KlConfig& config)
    : first_(source, prefix + ".resnets.0", config.channels.back(), config.channels.back(), config.groups),
      second_(source, prefix + ".resnets.1", config.channels.back(), config.channels.back(), config.groups) {
  if (config.mid_attention)
    attention_.emplace(source, prefix + ".attentions.0", config.channels.back(), config.groups);
}

at::Tensor KlMiddle::forward(const at::Tensor& x) const {
  at::Tensor y = first_.forward(x);
  if (attention_) y = attention_->forward(y);
  return second_.forward(y);
}

void KlMiddle::visit_tensors(const nn::TensorVisit& visit) {
  first_.visit_tensors(visit), second_.visit_tensors(visit);
  if (attention_) attention_->visit_tensors(visit);
}

KlEncoder::KlEncoder(nn::WeightSource& source, const KlConfig& config)
    : conv_in_(source, "encoder.conv_in", {.in = config.in_channels, .out = config.channels.front()}),
      middle_(source, "encoder.mid_block", config),
      norm_out_(source, "encoder.conv_norm_out", config.channels.back(), config.groups, kNormEps),
      conv_out_(source, "encoder.conv_out",
                {.in = config.channels.back(), .out = 2 * config.latent_channels}) {
  int64_t in = config.channels.front();
  for (size_t i = 0; i < config.channels.size(); ++i) {
    const std::string prefix = cat("encoder.down_blocks.", i);
    const int64_t out = config.channels[i];
    Level& level = levels_.emplace_back();
    for (int64_t j = 0; j < config.layers_per_block; ++j, in = out)
      level.blocks.emplace_back(source, cat(prefix, ".resnets.", j), in, out, config.groups);
    if (i + 1 < config.channels.size()) level.down.emplace(source, prefix + ".downsamplers.0.conv", out);
  }
}

at::Tensor KlEncoder::forward(const at::Tensor& pixels) const {
  at::Tensor x = conv_in_.forward(pixels);
  for (const Level& level : levels_) {
    for (const KlResidualBlock& block : level.blocks) x = block.forward(x);
    if (level.down) x = level.down->forward(x);
  }
  return conv_out_.forward(norm_out_.forward_silu(middle_.forward(x)));
}

void KlEncoder::visit_tensors(const nn::TensorVisit& visit) {
  conv_in_.visit_tensors(visit), middle_.visit_tensors(visit), conv_out_.visit_tensors(visit);
  for (Level& level : levels_) {
    for (KlResidualBlock& block : level.blocks) block.visit_tensors(visit);
    if (level.down) level.down->visit_tensors(visit);
  }
}

KlDecoder::KlDecoder(nn::WeightSource& source, const KlConfig& config)
    : conv_in_(source, "decoder.conv_in", {.in = config.latent_channels, .out = config.channels.back()}),
      middle_(source, "decoder.mid_block", config),
      norm_out_(source, "decoder.conv_norm_out", config.channels.front(), config.groups, kNormEps),
      conv_out_(source, "decoder.conv_out", {.in = config.channels.front(), .out = config.out_channels}) {
  int64_t in = config.channels.back();
  for (size_t i = 0; i < config.channels.size(); ++i) {
    const std::string prefix = cat("decoder.up_blocks.", i);
    const int64_t out = config.channels[config.channels.size() - 1 - i];
    Level& level = levels_.emplace_back();
    for (int64_t j = 0; j < config.layers_per_block + 1; ++j, in = out)
      level.blocks.emplace_back(source, cat(prefix, ".resnets.", j), in, out, config.groups);
    if (i + 1 < config.channels.size()) level.up.emplace(source, prefix + ".upsamplers.0.conv", out);
  }
}

at::Tensor KlDecoder::forward(const at::Tensor& latents) const {
  at::Tensor x = middle_.forward(conv_in_.forward(latents));
  for (const Level& level : levels_) {
    for (const KlResidualBlock& block : level.blocks) x = block.forward(x);
    if (level.up) x = level.up->forward(x);
  }
  return conv_out_.forward(norm_out_.forward_silu(x));
}

void KlDecoder::visit_tensors(const nn::TensorVisit& visit) {
  conv_in_.visit_tensors(visit), middle_.visit_tensors(visit), conv_out_.visit_tensors(visit);
  for (Level& level : levels_) {
    for (KlResidualBlock& block : level.blocks) block.visit_tensors(visit);
    if (level.up) level.up->visit_tensors(visit);
  }
}

}  // namespace quaver::models
