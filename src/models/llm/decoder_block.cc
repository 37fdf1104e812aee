#include "models/llm/decoder_block.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "models/llm/latent_attention.h"

namespace quaver::models {

namespace {

nn::Bias required_if(bool condition) { return condition ? nn::Bias::kRequired : nn::Bias::kOptional; }

nn::RmsNorm load_norm(const DecoderConfig& config, nn::WeightSource& source, const std::string& name,
                      int64_t size) {
  return {source.tensor(cat(name, ".weight"), {size}), config.norm_eps, config.norm};
}

class SelfAttention : public BlockAttention {
 public:
  SelfAttention(const DecoderConfig& config, const BlockRope& rope, int64_t index, const std::string& prefix,
                nn::WeightSource& source)
      : layer_(index), rope_(config.windows[static_cast<size_t>(index)] > 0 ? rope.window : rope.full) {
    const CausalLmInfo& info = config.info;
    heads_ = info.num_heads, kv_heads_ = info.num_kv_heads, head_dim_ = info.head_dim;
    int64_t q_size = heads_ * head_dim_, kv_size = kv_heads_ * head_dim_;
    nn::Bias qkv_bias = required_if(config.qkv_bias);
    q_ = source.linear(cat(prefix, ".q_proj"), q_size, info.hidden_size, qkv_bias);
    k_ = source.linear(cat(prefix, ".k_proj"), kv_size, info.hidden_size, qkv_bias);
    v_ = source.linear(cat(prefix, ".v_proj"), kv_size, info.hidden_size, qkv_bias);
    o_ = source.linear(cat(prefix, ".o_proj"), info.hidden_size, q_size, required_if(config.output_bias));
    if (config.qk_norm) {
      q_norm_ = load_norm(config, source, cat(prefix, ".q_norm"), head_dim_);
      k_norm_ = load_norm(config, source, cat(prefix, ".k_norm"), head_dim_);
    }
    params_ = {.scale = static_cast<float>(config.attention_scale),
               .window = config.windows[static_cast<size_t>(index)],
               .softcap = static_cast<float>(config.attention_softcap),
               .kv_scaling = source.kv_scaling(prefix, kv_heads_)};
    if (config.attention_sinks)
      params_.sinks = source.tensor(cat(prefix, ".sinks"), {heads_}).to(at::kFloat).contiguous();
  }
  SelfAttention(const SelfAttention&) = delete;  // the group points at the layers
  SelfAttention& operator=(const SelfAttention&) = delete;

  at::Tensor forward(const at::Tensor& x, const StepContext& step) const override {
    std::vector<at::Tensor> projected = qkv_.forward(x);
    at::Tensor q = split(projected[0], heads_), k = split(projected[1], kv_heads_),
               v = split(projected[2], kv_heads_);
    if (q_norm_) q = q_norm_->forward(q), k = k_norm_->forward(k);
    nn::RopeCache own;
    nn::RopeCache& cache = step.rope ? *step.rope : own;
    const nn::RopeAngles& angles = cache.angles(*rope_, step.positions, x.scalar_type());
    q = nn::apply_rope(q, angles), k = nn::apply_rope(k, angles);
    at::Tensor attended = step.attention->attend(layer_, q, k, v.contiguous(), params_);
    return o_.forward(attended.reshape({x.size(0), heads_ * head_dim_}));
  }

  void add_linears(std::vector<DecoderBlock::NamedLinear>& out) override {
    out.push_back({"self_attn.q_proj", &q_, 0});
    out.push_back({"self_attn.k_proj", &k_, 0});
    out.push_back({"self_attn.v_proj", &v_, 0});
    out.push_back({"self_attn.o_proj", &o_, 1});
  }

  void prepare() const override { qkv_.prepare(), o_.prepare(); }

 private:
  at::Tensor split(const at::Tensor& x, int64_t heads) const { return x.unflatten(1, {heads, head_dim_}); }

