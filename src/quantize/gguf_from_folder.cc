// A model of any loadable format, block by block, under the names and in the arrangement of GGUF.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/gguf_dequantize.h"
#include "models/gguf_names.h"
#include "models/gguf_rows.h"
#include "models/gguf_write_keys.h"
#include "models/gguf_write_tokenizer.h"
#include "models/llm/decoder.h"
#include "nn/tensor_bridge.h"
#include "nn/weight_source.h"
#include "quantize/gguf_model.h"
#include "quantize/recipe.h"

namespace quaver::quantize {
namespace {

// What becomes a stored tensor or, of a stack of experts, a slice of one.
struct GgufPiece {
  std::string name;    // in the checkpoint, "model.layers.0.self_attn.q_proj.weight"
  int64_t block = -1;  // of a linear layer in a block, which `linear` names; -1: read from the checkpoint
  std::string linear = {};
  models::GgufPlace place;
};

class GgufOfFolder : public GgufModel {
 public:
  explicit GgufOfFolder(GgufFolder folder)
      : folder_(std::move(folder)),
        source_(*folder_.checkpoint),
        load_{.compute_dtype = at::kFloat, .keep_quantized = true, .strict_activations = false},
        shell_source_(source_, load_),
        shell_(models::make_causal_lm_shell(shell_source_)),
        architecture_(models::gguf_architecture(source_.config(), folder_.path)) {
    const models::DecoderConfig* config = models::decoder_config_of(*shell_);
    require(config != nullptr, ErrorKind::kUnsupported, folder_.path,
            ": only decoders can be written as a GGUF");
    config_ = *config;
    models::add_gguf_config(architecture_, config_, folder_.path, metadata_);
    if (folder_.has_tokenizer)
      models::add_gguf_vocabulary(models::gguf_vocabulary_for(source_, folder_.path, config_.info.vocab_size),
                                  folder_.path, metadata_);
    collect();
  }

  models::GgufModelFacts facts() const override {
    const models::CausalLmInfo& info = config_.info;
    return {.layers = info.num_layers,
            .heads = info.num_heads,
            .kv_heads = info.num_kv_heads,
            .experts = architecture_.experts ? config_.moe.num_experts : 0,
            .has_output = !info.tied_embeddings};
  }

  const std::vector<GgufStoredTensor>& tensors() const override { return tensors_; }
  bool makes_vocabulary() const override { return true; }

  void add_metadata(GgufMetadata& metadata, bool) const override { metadata = metadata_; }

  DType kept_type(size_t tensor) override {
    if (!models::is_gguf_matrix(tensors_[tensor].name, tensors_[tensor].shape)) return DType::kF32;
    std::optional<DType> type;
    for (const GgufPiece& piece : pieces_[tensor]) {
      const DType own = kept_type_of(load(piece), piece.name);
      require(!type || *type == own, ErrorKind::kInvalidInput, folder_.path, ": '", piece.name,
              "' and the experts before it hold values of different types");
      type = own;
    }
    return type.value_or(DType::kF32);
  }

  GgufBlocks blocks(size_t tensor, DType type) override {
    if (tensors_[tensor].name == models::kGgufRopeFactors)
      return to_gguf_blocks(rope_factors_, type, models::kGgufRopeFactors);
    GgufBlocks all;
    std::vector<std::byte> bytes;
    for (const GgufPiece& piece : pieces_[tensor]) {
      const GgufBlocks part = blocks_of(load(piece), type, piece);
      all.fate = std::max(all.fate, part.fate);
      if (pieces_[tensor].size() == 1) return {arranged(part.bytes, piece), part.fate};
      bytes.insert(bytes.end(), part.bytes.bytes().begin(), part.bytes.bytes().end());
    }
    all.bytes = Buffer::copy_of(bytes);
    return all;
  }

 private:
  // A weight in one of its two forms.
  struct Loaded {
    std::shared_ptr<const QuantWeight> quant;
    TensorView plain;
  };

