// Shapes: tokens are the rows of all batch entries, [batch * tokens, width], wherever a linear layer sees
// them.
#include "models/dit/flux_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include <memory>
#include <utility>

#include "models/dit/flux_parts.h"
#include "nn/gelu_beside.h"
#include "nn/joined_heads.h"
#include "nn/joint_attention.h"
#include "nn/modulation.h"
#include "nn/norm.h"

namespace quaver::models {

namespace {

constexpr double kNormEps = 1e-6;

at::Tensor flux_rows(const nn::Linear& layer, const at::Tensor& x) {  // [batch, tokens, in]
  return layer.forward(x.flatten(0, 1)).unflatten(0, {x.size(0), x.size(1)});
}

int64_t flux_up_width(const FluxBlockConfig& config) {
  return config.mlp == FluxMlp::kSwiglu ? 2 * config.mlp_width : config.mlp_width;
}

at::Tensor flux_mlp(FluxMlp kind, const at::Tensor& x) {
  if (kind == FluxMlp::kGelu) return at::gelu(x, "tanh");
  std::vector<at::Tensor> halves = x.chunk(2, -1);
  return halves[0] * at::silu(halves[1]);
}

// float16 ends at 65504, and late blocks go past it.
at::Tensor within_half(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf ? at::clamp(x, -65504.0, 65504.0) : x;
}

// What one stream brings to the attention.
struct Heads {
  nn::StreamHeads q, k;
  at::Tensor v;  // [batch, tokens, heads, head_dim]
};

at::Tensor attend(const std::vector<Heads>& streams, const DitContext& context) {
  std::vector<nn::StreamHeads> q, k;
  std::vector<at::Tensor> v;
  for (const Heads& heads : streams) {
    q.push_back(heads.q), k.push_back(heads.k);
    v.push_back(heads.v);
  }
  return nn::joint_attention(nn::joined_heads(q, context.rope), nn::joined_heads(k, context.rope),
                             v.size() == 1 ? v.front() : at::cat(v, 1), context.tokens);
}

// The layers q, k and v of one stream and the norms of queries and keys.
class FluxHeads {
 public:
  struct Names {
    const char *q, *k, *v, *norm_q, *norm_k;
  };

  FluxHeads(const FluxBlockConfig& config, const std::string& attention, const Names& names,
            nn::WeightSource& source)
      : names_(names), head_dim_(config.head_dim) {
    auto layer = [&](const char* name) {
      return source.linear(cat(attention, ".", name), config.width, config.width, nn::Bias::kOptional,
                           FluxParts(config, source).heads());
    };
    auto norm = [&](const char* name) {
      return nn::RmsNorm(source.tensor(cat(attention, ".", name, ".weight"), {config.head_dim}), kNormEps,
                         nn::NormFlavour::kCastThenScale);
    };
    layers_ = std::make_unique<Layers>(Layers{layer(names.q), layer(names.k), layer(names.v)});
    norm_q_ = norm(names.norm_q), norm_k_ = norm(names.norm_k);
    group_ = std::make_unique<nn::LinearGroup>(
        std::vector<const nn::Linear*>{&layers_->q, &layers_->k, &layers_->v});
  }

  Heads forward(const at::Tensor& x) const {  // [batch, tokens, width]
    std::vector<at::Tensor> qkv = group_->forward(x.flatten(0, 1));
    for (at::Tensor& part : qkv)
      part = part.unflatten(0, {x.size(0), x.size(1)}).unflatten(-1, {-1, head_dim_});
    return {{qkv[0], &norm_q_}, {qkv[1], &norm_k_}, qkv[2]};
  }

  void list(std::vector<NamedLinear>& out, int group) {
    out.push_back({cat("attn.", names_.q), &layers_->q, group});
    out.push_back({cat("attn.", names_.k), &layers_->k, group});
    out.push_back({cat("attn.", names_.v), &layers_->v, group});
  }
  void prepare() const { group_->prepare(); }

