#include "quantize/repack.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/staged_tensors.h"
#include "models/llm/causal_lm.h"
#include "models/tokenizer_files.h"
#include "quantize/export.h"
#include "quantize/output_folder.h"
#include "quantize/recipe.h"

namespace quaver::quantize {
namespace {

constexpr const char* kAdvice = "; --scheme NAME rounds the weights anew";

// What the target can't hold, with what to do about it.
template <class Work>
auto advised(const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kInvalidInput) throw;
    throw Error(e.kind(), cat(e.what(), kAdvice), e.field());
  }
}

// Equal, or apart by the order in which two levels of scales are multiplied: a unit of float32.
bool same_values(const QuantWeight& a, const QuantWeight& b) {
  const std::vector<float> left = dequantize(a), right = dequantize(b);
  const float tolerance = a.scale.super || b.scale.super ? 0x1p-22f : 0.0f;
  return std::ranges::equal(
      left, right, [&](float x, float y) { return x == y || std::abs(x - y) <= tolerance * std::abs(x); });
}

// Float32 holds every product of a code and its scales.
NamedTensor plain_weight(const std::string& layer, const QuantWeight& weight) {
  const auto values = std::make_shared<std::vector<float>>(dequantize(weight));
  return {layer + ".weight",
          {DType::kF32,
           {weight.shape.rows, weight.shape.cols},
           Buffer(std::as_bytes(std::span(*values)), values)}};
}

class Repacker {
 public:
  Repacker(const RepackOptions& options, const Format& target, ProgressSink& progress)
      : options_(options),
        target_(target),
        progress_(progress),
        source_(models::open_model(options.model)),
        format_(detect_format(*source_)) {
    require(format_ != nullptr, ErrorKind::kInvalidInput, options.model,
            " holds no quantized layers that could move as they are", kAdvice);
    layers_ = quantized_layers(*source_, *format_);
    nn::WeightSource shell_source(*source_, {.keep_quantized = true});
    info_ = models::make_causal_lm_shell(shell_source)->info();
    if (format_->kv_cache && format_->kv_cache(*source_))
      log_warning(options.model, ": the scales of the key and value cache are left out");
  }

  int64_t run() {
    require_free_output(options_.output_dir, /*resume=*/false, options_.overwrite);
    json settings = advised([&] { return plan(); });
    OutputFolder folder(options_.output_dir, options_.overwrite);
    StagedTensors staged(folder.staging());
    if (plain_head_) staged.write("head", {plain_weight(info_.head, unpack(info_.head))});
    for (size_t i = 0; i < layers_.size(); ++i) {
      staged.write(cat("layer-", i),
                   advised([&] { return target_.pack(unpack(layers_[i]), layers_[i], recipe_); }));
      progress_.update(static_cast<int64_t>(i) + 1, static_cast<int64_t>(layers_.size()), layers_[i]);
    }
    ExportedModel result{.source = *source_,
                         .source_path = options_.model,
                         .staged = staged,
                         .is_replaced = [this](const std::string& name) { return replaced_.contains(name); },
                         .config = source_->config(),
                         .format = &target_,
                         .max_shard_bytes = options_.max_shard_bytes};
    result.config.erase("compression_config");
    result.config["quantization_config"] = std::move(settings);
    std::filesystem::create_directories(folder.result());
    int64_t bytes = export_model(result, folder.result());
    compare(folder.result());
    folder.publish();
    return bytes;
  }

 private:
  const char* target_name() const { return target_.tool_name ? target_.tool_name : target_.name; }

  QuantWeight unpack(const std::string& layer) const {
    LayerPlan plan = format_->plan(*source_, layer);
    return format_->unpack(plan, *source_);
  }

  void release(const std::string& layer) const {
    for (const std::string& tensor : format_->plan(*source_, layer).tensors) source_->release(tensor);
  }

  // The settings of the result. A head that has no place beside the other layers stands in it as plain
  // values.
  json plan() {
    RecipeOfLayers forms;
    std::optional<QuantWeight> head;
    for (const std::string& layer : layers_) {
      QuantWeight weight = unpack(layer);
      replaced_.merge(tensors_of_layer(*source_, *format_, layer));
      release(layer);
      if (layer == info_.head && layers_.size() > 1) {
        head = std::move(weight);
        continue;
      }
      require(form_says_all(weight), ErrorKind::kInvalidInput, "layer '", layer, "' is ",
              describe(form_of(weight)), " with ",
              std::holds_alternative<RealMins>(weight.offset) ? "real minima" : "two levels of scales",
              ", for which ", target_name(), " has no words");
      forms.add(layer, weight);
    }
    drop_cache_scales();
    if (head && form_says_all(*head)) {
      RecipeOfLayers all = forms;
      all.add(info_.head, *head);
      if (std::optional<json> settings = settings_of(all)) return *std::move(settings);
    }
    if (head) leave_head_plain(*head);
    recipe_ = complete(forms.recipe());
    return target_.config_json(recipe_);
  }

  std::optional<json> settings_of(const RecipeOfLayers& forms) {
    try {
      recipe_ = complete(forms.recipe());
      return target_.config_json(recipe_);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kInvalidInput) throw;
      return std::nullopt;
    }
  }

  void leave_head_plain(const QuantWeight& head) {
    log_warning(options_.model, ": layer '", info_.head, "', ", describe(form_of(head)), ", has no place in ",
                target_name(), " beside the other layers; it becomes plain float32 of the same values");
    std::erase(layers_, info_.head);
    plain_head_ = true;
  }

  Recipe complete(Recipe recipe) const {
    recipe.block_names = {info_.blocks_prefix};
    recipe.plain_modules = plain_modules(*source_, recipe.layers, info_.head);
    return recipe;
  }

  void drop_cache_scales() {
    for (int64_t block = 0; block < info_.num_layers; ++block)
      replaced_.merge(
          cache_tensors(*source_, format_, cat(info_.blocks_prefix, ".", block, ".", info_.attention)));
  }

  void compare(const std::filesystem::path& folder) const {
    std::unique_ptr<Checkpoint> written = open_hugging_face_folder(folder);
    for (const std::string& layer : layers_) {
      LayerPlan plan = target_.plan(*written, layer);
      require(!plan.tensors.empty(), ErrorKind::kInternal, "layer '", layer, "' was not written");
      require(same_values(unpack(layer), target_.unpack(plan, *written)), ErrorKind::kInvalidInput, "layer '",
              layer, "': ", target_name(), " can't hold its values as they are", kAdvice);
      for (const std::string& tensor : plan.tensors) written->release(tensor);
      release(layer);
    }
    if (plain_head_) compare_head(*written);
  }

  void compare_head(const Checkpoint& written) const {
    const TensorView plain = written.read(info_.head + ".weight");
    require(plain.dtype == DType::kF32 &&
                std::ranges::equal(plain.data.as<float>(), dequantize(unpack(info_.head))),
            ErrorKind::kInternal, "layer '", info_.head, "' reads otherwise than it was written");
  }

  const RepackOptions& options_;
  const Format& target_;
  ProgressSink& progress_;
  std::unique_ptr<Checkpoint> source_;
  const Format* format_;
  models::CausalLmInfo info_;
  std::vector<std::string> layers_;  // that move as they are
  bool plain_head_ = false;
  std::set<std::string> replaced_;  // tensors of quantized layers
  Recipe recipe_;
};

}  // namespace

int64_t repack(const RepackOptions& options, const Format& target, ProgressSink& progress) {
  return Repacker(options, target, progress).run();
}

}  // namespace quaver::quantize
