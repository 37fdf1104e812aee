// CLIP's text model (Radford et al., arXiv 2103.00020): a causal transformer whose pooled row is that of the
// end token.
#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>

#include <cmath>
#include <optional>
#include <utility>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"
#include "models/text_encoder/families.h"
#include "nn/attention_context.h"
#include "nn/embedding.h"
#include "nn/layer_norm.h"
#include "nn/ungated_activation.h"

namespace quaver::models {

namespace {

struct ClipConfig {
  TextEncoderInfo info;
  int64_t heads = 0, inner = 0;
  double eps = 1e-5;
  int64_t end_token = 0;  // kHighestId: the highest id of a prompt
  nn::UngatedActivation activation = nn::UngatedActivation::kQuickGelu;
  std::string prefix;  // of all names but the projection's, with its dot
};

// The first configs named a wrong end token, this one; it stands for the highest id, as the vocabulary has
// it.
constexpr int64_t kHighestId = 2;
constexpr int64_t kDefaultEnd = 49407;

nn::UngatedActivation read_clip_activation(const ConfigReader& config) {
  const std::string name = config.text("hidden_act", "quick_gelu");
  if (name == "quick_gelu") return nn::UngatedActivation::kQuickGelu;
  if (name == "gelu") return nn::UngatedActivation::kGelu;
  config.unsupported("hidden_act", "is '", name, "'; known are quick_gelu and gelu");
}

ClipConfig read_clip(const ConfigReader& config, const nn::WeightSource& source) {
  ClipConfig clip;
  clip.info = {.family = "clip",
               .width = config.count("hidden_size"),
               .vocab_size = config.count("vocab_size"),
               .num_blocks = config.count("num_hidden_layers"),
               .max_tokens = config.count("max_position_embeddings")};
  clip.info.pooled_width = clip.info.width;
  clip.heads = config.count("num_attention_heads");
  if (clip.info.width % clip.heads != 0)
    config.bad("hidden_size", "is ", clip.info.width, ", which num_attention_heads ", clip.heads,
               " does not divide");
  clip.inner = config.count("intermediate_size");
  clip.eps = config.positive_or("layer_norm_eps", 1e-5);
  clip.end_token = config.whole_or("eos_token_id", kDefaultEnd);
  clip.activation = read_clip_activation(config);
  clip.prefix = source.has("embeddings.token_embedding.weight") ? "" : "text_model.";
  clip.info.blocks_prefix = cat(clip.prefix, "encoder.layers");
  return clip;
}

nn::LayerNorm load_layer_norm(const ClipConfig& config, const std::string& name, nn::WeightSource& source) {
  const int64_t width = config.info.width;
  return {source.tensor(cat(name, ".weight"), {width}), source.tensor(cat(name, ".bias"), {width}),
          config.eps};
}

class ClipBlock : public TextBlock {
 public:
  ClipBlock(const ClipConfig& config, const std::string& prefix, nn::WeightSource& source)
      : heads_(config.heads), activation_(config.activation) {
    const int64_t width = config.info.width, inner = config.inner;
    auto layer = [&](const char* name, int64_t out, int64_t in) {
      return source.linear(cat(prefix, ".", name), out, in, nn::Bias::kRequired);
    };
    before_attention_ = load_layer_norm(config, cat(prefix, ".layer_norm1"), source);
    before_mlp_ = load_layer_norm(config, cat(prefix, ".layer_norm2"), source);
    q_ = layer("self_attn.q_proj", width, width);
    k_ = layer("self_attn.k_proj", width, width);
    v_ = layer("self_attn.v_proj", width, width);
    out_ = layer("self_attn.out_proj", width, width);
    up_ = layer("mlp.fc1", inner, width);
    down_ = layer("mlp.fc2", width, inner);
    scale_ = static_cast<float>(1 / std::sqrt(static_cast<double>(width / heads_)));
  }
  ClipBlock(const ClipBlock&) = delete;  // the group points at the layers
  ClipBlock& operator=(const ClipBlock&) = delete;

  at::Tensor forward(const at::Tensor& hidden, const TextContext&) const override {
    const int64_t batch = hidden.size(0), tokens = hidden.size(1);
    at::Tensor rows = hidden.flatten(0, 1);
    rows = rows + attend(before_attention_.forward(rows), batch, tokens);
    rows = rows + down_.forward(nn::activated(activation_, up_.forward(before_mlp_.forward(rows))));
    return rows.unflatten(0, {batch, tokens});
  }