 private:
  struct Layers {
    nn::Linear q, k, v;
  };
  Names names_;
  int64_t head_dim_;
  std::unique_ptr<Layers> layers_;  // the group points at them
  std::unique_ptr<nn::LinearGroup> group_;
  nn::RmsNorm norm_q_, norm_k_;
};

// Where one stream's weights stand.
struct StreamNames {
  FluxHeads::Names heads;
  const char *norm, *out, *mlp;
};
constexpr StreamNames kImageNames = {
    {"to_q", "to_k", "to_v", "norm_q", "norm_k"}, "norm1.linear", "attn.to_out.0", "ff.net"};
constexpr StreamNames kTextNames = {
    {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"},
    "norm1_context.linear",
    "attn.to_add_out",
    "ff_context.net"};

// One of the two streams of a double block: everything but the attention that joins them.
class FluxStream {
 public:
  FluxStream(const FluxBlockConfig& config, const std::string& prefix, const StreamNames& names,
             nn::WeightSource& source)
      : names_(names), mlp_(config.mlp), heads_(config, cat(prefix, ".attn"), names.heads, source) {
    const FluxParts parts(config, source);
    auto layer = [&](const auto& name, int64_t out, int64_t in, const nn::LinearShard& part) {
      return source.linear(cat(prefix, ".", name), out, in, nn::Bias::kOptional, part);
    };
    modulation_ = layer(names.norm, 6 * config.width, config.width, parts.modulation(6));
    out_ = layer(names.out, config.width, config.width, parts.out());
    up_ = layer(cat(names.mlp, ".0.proj"), flux_up_width(config), config.width, parts.up());
    down_ = layer(cat(names.mlp, ".2"), config.width, config.mlp_width, parts.down());
  }

  // Shift, scale and gate of the attention, then of the feed-forward part: each [batch, width].
  std::vector<at::Tensor> modulation(const DitContext& context) const {
    return modulation_.forward(context.condition).chunk(6, -1);
  }
  at::Tensor normed(const at::Tensor& x, const std::vector<at::Tensor>& m) const {
    return nn::modulated_norm(x, m[0], m[1], kNormEps);
  }
  Heads heads(const at::Tensor& x, const std::vector<at::Tensor>& m) const {
    return heads_.forward(normed(x, m));
  }
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended, const std::vector<at::Tensor>& m) const {
    at::Tensor y = nn::gated_sum(x, m[2], flux_rows(out_, attended));
    at::Tensor inner = flux_mlp(mlp_, flux_rows(up_, nn::modulated_norm(y, m[3], m[4], kNormEps)));
    return nn::gated_sum(y, m[5], flux_rows(down_, inner));
  }
  void list(std::vector<NamedLinear>& out, int first_group) {
    out.push_back(
        {.name = names_.norm, .linear = &modulation_, .fusion_group = first_group, .modulation = true});
    heads_.list(out, first_group + 1);
    out.push_back({names_.out, &out_, first_group + 2});
    out.push_back({cat(names_.mlp, ".0.proj"), &up_, first_group + 3});
    out.push_back({cat(names_.mlp, ".2"), &down_, first_group + 4});
  }
  void prepare() const {
    heads_.prepare();
    for (const nn::Linear* layer : {&modulation_, &out_, &up_, &down_}) layer->prepare();
  }

 private:
  StreamNames names_;
  FluxMlp mlp_;
  FluxHeads heads_;
  nn::Linear modulation_, out_, up_, down_;
};

class FluxDoubleBlock : public DitBlock {
 public:
  FluxDoubleBlock(const FluxBlockConfig& config, const std::string& prefix, nn::WeightSource& source)
      : image_(config, prefix, kImageNames, source), text_(config, prefix, kTextNames, source) {}

  DitState forward(const DitState& state, const DitContext& context) const override {
    const std::vector<at::Tensor> image_mod = image_.modulation(context),
                                  text_mod = text_.modulation(context);
    const Heads image = image_.heads(state.image, image_mod), text = text_.heads(state.text, text_mod);
    const at::Tensor attended = attend({text, image}, context);
    const int64_t text_tokens = state.text.size(1), image_tokens = state.image.size(1);
    return {
        image_.finish(state.image, attended.narrow(1, text_tokens, image_tokens), image_mod),
        within_half(text_.finish(state.text, attended.narrow(1, 0, text_tokens), text_mod)),
    };
  }

  at::Tensor modulated_input(const DitState& state, const DitContext& context) const override {
    return image_.normed(state.image, image_.modulation(context));
  }

