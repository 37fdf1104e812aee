#include "quantize/convert.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/staged_tensors.h"
#include "models/llm/causal_lm.h"
#include "nn/tensor_bridge.h"
#include "nn/weight_source.h"
#include "quantize/export.h"
#include "quantize/output_folder.h"
#include "quantize/recipe.h"

namespace quaver::quantize {
namespace {

struct Target {
  at::ScalarType type;
  const char* config_name;  // of config.json's "dtype"
};

Target target_of(const std::string& name) {
  static const std::map<std::string, Target> kTargets = {{"bf16", {at::kBFloat16, "bfloat16"}},
                                                         {"fp32", {at::kFloat, "float32"}}};
  auto found = kTargets.find(name);
  require(found != kTargets.end(), ErrorKind::kInvalidInput, "--to must be bf16 or fp32, got '", name, "'");
  return found->second;
}

class Converter {
 public:
  Converter(const ConvertOptions& options, ProgressSink& progress)
      : options_(options),
        progress_(progress),
        target_(target_of(options.to)),
        source_(models::open_model(options.model)),
        load_{.compute_dtype = at::kFloat,
              .device = at::kCPU,
              .keep_quantized = true,
              .strict_activations = false},  // weights come with their input's multiplier
        shell_source_(*source_, load_),
        shell_(models::make_causal_lm_shell(shell_source_)),
        folder_(options.output_dir, options.overwrite),
        staged_(folder_.staging()) {}

  int64_t run() {
    int64_t blocks = shell_->info().num_layers;
    for (int64_t block = 0; block < blocks; ++block) {
      stage_block(block);
      progress_.update(block + 1, blocks, "");
    }
    stage_rest();
    ExportedModel result{.source = *source_,
                         .source_path = options_.model,
                         .staged = staged_,
                         .is_replaced = [](const std::string&) { return true; },
                         .config = plain_config(),
                         .max_shard_bytes = options_.max_shard_bytes};
    std::filesystem::create_directories(folder_.result());
    int64_t bytes = export_model(result, folder_.result());
    folder_.publish();
    return bytes;
  }

 private:
  // Tensors that decide are no more narrow than they were.
  TensorView cast(const TensorView& view, bool is_wide = false) const {
    if (!nn::is_floating(view.dtype) || (is_wide && target_.type != at::kFloat)) return view;
    return nn::view_of(nn::tensor_over(view, options_.model).to(target_.type));
  }

  void stage_block(int64_t index) {
    std::string prefix = cat(shell_->info().blocks_prefix, ".", index, ".");
    nn::WeightSource source(*source_, load_);
    std::unique_ptr<models::DecoderBlock> block = shell_->make_block(index, source);
    std::vector<NamedTensor> tensors;
    std::set<std::string> packed;  // what one plain weight stands for
    for (auto& linear : block->linears()) {
      if (linear.linear->quant_weight() == nullptr) continue;
      at::Tensor dense = linear.linear->dense_weight().to(target_.type).contiguous();
      tensors.push_back({prefix + linear.name + ".weight", nn::view_of(dense)});
      packed.merge(tensors_of_layer(*source_, *source.format(), prefix + linear.name));
    }
    packed.merge(cache_tensors(*source_, source.format(), prefix + shell_->info().attention));
    for (const TensorInfo& info : source_->tensors()) {
      if (!info.name.starts_with(prefix)) continue;
      if (!packed.contains(info.name))
        tensors.push_back({info.name, cast(source_->read(info.name), source.is_wide(info.name))});
      staged_blocks_.insert(info.name);
      source_->release(info.name);
    }
    staged_.write(cat("block-", index), tensors);
  }

  // The head is the one linear layer outside the blocks.
  NamedTensor dense_head(const std::string& layer) {
    const models::CausalLmInfo& info = shell_->info();
    nn::Linear head = shell_source_.linear(layer, info.vocab_size, info.hidden_size);
    return {layer + ".weight", nn::view_of(head.dense_weight().to(target_.type).contiguous())};
  }

  void stage_rest() {
    std::string blocks = shell_->info().blocks_prefix + ".";
    std::set<std::string> packed;
    int64_t drafts = 0;
    for (const TensorInfo& info : source_->tensors()) {
      if (models::is_second_copy_of_head(shell_->info(), info.name)) continue;
      if (info.name.starts_with(blocks)) {
        drafts += !staged_blocks_.contains(info.name);
        continue;
      }
      std::string layer = info.name.substr(0, info.name.rfind('.'));
      const bool is_packed = shell_source_.is_quantized(layer) && !info.name.ends_with(".bias");
      if (is_packed && !packed.insert(layer).second) continue;
      staged_.write(cat("rest-", num_rest_++),
                    {is_packed ? dense_head(layer) : NamedTensor{info.name, cast(source_->read(info.name))}});
      source_->release(info.name);
    }
    if (drafts > 0)
      log_warning(options_.model, ": ", drafts, " tensors of draft layers behind the last one are left out");
  }

  json plain_config() const {
    json config = source_->config();
    config.erase("quantization_config");
    config.erase("torch_dtype");
    config["dtype"] = target_.config_name;
    return config;
  }

  const ConvertOptions& options_;
  ProgressSink& progress_;
  Target target_;
  std::unique_ptr<Checkpoint> source_;
  nn::LoadOptions load_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::CausalLm> shell_;
  OutputFolder folder_;
  StagedTensors staged_;
  std::set<std::string> staged_blocks_;  // tensors of the blocks that run, whatever became of them
  int64_t num_rest_ = 0;
};

}  // namespace

int64_t convert_to_plain(const ConvertOptions& options, ProgressSink& progress) {
  at::NoGradGuard no_grad;
  return Converter(options, progress).run();
}

}  // namespace quaver::quantize
