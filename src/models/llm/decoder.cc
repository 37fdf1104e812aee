#include "models/llm/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tanh.h>

#include <charconv>
#include <utility>

#include "base/log.h"
#include "models/llm/decoder_block.h"
#include "models/same_tensor.h"
#include "models/token_ids.h"
#include "nn/embedding.h"

namespace quaver::models {

namespace {

nn::Linear tied_head(const DecoderConfig& config, nn::WeightSource& source, const at::Tensor& embedding) {
  const std::string table = cat(config.prefix, ".embed_tokens");
  if (source.options().device.is_cpu() && source.is_quantized(table))
    return source.linear(table, config.info.vocab_size, config.info.hidden_size);
  nn::Linear head = nn::Linear::plain(embedding, std::nullopt);
  source.settle(head, {cat(table, ".weight")});
  return head;
}

// The files decide where they hold a head; a second copy of the embedding is not kept.
nn::Linear load_head(DecoderConfig& config, nn::WeightSource& source, const at::Tensor& embedding) {
  std::string stored = cat(config.head, ".weight"), table = cat(config.prefix, ".embed_tokens.weight");
  const std::string file = source.checkpoint().path().string();
  bool tied = config.info.tied_embeddings || source.options().force_tied_head;
  if (tied && source.has(stored) && same_tensor(source.checkpoint(), stored, table)) {
    source.ignore(stored);
    return tied_head(config, source, embedding);
  }
  if (source.has(stored) || source.is_quantized(config.head)) {
    if (tied && !source.options().device.is_meta())
      log_warning(file, ": tie_word_embeddings is true, but ", config.head,
                  " differs from the embedding and is used");
    config.info.tied_embeddings = false;
    return source.linear(config.head, config.info.vocab_size, config.info.hidden_size);
  }
  require(tied, ErrorKind::kBadFile, file, ": tensor '", stored,
          "' is missing, and tie_word_embeddings is off, so that the embedding can't take its place");
  config.info.tied_embeddings = true;
  return tied_head(config, source, embedding);
}

// Buffers that older writers saved and that follow from the config.
bool is_derived(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// The number behind `prefix` in a tensor's name; -1 for another name.
int64_t block_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  int64_t index = -1;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), index);
  return index;
}

void skip_draft_layers(const DecoderConfig& config, nn::WeightSource& source) {
  const std::string prefix = cat(config.info.blocks_prefix, ".");
  const int64_t first = config.info.num_layers, end = first + config.draft_layers;
  int64_t skipped = 0;
  for (const TensorInfo& tensor : source.checkpoint().tensors())
    if (const int64_t block = block_of(tensor.name, prefix); block >= first && block < end)
      source.ignore(tensor.name), ++skipped;
  if (skipped > 0 && !source.options().device.is_meta())
    log_info(source.checkpoint().path().string(), ": ", skipped, " tensors from '", prefix, first,
             "' on belong to draft layers and are not used");
}

class HeadBlock : public DecoderBlock {
 public:
  HeadBlock(std::string name, nn::RmsNorm norm, nn::Linear head)
      : name_(std::move(name)), norm_(std::move(norm)), head_(std::move(head)) {}

  at::Tensor forward(const at::Tensor& hidden, const StepContext&) const override {
    return head_.forward(norm_.forward(hidden));
  }
  std::vector<NamedLinear> linears() override { return {{name_, &head_, 0}}; }
  void prepare() const override { head_.prepare(); }

 private:
  std::string name_;
  nn::RmsNorm norm_;
  nn::Linear head_;
};

class Decoder : public CausalLm {
 public:
  Decoder(DecoderConfig config, nn::WeightSource& source) : config_(std::move(config)) {
    CausalLmInfo& info = config_.info;
    info.blocks_prefix = cat(config_.prefix, ".layers");
    info.head = config_.head;
    info.attention = "self_attn";
    info.latent_attention = config_.latent.has_value();
    info.quantized_kv_cache = source.quantizes_kv_cache() && !config_.latent;
    if (source.quantizes_kv_cache() && config_.latent && !source.options().device.is_meta())
      log_warning(source.checkpoint().path().string(),
                  ": keys and values of latent attention are kept as they are computed");
    embedding_ =
        source.matrix(cat(config_.prefix, ".embed_tokens.weight"), info.vocab_size, info.hidden_size);
    norm_ = {source.tensor(cat(config_.prefix, ".norm.weight"), {info.hidden_size}), config_.norm_eps,
             config_.norm};
    head_ = load_head(config_, source, embedding_);
    source.ignore_if(is_derived);
    skip_draft_layers(config_, source);
    compute_dtype_ = source.options().compute_dtype;
    rope_.full = std::make_shared<nn::RopeTable>(config_.rope, source.options().device);
    rope_.window = std::make_shared<nn::RopeTable>(config_.window_rope, source.options().device);
    embedding_scale_ =
        at::scalar_tensor(config_.embedding_scale, at::kFloat).to(compute_dtype_).item<double>();
  }

  const CausalLmInfo& info() const override { return config_.info; }
  const DecoderConfig& config() const { return config_; }

  at::Tensor embed(const at::Tensor& token_ids) const override {
    check_token_ids(token_ids, config_.info.vocab_size);
    at::Tensor rows = nn::embedding(embedding_, token_ids, compute_dtype_);
    return embedding_scale_ == 1 ? rows : rows * embedding_scale_;
  }

  at::Tensor logits(const at::Tensor& hidden) const override {
    at::Tensor scores = head_.forward(norm_.forward(hidden));
    if (config_.final_softcap > 0) scores = at::tanh(scores / config_.final_softcap) * config_.final_softcap;
    return scores.to(at::kFloat);
  }

  nn::Linear* head() override { return config_.info.tied_embeddings ? nullptr : &head_; }
  void prepare_head() const override { head_.prepare(); }

  std::unique_ptr<DecoderBlock> make_block(int64_t index, nn::WeightSource& source) const override {
    require(index >= 0 && index < config_.info.num_layers, ErrorKind::kInternal, "no block ", index);
    return make_decoder_block(config_, rope_, index, source);
  }

  std::unique_ptr<DecoderBlock> make_head(nn::WeightSource& source) const override {
    const CausalLmInfo& info = config_.info;
    require(!info.tied_embeddings, ErrorKind::kInternal, "a tied head is no layer of its own");
    return std::make_unique<HeadBlock>(info.head, norm_,
                                       source.linear(info.head, info.vocab_size, info.hidden_size));
  }

 private:
  DecoderConfig config_;
  BlockRope rope_;
  at::ScalarType compute_dtype_ = at::kFloat;
  at::Tensor embedding_;        // [vocab, hidden], as stored
  double embedding_scale_ = 1;  // rounded to the compute dtype
  nn::RmsNorm norm_;
  nn::Linear head_;
};

}  // namespace

std::unique_ptr<CausalLm> make_decoder(DecoderConfig config, nn::WeightSource& source) {
  return std::make_unique<Decoder>(std::move(config), source);
}

const DecoderConfig* decoder_config_of(const CausalLm& model) {
  const auto* decoder = dynamic_cast<const Decoder*>(&model);
  return decoder ? &decoder->config() : nullptr;
}

}  // namespace quaver::models