  // The name that tables know: without what stands before a text tower's own.
  std::string plain_name(const std::string& name) const {
    if (name == config_.info.head + ".weight") return "lm_head.weight";
    const std::string prefix = config_.prefix + ".";
    return name.starts_with(prefix) ? cat("model.", name.substr(prefix.size())) : name;
  }

  void collect() {
    const models::CausalLmInfo& info = config_.info;
    add({.name = config_.prefix + ".embed_tokens.weight"}, {info.vocab_size, info.hidden_size});
    add({.name = config_.prefix + ".norm.weight"}, {info.hidden_size});
    if (!info.tied_embeddings) add({.name = info.head + ".weight"}, {info.vocab_size, info.hidden_size});
    for (int64_t block = 0; block < info.num_layers; ++block) collect_block(block);
    shell_source_.finish("");
    rope_factors_ = models::gguf_rope_factors(config_);
    if (!rope_factors_.empty()) {
      tensors_.push_back(
          {std::string(models::kGgufRopeFactors), {static_cast<int64_t>(rope_factors_.size())}});
      pieces_.emplace_back();
    }
    for (size_t i = 0; i < pieces_.size(); ++i) settle_stack(i);
    if (const Format* format = shell_source_.format();
        format && format->kv_cache && format->kv_cache(source_))
      log_warning(folder_.path, ": the scales of the key and value cache are left out");
    if (quantizes_inputs_)
      log_warning(folder_.path, ": inputs of its layers are quantized, which a GGUF doesn't say");
  }

  void collect_block(int64_t index) {
    const std::string prefix = cat(config_.info.blocks_prefix, ".", index, ".");
    std::unique_ptr<models::DecoderBlock> block = shell_->make_block(index, shell_source_);
    std::set<std::string> covered =
        cache_tensors(source_, shell_source_.format(), prefix + config_.info.attention);
    for (const auto& linear : block->linears()) {
      const std::string layer = prefix + linear.name;
      covered.insert(layer + ".weight");
      if (const auto quant = linear.linear->quant_weight()) {
        covered.merge(tensors_of_layer(source_, *shell_source_.format(), layer));
        quantizes_inputs_ = quantizes_inputs_ || quant->activation.mode != ActivationQuant::Mode::kNone;
      }
      add({.name = layer + ".weight", .block = index, .linear = linear.name},
          {linear.linear->out_features(), linear.linear->in_features()});
    }
    for (const TensorInfo& info : source_.tensors()) {
      if (!info.name.starts_with(prefix) || info.name.ends_with(".rotary_emb.inv_freq")) continue;
      if (!covered.contains(info.name)) add({.name = info.name}, info.shape);
      source_.release(info.name);
    }
  }

  void add(GgufPiece piece, std::vector<int64_t> shape) {
    auto place = models::gguf_place(architecture_, plain_name(piece.name));
    require(place.has_value(), ErrorKind::kUnsupported, folder_.path, ": tensor '", piece.name,
            "' has no place in a GGUF of architecture '", architecture_.name, "'");
    piece.place = *std::move(place);
    const auto [known, is_new] = index_.emplace(piece.place.stored_name, tensors_.size());
    if (is_new) {
      tensors_.push_back({piece.place.stored_name, std::move(shape)});
      pieces_.emplace_back();
    } else {
      require(piece.place.expert >= 0, ErrorKind::kBadFile, folder_.path, ": tensor '", piece.name,
              "' stands twice in a GGUF");
    }
    pieces_[known->second].push_back(std::move(piece));
  }

  // Experts in order, all of them.
  void settle_stack(size_t tensor) {
    std::vector<GgufPiece>& pieces = pieces_[tensor];
    if (pieces.empty() || pieces.front().place.expert < 0) return;
    std::ranges::sort(pieces, {}, [](const GgufPiece& piece) { return piece.place.expert; });
    for (size_t e = 0; e < pieces.size(); ++e)
      require(pieces[e].place.expert == static_cast<int64_t>(e), ErrorKind::kBadFile, folder_.path,
              ": expert ", e, " of '", tensors_[tensor].name, "' is missing");
    tensors_[tensor].shape.insert(tensors_[tensor].shape.begin(), static_cast<int64_t>(pieces.size()));
  }