  int64_t layer_, heads_, kv_heads_, head_dim_;
  std::shared_ptr<const nn::RopeTable> rope_;
  nn::AttentionParams params_;
  nn::Linear q_, k_, v_, o_;
  nn::LinearGroup qkv_{{&q_, &k_, &v_}};
  std::optional<nn::RmsNorm> q_norm_, k_norm_;
};

nn::Mlp load_mlp(const DecoderConfig& config, nn::WeightSource& source, const std::string& prefix,
                 int64_t inner) {
  int64_t hidden = config.info.hidden_size;
  nn::Bias bias = required_if(config.mlp_bias);
  nn::Linear gate = source.linear(cat(prefix, ".gate_proj"), inner, hidden, bias);
  nn::Linear up = source.linear(cat(prefix, ".up_proj"), inner, hidden, bias);
  nn::Linear down = source.linear(cat(prefix, ".down_proj"), hidden, inner, bias);
  return {config.activation, std::move(gate), std::move(up), std::move(down)};
}

std::unique_ptr<BlockAttention> load_attention(const DecoderConfig& config, const BlockRope& rope,
                                               int64_t index, const std::string& prefix,
                                               nn::WeightSource& source) {
  if (config.latent) return make_latent_attention(config, rope.full, index, prefix, source);
  return std::make_unique<SelfAttention>(config, rope, index, prefix, source);
}

nn::Linear load_router(const DecoderConfig& config, nn::WeightSource& source, const std::string& prefix) {
  const int64_t experts = config.moe.num_experts, hidden = config.info.hidden_size;
  if (!config.moe.scored || source.is_quantized(prefix))
    return source.linear(prefix, experts, hidden, required_if(config.router_bias));
  const std::string weight = cat(prefix, ".weight");
  nn::Linear router = nn::Linear::plain(source.wide_tensor(weight, {experts, hidden}), std::nullopt);
  source.settle(router, {weight});
  return router;
}

nn::MoeConfig load_routing(const DecoderConfig& config, nn::WeightSource& source, const std::string& prefix) {
  nn::MoeConfig moe = config.moe;
  if (config.choice_bias)
    moe.scored->choice_bias = source.wide_tensor(cat(prefix, ".e_score_correction_bias"), {moe.num_experts});
  return moe;
}

// One dense layer, or a router with its experts and perhaps one that every token uses.
class FeedForward {
 public:
  FeedForward(const DecoderConfig& config, int64_t index, const std::string& prefix,
              nn::WeightSource& source) {
    if (!config.sparse[static_cast<size_t>(index)]) {
      dense_.emplace(load_mlp(config, source, prefix, config.intermediate_size));
      return;
    }
    int64_t num_experts = config.moe.num_experts;
    nn::Linear router = load_router(config, source, cat(prefix, ".", config.router));
    std::vector<nn::Mlp> experts;
    for (int64_t e = 0; e < num_experts; ++e)
      experts.push_back(load_mlp(config, source, cat(prefix, ".experts.", e), config.moe_intermediate_size));
    sparse_.emplace(load_routing(config, source, cat(prefix, ".gate")), std::move(router),
                    std::move(experts));
    if (config.shared_intermediate_size > 0)
      shared_.emplace(
          load_mlp(config, source, cat(prefix, ".shared_experts"), config.shared_intermediate_size));
  }

  at::Tensor forward(const at::Tensor& x, nn::ExpertCalibration* calibration) const {
    if (dense_) return dense_->forward(x);
    at::Tensor y = sparse_->forward(x, calibration);
    return shared_ ? y + shared_->forward(x) : y;
  }

  void add_linears(std::vector<DecoderBlock::NamedLinear>& out) {
    if (dense_) return add_linears(*dense_, "mlp", kFeedForwardGroup, out);
    int group = kFeedForwardGroup;
    for (size_t e = 0; e < sparse_->experts().size(); ++e, group += 2)
      add_linears(sparse_->experts()[e], cat("mlp.experts.", e), group, out, static_cast<int>(e));
    if (shared_) add_linears(*shared_, "mlp.shared_experts", group, out);
  }

  void prepare() const {
    if (dense_) dense_->prepare();
    if (sparse_) sparse_->prepare();
    if (shared_) shared_->prepare();
  }

 private:
  static void add_linears(nn::Mlp& mlp, const std::string& prefix, int group,
                          std::vector<DecoderBlock::NamedLinear>& out, int expert = -1) {
    out.push_back({cat(prefix, ".gate_proj"), &mlp.gate(), group, expert});
    out.push_back({cat(prefix, ".up_proj"), &mlp.up(), group, expert});
    out.push_back({cat(prefix, ".down_proj"), &mlp.down(), group + 1, expert});
  }

  std::optional<nn::Mlp> dense_, shared_;
  std::optional<nn::Moe> sparse_;
};

class Block : public DecoderBlock {
 public:
  Block(const DecoderConfig& config, const BlockRope& rope, int64_t index, const std::string& prefix,
        nn::WeightSource& source)
      : attention_(load_attention(config, rope, index, cat(prefix, ".self_attn"), source)),
        feed_forward_(config, index, cat(prefix, ".mlp"), source) {
    auto norm = [&](const char* name) {
      return load_norm(config, source, cat(prefix, ".", name), config.info.hidden_size);
    };
    before_attention_ = norm("input_layernorm");
    if (config.sandwich_norms) {
      after_attention_ = norm("post_attention_layernorm");
      before_feed_forward_ = norm("pre_feedforward_layernorm");
      after_feed_forward_ = norm("post_feedforward_layernorm");
    } else {
      before_feed_forward_ = norm("post_attention_layernorm");
    }
  }

  at::Tensor forward(const at::Tensor& hidden, const StepContext& step) const override {
    at::Tensor attended = attention_->forward(before_attention_.forward(hidden), step);
    if (after_attention_) attended = after_attention_->forward(attended);
    at::Tensor middle = hidden + attended;
    at::Tensor fed = feed_forward_.forward(before_feed_forward_.forward(middle), step.experts);
    if (after_feed_forward_) fed = after_feed_forward_->forward(fed);
    return middle + fed;
  }

  std::vector<NamedLinear> linears() override {
    std::vector<NamedLinear> all;
    attention_->add_linears(all);
    feed_forward_.add_linears(all);
    return all;
  }

  void prepare() const override { attention_->prepare(), feed_forward_.prepare(); }

 private:
  std::unique_ptr<BlockAttention> attention_;
  FeedForward feed_forward_;
  nn::RmsNorm before_attention_, before_feed_forward_;
  std::optional<nn::RmsNorm> after_attention_, after_feed_forward_;
};

}  // namespace

std::unique_ptr<DecoderBlock> make_decoder_block(const DecoderConfig& config, const BlockRope& rope,
                                                 int64_t index, nn::WeightSource& source) {
  return std::make_unique<Block>(config, rope, index, cat(config.info.blocks_prefix, ".", index), source);
}

}  // namespace quaver::models