  std::vector<NamedLinear> linears() override {
    return {{"self_attn.q_proj", &q_, 0},     {"self_attn.k_proj", &k_, 0}, {"self_attn.v_proj", &v_, 0},
            {"self_attn.out_proj", &out_, 1}, {"mlp.fc1", &up_, 2},         {"mlp.fc2", &down_, 3}};
  }

  void prepare() const override {
    qkv_.prepare();
    for (const nn::Linear* layer : {&out_, &up_, &down_}) layer->prepare();
  }

 private:
  at::Tensor attend(const at::Tensor& x, int64_t batch, int64_t tokens) const {  // [batch * tokens, width]
    std::vector<at::Tensor> qkv = qkv_.forward(x);
    for (at::Tensor& part : qkv) part = part.unflatten(-1, {heads_, -1});
    nn::DenseAttention attention(std::vector<int64_t>(static_cast<size_t>(batch), tokens));
    return out_.forward(attention.attend(0, qkv[0], qkv[1], qkv[2], {.scale = scale_}).flatten(1));
  }

  int64_t heads_;
  float scale_ = 1;
  nn::UngatedActivation activation_;
  nn::LayerNorm before_attention_, before_mlp_;
  nn::Linear q_, k_, v_, out_, up_, down_;
  nn::LinearGroup qkv_{{&q_, &k_, &v_}};
};

class ClipText : public TextEncoder {
 public:
  ClipText(ClipConfig config, nn::WeightSource& source)
      : config_(std::move(config)), device_(source.options().device) {
    const TextEncoderInfo& info = config_.info;
    dtype_ = source.options().compute_dtype;
    const std::string embeddings = cat(config_.prefix, "embeddings.");
    words_ = source.matrix(cat(embeddings, "token_embedding.weight"), info.vocab_size, info.width);
    positions_ = source.tensor(cat(embeddings, "position_embedding.weight"), {info.max_tokens, info.width});
    norm_ = load_layer_norm(config_, cat(config_.prefix, "final_layer_norm"), source);
    // Numbers from 0 on that older writers saved.
    source.ignore_if([](std::string_view name) { return name.ends_with("embeddings.position_ids"); });
  }

  void add_projection(const ConfigReader& config, nn::WeightSource& source) {
    config_.info.pooled_width = config.count("projection_dim");
    projection_ = source.linear("text_projection", config_.info.pooled_width, config_.info.width);
  }

  const TextEncoderInfo& info() const override { return config_.info; }
  TextContext context(int64_t) const override { return {}; }

  at::Tensor embed(const at::Tensor& ids) const override {
    at::Tensor words = nn::embedding(words_, ids.flatten().to(words_.device()), dtype_).to(device_);
    return words.unflatten(0, ids.sizes()) + positions_.narrow(0, 0, ids.size(1));
  }

  TextRows output(const at::Tensor& hidden, const at::Tensor& ids) const override {
    at::Tensor rows = norm_.forward(hidden);
    at::Tensor ends = end_positions(ids).to(device_);
    at::Tensor index = ends.view({-1, 1, 1}).expand({-1, 1, rows.size(2)});
    at::Tensor row = rows.gather(1, index).squeeze(1);
    return {rows, projection_ ? projection_->forward(row) : row};
  }

  std::unique_ptr<TextBlock> make_block(int64_t index, nn::WeightSource& source) const override {
    return std::make_unique<ClipBlock>(config_, cat(config_.info.blocks_prefix, ".", index), source);
  }

 private:
  at::Tensor end_positions(const at::Tensor& ids) const {  // -> int64 [batch]
    if (config_.end_token == kHighestId) return ids.argmax(-1);
    at::Tensor is_end = ids.eq(config_.end_token);
    require(is_end.any(-1).all().item<bool>(), ErrorKind::kInvalidInput, "a prompt lacks the end token ",
            config_.end_token);
    return is_end.to(at::kInt).argmax(-1);
  }

  ClipConfig config_;
  at::Device device_;
  at::ScalarType dtype_ = at::kFloat;
  at::Tensor words_, positions_;  // [vocab, width], as stored; [max_tokens, width]
  nn::LayerNorm norm_;
  std::optional<nn::Linear> projection_;
};

std::unique_ptr<ClipText> make_clip(nn::WeightSource& source) {
  return std::make_unique<ClipText>(read_clip(config_of(source.checkpoint()), source), source);
}

}  // namespace

std::unique_ptr<TextEncoder> make_clip_text(nn::WeightSource& source) { return make_clip(source); }

std::unique_ptr<TextEncoder> make_clip_text_projected(nn::WeightSource& source) {
  std::unique_ptr<ClipText> encoder = make_clip(source);
  encoder->add_projection(config_of(source.checkpoint()), source);
  return encoder;
}

}  // namespace quaver::models