  void release_block(int64_t index) const {
    const std::string prefix = cat(config_.info.blocks_prefix, ".", index, ".");
    for (const TensorInfo& info : source_.tensors())
      if (info.name.starts_with(prefix)) source_.release(info.name);
  }

  Loaded load(const GgufPiece& piece) {
    if (piece.block >= 0) return load_linear(piece);
    const std::string layer = piece.name.substr(0, piece.name.rfind('.'));
    if (layer == config_.info.head && shell_source_.is_quantized(layer)) {
      nn::WeightSource source(source_, load_);
      nn::Linear head = source.linear(layer, config_.info.vocab_size, config_.info.hidden_size);
      return {.quant = head.quant_weight()};
    }
    return {.plain = source_.read(piece.name)};
  }

  Loaded load_linear(const GgufPiece& piece) {
    if (piece.block != loaded_block_) {
      block_ = nullptr;
      release_block(loaded_block_);
      nn::WeightSource source(source_, load_);
      block_ = shell_->make_block(piece.block, source);
      loaded_block_ = piece.block;
    }
    for (auto& linear : block_->linears()) {
      if (linear.name != piece.linear) continue;
      if (auto quant = linear.linear->quant_weight()) return {.quant = std::move(quant)};
      return {.plain = nn::view_of(linear.linear->dense_weight())};
    }
    fail(ErrorKind::kInternal, "block ", piece.block, " has no layer ", piece.linear);
  }

  std::vector<float> values_of(const TensorView& view, const GgufPiece& piece) const {
    require(can_dequantize_gguf(view.dtype), ErrorKind::kUnsupported, folder_.path, ": tensor '", piece.name,
            "' of type ", dtype_info(view.dtype).name, " can't be written to a GGUF");
    std::vector<float> values = gguf_dequantize(view);
    if (piece.place.plus_one)
      for (float& value : values) value += 1.0f;
    return values;
  }

  GgufBlocks blocks_of(const Loaded& loaded, DType type, const GgufPiece& piece) const {
    const std::string what = cat(folder_.path, ": tensor '", piece.name, "'");
    return loaded.quant ? to_gguf_blocks(*loaded.quant, type, what)
                        : to_gguf_blocks(values_of(loaded.plain, piece), type, what);
  }

  Buffer arranged(const Buffer& bytes, const GgufPiece& piece) const {
    if (!piece.place.interleaved) return bytes;
    const int64_t heads = piece.place.is_key ? config_.info.num_kv_heads : config_.info.num_heads;
    return models::interleaved_rows(bytes, heads, tensors_[index_.at(piece.place.stored_name)].shape.at(0));
  }

  DType kept_type_of(const Loaded& loaded, const std::string& name) const {
    if (!loaded.quant) return loaded.plain.dtype;
    for (DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0})
      if (loaded.quant->shape.cols % dtype_info(type).block_elements == 0 &&
          to_gguf_blocks(*loaded.quant, type, name).fate == ValueFate::kSame)
        return type;
    fail(ErrorKind::kInvalidInput, folder_.path, ": no type of GGUF holds the values of '", name,
         "' as they are; --to gguf:q4_0 and others round anew");
  }

  GgufFolder folder_;
  const Checkpoint& source_;
  nn::LoadOptions load_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::CausalLm> shell_;
  const models::GgufArchitecture& architecture_;
  models::DecoderConfig config_;
  GgufMetadata metadata_;
  std::vector<float> rope_factors_;
  bool quantizes_inputs_ = false;
  std::vector<GgufStoredTensor> tensors_;
  std::vector<std::vector<GgufPiece>> pieces_;  // of each tensor
  std::map<std::string, size_t, std::less<>> index_;
  int64_t loaded_block_ = -1;
  std::unique_ptr<models::DecoderBlock> block_;
};

}  // namespace

std::unique_ptr<GgufModel> gguf_model_of_folder(GgufFolder folder) {
  return std::make_unique<GgufOfFolder>(std::move(folder));
}

}  // namespace quaver::quantize
