// The encoder of T5 (Raffel et al., arXiv 1910.10683; the gated form of Shazeer, arXiv 2002.05202), and of
// UMT5 (Chung et al., arXiv 2304.09151), whose blocks have a table of distances each.
//
// In float16 the residual stream and the last product of each block are kept in float32: trained models go
// beyond 65504 there.
#include <ATen/TensorOperators.h>

#include <optional>
#include <utility>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"
#include "models/same_tensor.h"
#include "models/text_encoder/families.h"
#include "nn/activation.h"
#include "nn/embedding.h"
#include "nn/norm.h"
#include "nn/relative_bias.h"
#include "nn/ungated_activation.h"

namespace quaver::models {

namespace {

struct T5Config {
  TextEncoderInfo info;
  int64_t heads = 0, head_dim = 0, inner = 0;
  int64_t buckets = 0, max_distance = 0;
  double eps = 1e-6;
  bool gated = false;
  bool bias_per_block = false;
  at::ScalarType dtype = at::kFloat;
};

constexpr const char* kT5Attention = "layer.0.SelfAttention";
constexpr const char* kT5FeedForward = "layer.1.DenseReluDense";

T5Config read_t5(const ConfigReader& config, const nn::WeightSource& source) {
  T5Config t5;
  t5.info = {.family = "t5",
             .width = config.count("d_model"),
             .vocab_size = config.count("vocab_size"),
             .num_blocks = config.count("num_layers"),
             .blocks_prefix = "encoder.block"};
  t5.heads = config.count("num_heads");
  t5.head_dim = config.count("d_kv");
  t5.inner = config.count("d_ff");
  t5.buckets = config.count_or("relative_attention_num_buckets", 32, 1 << 20);
  t5.max_distance = config.count_or("relative_attention_max_distance", 128);
  if (t5.buckets % 4 != 0)
    config.bad("relative_attention_num_buckets", "is ", t5.buckets, ", expected a multiple of 4");
  if (t5.max_distance <= t5.buckets / 4)
    config.bad("relative_attention_max_distance", "is ", t5.max_distance, ", expected more than ",
               t5.buckets / 4, ", a quarter of relative_attention_num_buckets");
  t5.eps = config.positive_or("layer_norm_epsilon", 1e-6);
  const std::string form = config.text("feed_forward_proj", "relu");
  if (form != "relu" && form != "gated-gelu")
    config.unsupported("feed_forward_proj", "is '", form, "'; known are relu and gated-gelu");
  t5.gated = form == "gated-gelu";
  t5.dtype = source.options().compute_dtype;
  return t5;
}

at::ScalarType t5_wide(at::ScalarType dtype) { return dtype == at::kHalf ? at::kFloat : dtype; }

nn::RmsNorm load_t5_norm(const T5Config& config, const std::string& prefix, nn::WeightSource& source) {
  return {source.tensor(cat(prefix, ".weight"), {config.info.width}), config.eps,
          nn::NormFlavour::kCastThenScale};
}

nn::RelativeBias load_t5_bias(const T5Config& config, const std::string& block, nn::WeightSource& source) {
  return {source.tensor(cat(block, ".", kT5Attention, ".relative_attention_bias.weight"),
                        {config.buckets, config.heads}),
          config.max_distance};
}

class T5FeedForward {
 public:
  T5FeedForward(const T5Config& config, const std::string& prefix, nn::WeightSource& source)
      : gated_(config.gated) {
    auto load = [&](const char* name) {
      names_.push_back(name);
      return source.linear(cat(prefix, ".", name), config.inner, config.info.width);
    };
    if (gated_) {
      in_.push_back(load("wi_0"));
      in_.push_back(load("wi_1"));
    } else {
      in_.push_back(load("wi"));
    }
    out_ = source.linear(cat(prefix, ".wo"), config.info.width, config.inner);
    std::vector<const nn::Linear*> layers;
    for (const nn::Linear& layer : in_) layers.push_back(&layer);
    group_.emplace(std::move(layers));
  }

  at::Tensor forward(const at::Tensor& x) const {
    std::vector<at::Tensor> inner = group_->forward(x);
    for (at::Tensor& part : inner) part = part.to(t5_wide(x.scalar_type()));
    return out_.forward(gated_ ? nn::gated(nn::Activation::kGeluTanh, inner[0], inner[1])
                               : nn::activated(nn::UngatedActivation::kRelu, inner[0]));
  }

  void add_linears(std::vector<NamedLinear>& out, int group) {
    for (size_t i = 0; i < in_.size(); ++i)
      out.push_back({cat(kT5FeedForward, ".", names_[i]), &in_[i], group});
    out.push_back({cat(kT5FeedForward, ".wo"), &out_, group + 1});
  }
  void prepare() const { group_->prepare(), out_.prepare(); }

