#include "models/llm/latent_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <utility>

#include "nn/precision.h"

namespace quaver::models {

namespace {

constexpr double kLatentNormEps = 1e-6;  // whatever the config says of the other norms

class LatentAttention : public BlockAttention {
 public:
  LatentAttention(const DecoderConfig& config, std::shared_ptr<const nn::RopeTable> rope, int64_t index,
                  const std::string& prefix, nn::WeightSource& source)
      : layer_(index),
        heads_(config.info.num_heads),
        width_(latent_head_width(*config.latent)),
        latent_(*config.latent),
        rope_(std::move(rope)),
        params_{.scale = static_cast<float>(config.attention_scale)} {
    load_queries(config, prefix, source);
    load_keys_and_values(config, prefix, source);
    o_ = source.linear(cat(prefix, ".o_proj"), config.info.hidden_size, heads_ * latent_.value_dim,
                       rule(config.output_bias));
    source.kv_scaling(prefix, 1);  // of the latent rows, which are not what is cached here
  }
  LatentAttention(const LatentAttention&) = delete;  // the group points at the layers
  LatentAttention& operator=(const LatentAttention&) = delete;

  at::Tensor forward(const at::Tensor& x, const StepContext& step) const override {
    std::vector<at::Tensor> projected = inputs_.forward(x);
    const at::Tensor &q = projected[0], &kv = projected[1];
    nn::RopeCache own;
    nn::RopeCache& cache = step.rope ? *step.rope : own;
    const nn::RopeAngles& angles = cache.angles(*rope_, step.positions, rotation_dtype(x));
    at::Tensor expanded = by_head(kv_b_.forward(kv_norm_.forward(kv.narrow(1, 0, latent_.kv_rank))));
    at::Tensor shared = rotated(kv.narrow(1, latent_.kv_rank, latent_.rope_dim).unsqueeze(1), angles);
    at::Tensor attended =
        step.attention->attend(layer_, queries(q, angles), keys(expanded, shared), values(expanded), params_);
    return o_.forward(attended.narrow(2, 0, latent_.value_dim).flatten(1));
  }

  void add_linears(std::vector<DecoderBlock::NamedLinear>& out) override {
    // Engines that fuse layers on disk fuse the two narrow ones, not whole queries with one of them.
    out.push_back({q_norm_ ? "self_attn.q_a_proj" : "self_attn.q_proj", &q_, q_norm_ ? 0 : 1});
    out.push_back({"self_attn.kv_a_proj_with_mqa", &kv_a_, 0});
    if (q_norm_) out.push_back({"self_attn.q_b_proj", &q_b_, 1});
    out.push_back({"self_attn.kv_b_proj", &kv_b_, 2});
    out.push_back({"self_attn.o_proj", &o_, 3});
  }

  void prepare() const override {
    inputs_.prepare();
    if (q_norm_) q_b_.prepare();
    kv_b_.prepare(), o_.prepare();
  }

 private:
  static nn::Bias rule(bool must) { return must ? nn::Bias::kRequired : nn::Bias::kOptional; }

  nn::RmsNorm load_latent_norm(const DecoderConfig& config, nn::WeightSource& source, const std::string& name,
                               int64_t size) const {
    return {source.tensor(cat(name, ".weight"), {size}), kLatentNormEps, config.norm};
  }

  void load_queries(const DecoderConfig& config, const std::string& prefix, nn::WeightSource& source) {
    const int64_t hidden = config.info.hidden_size, rank = latent_.q_rank,
                  size = heads_ * (latent_.plain_dim + latent_.rope_dim);
    if (rank == 0) {
      q_ = source.linear(cat(prefix, ".q_proj"), size, hidden);
      return;
    }
    q_ = source.linear(cat(prefix, ".q_a_proj"), rank, hidden, rule(config.qkv_bias));
    q_norm_ = load_latent_norm(config, source, cat(prefix, ".q_a_layernorm"), rank);
    q_b_ = source.linear(cat(prefix, ".q_b_proj"), size, rank);
  }

  void load_keys_and_values(const DecoderConfig& config, const std::string& prefix,
                            nn::WeightSource& source) {
    const int64_t rank = latent_.kv_rank;
    kv_a_ = source.linear(cat(prefix, ".kv_a_proj_with_mqa"), rank + latent_.rope_dim,
                          config.info.hidden_size, rule(config.qkv_bias));
    kv_norm_ = load_latent_norm(config, source, cat(prefix, ".kv_a_layernorm"), rank);
    kv_b_ = source.linear(cat(prefix, ".kv_b_proj"), heads_ * (latent_.plain_dim + latent_.value_dim), rank);
  }

  at::ScalarType rotation_dtype(const at::Tensor& x) const {
    return latent_.wide_rotation ? nn::at_least_float(x) : x.scalar_type();
  }

  at::Tensor rotated(const at::Tensor& x, const nn::RopeAngles& angles) const {  // [tokens, heads, rope_dim]
    at::Tensor wide = x.to(rotation_dtype(x));
    at::Tensor turned =
        latent_.interleaved ? nn::apply_interleaved_rope(wide, angles) : nn::apply_rope(wide, angles);
    return turned.to(x.scalar_type());
  }

  at::Tensor by_head(const at::Tensor& x) const { return x.unflatten(1, {heads_, -1}); }

  at::Tensor padded(const at::Tensor& x) const {  // [tokens, heads, n] -> [tokens, heads, width]
    const int64_t missing = width_ - x.size(2);
    return missing == 0 ? x.contiguous() : at::constant_pad_nd(x, {0, missing});
  }

  at::Tensor queries(const at::Tensor& projected, const nn::RopeAngles& angles) const {
    at::Tensor q = by_head(q_norm_ ? q_b_.forward(q_norm_->forward(projected)) : projected);
    at::Tensor turned = rotated(q.narrow(2, latent_.plain_dim, latent_.rope_dim), angles);
    return padded(at::cat({q.narrow(2, 0, latent_.plain_dim), turned}, 2));
  }

  // One rotated part serves all heads.
  at::Tensor keys(const at::Tensor& expanded, const at::Tensor& shared) const {
    at::Tensor plain = expanded.narrow(2, 0, latent_.plain_dim);
    return padded(at::cat({plain, shared.expand({-1, heads_, -1})}, 2));
  }

  at::Tensor values(const at::Tensor& expanded) const {
    return padded(expanded.narrow(2, latent_.plain_dim, latent_.value_dim));
  }

  int64_t layer_, heads_, width_;
  LatentConfig latent_;
  std::shared_ptr<const nn::RopeTable> rope_;
  nn::AttentionParams params_;
  nn::Linear q_, kv_a_;  // q_ gives the queries, or with a rank what q_b_ makes them of
  nn::LinearGroup inputs_{{&q_, &kv_a_}};
  std::optional<nn::RmsNorm> q_norm_;  // with a rank
  nn::RmsNorm kv_norm_;
  nn::Linear q_b_, kv_b_, o_;
};

}  // namespace

int64_t latent_head_width(const LatentConfig& latent) {
  return std::max(latent.plain_dim + latent.rope_dim, latent.value_dim);
}

std::unique_ptr<BlockAttention> make_latent_attention(const DecoderConfig& config,
                                                      std::shared_ptr<const nn::RopeTable> rope,
                                                      int64_t index, const std::string& prefix,
                                                      nn::WeightSource& source) {
  return std::make_unique<LatentAttention>(config, std::move(rope), index, prefix, source);
}

}  // namespace quaver::models