  std::vector<NamedLinear> linears() override {
    std::vector<NamedLinear> out;
    image_.list(out, 0);
    text_.list(out, 5);
    return out;
  }
  void prepare() const override { image_.prepare(), text_.prepare(); }

 private:
  FluxStream image_, text_;
};

// Both streams as one. What a single block gave lies so already.
at::Tensor joined(const DitState& state) {  // -> [batch, tokens, width]
  const at::Tensor &text = state.text, &image = state.image;
  const int64_t tokens = text.size(1) + image.size(1);
  const bool neighbours = text.is_alias_of(image) && text.strides() == image.strides() &&
                          text.stride(2) == 1 && text.stride(1) == text.size(2) &&
                          text.stride(0) == tokens * text.size(2) &&
                          image.storage_offset() == text.storage_offset() + text.size(1) * text.size(2);
  const bool follows_gradients = text.requires_grad() || image.requires_grad();
  if (!neighbours || follows_gradients) return at::cat({text, image}, 1);
  return text.as_strided({text.size(0), tokens, text.size(2)}, text.strides());
}

class FluxSingleBlock : public DitBlock {
 public:
  FluxSingleBlock(const FluxBlockConfig& config, const std::string& prefix, nn::WeightSource& source)
      : mlp_(config.mlp), heads_(config, cat(prefix, ".attn"), kImageNames.heads, source) {
    const FluxParts parts(config, source);
    auto layer = [&](const char* name, int64_t out, int64_t in, const nn::LinearShard& part) {
      return source.linear(cat(prefix, ".", name), out, in, nn::Bias::kOptional, part);
    };
    modulation_ = layer("norm.linear", 3 * config.width, config.width, parts.modulation(3));
    up_ = layer("proj_mlp", flux_up_width(config), config.width, parts.up());
    out_ = layer("proj_out", config.width, config.width + config.mlp_width, parts.out_and_down());
  }

  DitState forward(const DitState& state, const DitContext& context) const override {
    const at::Tensor x = joined(state);
    const std::vector<at::Tensor> m = modulation_.forward(context.condition).chunk(3, -1);
    const at::Tensor normed = nn::modulated_norm(x, m[0], m[1], kNormEps);
    const at::Tensor inner = flux_rows(up_, normed);
    const at::Tensor attended = attend({heads_.forward(normed)}, context);
    const at::Tensor both = mlp_ == FluxMlp::kGelu ? nn::gelu_beside(attended, inner)
                                                   : at::cat({attended, flux_mlp(mlp_, inner)}, -1);
    const at::Tensor y = within_half(nn::gated_sum(x, m[2], flux_rows(out_, both)));
    const int64_t text_tokens = state.text.size(1), image_tokens = state.image.size(1);
    return {y.narrow(1, text_tokens, image_tokens), y.narrow(1, 0, text_tokens)};
  }

  at::Tensor modulated_input(const DitState& state, const DitContext& context) const override {
    const std::vector<at::Tensor> m = modulation_.forward(context.condition).chunk(3, -1);
    return nn::modulated_norm(state.image, m[0], m[1], kNormEps);
  }

  std::vector<NamedLinear> linears() override {
    std::vector<NamedLinear> out = {
        {.name = "norm.linear", .linear = &modulation_, .fusion_group = 0, .modulation = true}};
    heads_.list(out, 1);
    out.push_back({"proj_mlp", &up_, 2});
    out.push_back({"proj_out", &out_, 3});
    return out;
  }
  void prepare() const override {
    heads_.prepare();
    for (const nn::Linear* layer : {&modulation_, &up_, &out_}) layer->prepare();
  }

 private:
  FluxMlp mlp_;
  FluxHeads heads_;
  nn::Linear modulation_, up_, out_;
};

}  // namespace

int64_t flux_values_per_token(const FluxBlockConfig& config) {
  return 7 * config.width + 2 * flux_up_width(config);
}

std::unique_ptr<DitBlock> make_flux_double_block(const FluxBlockConfig& config, const std::string& prefix,
                                                 nn::WeightSource& source) {
  return std::make_unique<FluxDoubleBlock>(config, prefix, source);
}

std::unique_ptr<DitBlock> make_flux_single_block(const FluxBlockConfig& config, const std::string& prefix,
                                                 nn::WeightSource& source) {
  return std::make_unique<FluxSingleBlock>(config, prefix, source);
}

}  // namespace quaver::models