 private:
  bool gated_;
  std::vector<const char*> names_;
  std::vector<nn::Linear> in_;
  std::optional<nn::LinearGroup> group_;
  nn::Linear out_;
};

class T5Block : public TextBlock {
 public:
  T5Block(const T5Config& config, const std::string& prefix, nn::WeightSource& source)
      : config_(config),
        before_attention_(load_t5_norm(config, cat(prefix, ".layer.0.layer_norm"), source)),
        before_feed_forward_(load_t5_norm(config, cat(prefix, ".layer.1.layer_norm"), source)),
        feed_forward_(config, cat(prefix, ".", kT5FeedForward), source) {
    const int64_t width = config.info.width, all = config.heads * config.head_dim;
    auto layer = [&](const char* name, int64_t out, int64_t in) {
      return source.linear(cat(prefix, ".", kT5Attention, ".", name), out, in);
    };
    q_ = layer("q", all, width);
    k_ = layer("k", all, width);
    v_ = layer("v", all, width);
    o_ = layer("o", width, all);
    if (config.bias_per_block) own_bias_ = load_t5_bias(config, prefix, source);
  }
  T5Block(const T5Block&) = delete;  // the group points at the layers
  T5Block& operator=(const T5Block&) = delete;

  at::Tensor forward(const at::Tensor& hidden, const TextContext& context) const override {
    const int64_t batch = hidden.size(0), tokens = hidden.size(1);
    at::Tensor rows = hidden.flatten(0, 1);
    const at::Tensor bias = own_bias_ ? own_bias_->forward(tokens) : context.bias;
    rows = rows + attend(before_attention_.forward(rows).to(config_.dtype), batch, bias);
    rows = rows + feed_forward_.forward(before_feed_forward_.forward(rows).to(config_.dtype));
    return rows.unflatten(0, {batch, tokens});
  }

  std::vector<NamedLinear> linears() override {
    std::vector<NamedLinear> out;
    out.push_back({cat(kT5Attention, ".q"), &q_, 0});
    out.push_back({cat(kT5Attention, ".k"), &k_, 0});
    out.push_back({cat(kT5Attention, ".v"), &v_, 0});
    out.push_back({cat(kT5Attention, ".o"), &o_, 1});
    feed_forward_.add_linears(out, 2);
    return out;
  }

  void prepare() const override { qkv_.prepare(), o_.prepare(), feed_forward_.prepare(); }

 private:
  at::Tensor attend(const at::Tensor& x, int64_t batch, const at::Tensor& bias) const {
    std::vector<at::Tensor> qkv = qkv_.forward(x);
    for (at::Tensor& part : qkv)
      part = part.unflatten(0, {batch, -1}).unflatten(-1, {config_.heads, config_.head_dim});
    return o_.forward(nn::biased_attention(qkv[0], qkv[1], qkv[2], bias).flatten(2).flatten(0, 1));
  }

  T5Config config_;
  nn::RmsNorm before_attention_, before_feed_forward_;
  nn::Linear q_, k_, v_, o_;
  nn::LinearGroup qkv_{{&q_, &k_, &v_}};
  T5FeedForward feed_forward_;
  std::optional<nn::RelativeBias> own_bias_;
};

// The table has two names, and files hold it under either or both.
at::Tensor load_t5_words(const T5Config& config, nn::WeightSource& source) {
  const char *shared = "shared.weight", *own = "encoder.embed_tokens.weight";
  if (source.has(shared) && source.has(own)) {
    require(same_tensor(source.checkpoint(), shared, own), ErrorKind::kBadFile,
            source.checkpoint().path().string(), ": tensors '", shared, "' and '", own,
            "' differ, expected one embedding under two names");
    source.ignore(own);
  }
  return source.matrix(source.has(own) && !source.has(shared) ? own : shared, config.info.vocab_size,
                       config.info.width);
}

class T5Encoder : public TextEncoder {
 public:
  T5Encoder(T5Config config, nn::WeightSource& source)
      : config_(std::move(config)),
        device_(source.options().device),
        words_(load_t5_words(config_, source)),
        norm_(load_t5_norm(config_, "encoder.final_layer_norm", source)) {
    if (!config_.bias_per_block) bias_ = load_t5_bias(config_, cat(config_.info.blocks_prefix, ".0"), source);
  }

  const TextEncoderInfo& info() const override { return config_.info; }

  TextContext context(int64_t tokens) const override {
    return bias_ ? TextContext{bias_->forward(tokens)} : TextContext{};
  }

  at::Tensor embed(const at::Tensor& ids) const override {
    at::Tensor words = nn::embedding(words_, ids.flatten().to(words_.device()), t5_wide(config_.dtype));
    return words.to(device_).unflatten(0, ids.sizes());
  }

  TextRows output(const at::Tensor& hidden, const at::Tensor&) const override {
    return {norm_.forward(hidden).to(config_.dtype), {}};
  }

  std::unique_ptr<TextBlock> make_block(int64_t index, nn::WeightSource& source) const override {
    return std::make_unique<T5Block>(config_, cat(config_.info.blocks_prefix, ".", index), source);
  }

 private:
  T5Config config_;
  at::Device device_;
  at::Tensor words_;  // [vocab, width], as stored
  nn::RmsNorm norm_;
  std::optional<nn::RelativeBias> bias_;  // of all blocks
};

}  // namespace

std::unique_ptr<TextEncoder> make_t5_encoder(nn::WeightSource& source) {
  return std::make_unique<T5Encoder>(read_t5(config_of(source.checkpoint()), source), source);
}

std::unique_ptr<TextEncoder> make_umt5_encoder(nn::WeightSource& source) {
  T5Config config = read_t5(config_of(source.checkpoint()), source);
  config.info.family = "umt5";
  config.bias_per_block = true;
  return std::make_unique<T5Encoder>(std::move(config), source);
}

}  // namespace quaver::models
