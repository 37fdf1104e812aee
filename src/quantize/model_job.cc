#include "quantize/model_job.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "checkpoint/staged_tensors.h"
#include "quantize/block_facts.h"
#include "quantize/export.h"
#include "quantize/head_rows.h"
#include "quantize/job_recipe.h"
#include "quantize/layer_rounding.h"
#include "quantize/staged_checkpoint.h"

namespace quaver::quantize {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string part_name(int64_t block) {
  std::string digits = std::to_string(block);
  return cat("block-", std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0'), digits);
}

class BlockByBlock : public ModelJob {
 public:
  BlockByBlock(const JobOptions& options, const JobListener& listener, const Format& format,
               std::unique_ptr<BlockModel> model, std::vector<LayerDecision> decided)
      : options_(options),
        listener_(listener),
        format_(format),
        load_(job_load_options(options)),
        model_(std::move(model)),
        source_(model_->source()),
        plan_(plan_job({.options = options_,
                        .format = format_,
                        .model = *model_,
                        .decided = std::move(decided),
                        .load_block = [this](int64_t block) { return source_block(block); }},
                       *listener_.progress)) {}

  const BlockModel& model() const override { return *model_; }
  const JobPlan& plan() const override { return plan_; }
  int64_t num_blocks() const override { return model_->num_blocks() + (quantizes_head() ? 1 : 0); }
  json fingerprint() const override { return job_fingerprint(options_, *model_, plan_); }

  void calibrate(RunReport& report) override {
    if (!plan_.calibrated || std::exchange(has_calibrated_, true)) return;
    const std::string what = model_->calibrate(*listener_.progress);
    report.calibration += cat(report.calibration.empty() ? "" : "; ", what);
    if (listener_.on_calibration) listener_.on_calibration(what);
  }

  void run(const std::filesystem::path& staging, const JobPlace& place, RunReport& report) override {
    place_ = place;
    staged_ = std::make_unique<StagedTensors>(staging);
    calibrate(report);
    if (plan_.calibrated) start_chains();
    for (int64_t block = 0; block < num_blocks(); ++block) process_block(block, report);
    exact_ = quantized_ = {};
  }

  void write(const std::filesystem::path& folder, RunReport& report) override {
    for (const TensorInfo& info : source_.tensors())
      report.source_bytes += static_cast<int64_t>(source_.stored_bytes(info));
    ExportedModel result{
        .source = source_,
        .source_path = model_->component().empty() ? options_.model : source_.path().string(),
        .staged = *staged_,
        .is_replaced = [this](const std::string& name) { return is_replaced(name); },
        .config = result_config(),
        .format = &format_,
        .max_shard_bytes = options_.max_shard_bytes};
    report.bytes += export_model(result, folder);
  }

 private:
  // Where it is quantized, the head is one more block behind the others, whose one layer has its full name.
  bool is_head(int64_t block) const { return block == model_->num_blocks(); }
  bool quantizes_head() const {
    return model_->language_model() != nullptr && plan_.quantizes(model_->language_model()->info().head);
  }
  int64_t vocab_size() const { return model_->language_model()->info().vocab_size; }

  std::string block_prefix(int64_t block) const { return is_head(block) ? "" : model_->block_prefix(block); }

  std::unique_ptr<models::DecoderBlock> source_block(int64_t block) const {
    nn::WeightSource source(source_, load_);
    return is_head(block) ? model_->language_model()->make_head(source) : model_->make_block(block, source);
  }

  // The source's tensors of a block; the head's are replaced or copied at the end.
  std::vector<std::string> tensors_of(int64_t block) const {
    std::vector<std::string> names;
    if (is_head(block)) return names;
    for (const TensorInfo& info : source_.tensors())
      if (info.name.starts_with(block_prefix(block))) names.push_back(info.name);
    return names;
  }

  void start_chains() {
    exact_ = model_->first_inputs();
    quantized_.rows = exact_.rows.clone();
  }

  void process_block(int64_t block, RunReport& run) {
    auto start = Clock::now();
    std::string part = part_name(block);
    if (is_head(block) && plan_.calibrated) draw_positions();
    if (!staged_->has(part)) {
      BlockReport made = quantize_block(block);
      made.seconds = seconds_since(start);
      stage(block, made);
      finish_block(std::move(made), run);
    } else {
      if (plan_.calibrated && !is_head(block)) advance_exact_chain(*source_block(block), block);
      finish_block(block_report_from_json(parse_json(staged_->metadata(part).at("report"), part), part), run);
    }
    layers_.clear();
    if (plan_.calibrated && !is_head(block)) advance_quantized_chain(block);
    for (const std::string& name : tensors_of(block)) source_.release(name);
  }

  void draw_positions() {
    const int64_t count = head_positions(vocab_size(), options_.tune.batch_size, exact_.seqlen());
    exact_ = drawn_positions(exact_, count, options_.tune.seed);
    quantized_ = drawn_positions(quantized_, count, options_.tune.seed);
  }

  void finish_block(BlockReport report, RunReport& run) {
    report.index += place_.first_block;
    for (LayerReport& layer : report.layers) layer.name = model_->scope() + layer.name;
    run.blocks.push_back(std::move(report));
    const BlockReport& last = run.blocks.back();
    note_ = loss_note(last);
    listener_.progress->update(last.index + 1, place_.all_blocks, note_);
    if (listener_.on_block) listener_.on_block(last);
  }

  static std::string loss_note(const BlockReport& block) {
    if (block.loss_before == 0) return "";
    char text[96];
    std::snprintf(text, sizeof text, "loss %.2e -> %.2e", block.loss_before, block.loss_after);
    return text;
  }

  BlockReport quantize_block(int64_t index) {
    BlockReport report{.index = index};
    std::unique_ptr<models::DecoderBlock> block = source_block(index);
    for (auto& linear : block->linears()) {
      const LayerDecision& decision = plan_.decisions.at(block_prefix(index) + linear.name);
      report.layers.push_back({.name = decision.name,
                               .scheme_name = to_string(decision.scheme),
                               .scheme = decision.scheme,
                               .remark = decision.reason});
      if (decision.scheme.bits != 16)
        layers_.push_back({.layer = linear,
                           .scheme = storable(decision.scheme),
                           .activation = form_of(decision.scheme, format_).activation,
                           .result = nullptr});
    }
    share_largest_weights();
    if (plan_.calibrated) observe(*block, index, report);
    if (options_.method == Method::kAutoRound)
      tune(*block, index, report);
    else
      round_layers(index);
    return report;
  }

  Scheme storable(Scheme scheme) const {
    scheme.zero_from_one = !scheme.sym && format_.smallest_zero_point > 0;
    return scheme;
  }

  // Tuning would only find out from its loss, which names no tensor.
  void require_finite_weights(int64_t block) const {
    for (const TunedLayer& layer : layers_)
      require(std::isfinite(layer.layer.linear->dense_weight().abs().max().item<double>()),
              ErrorKind::kBadFile, block_prefix(block), layer.layer.name,
              ".weight: holds a value that is not finite");
  }

  void tune(models::DecoderBlock& block, int64_t index, BlockReport& report) {
    require_finite_weights(index);
    if (layers_.empty()) return;
    auto on_step = [&](int64_t step, double) {
      listener_.progress->update((place_.first_block + index) * options_.tune.iters + step,
                                 place_.all_blocks * options_.tune.iters, note_);
    };
    std::unique_ptr<models::DecoderBlock> exact_head = is_head(index) ? source_block(index) : nullptr;
    const TuneTarget target = exact_head ? head_target(*exact_head, exact_, vocab_size()) : target_of(exact_);
    BlockLoss loss = tune_block(block, layers_, quantized_, target, options_.tune, index, on_step);
    report.loss_before = loss.before;
    report.loss_after = loss.after;
    report.best_step = loss.best_step;
  }

  // Layers that engines fuse have one scale over their groups' scales, so that of the largest weight.
  void share_largest_weights() {
    std::map<int, float> largest;
    for (const TunedLayer& layer : layers_) {
      float& value = largest[layer.layer.fusion_group];
      if (layer.scheme.data_type == DataType::kNvFp)
        value = std::max(value, layer.layer.linear->dense_weight().abs().max().item<float>());
    }
    for (TunedLayer& layer : layers_) layer.shared_amax = largest[layer.layer.fusion_group];
  }

  // Fills in what the calibration says of each layer's input, and advances the exact chain.
  void observe(models::DecoderBlock& block, int64_t index, BlockReport& report) {
    BlockFacts facts = advance_exact_chain(block, index);
    largest_kv_ = facts.largest_kv;
    for (TunedLayer& layer : layers_) {
      const InputFacts& seen = facts.inputs[layer.layer.name];
      layer.importance = seen.squares;
      set_input_scale(layer.activation, seen.largest);
      if (seen.chosen) continue;
      for (LayerReport& line : report.layers)
        if (line.name == block_prefix(index) + layer.layer.name)
          line.remark = "no calibration token chose this expert: rounded under those that suit it best";
    }
  }

  // Runs the original block over the calibration rows.
  BlockFacts advance_exact_chain(models::DecoderBlock& block, int64_t index) {
    return observe_facts(block, exact_, is_head(index) ? nullptr : &exact_, options_.tune.batch_size);
  }

  void round_layers(int64_t block) {
    for (TunedLayer& layer : layers_) {
      auto result = std::make_shared<QuantWeight>(
          round_layer(layer, rounding_method(options_.method), block_prefix(block) + layer.layer.name));
      result->activation = layer.activation;
      layer.result = std::move(result);
    }
  }

  void stage(int64_t block, BlockReport& report) {
    std::string prefix = block_prefix(block);
    std::vector<NamedTensor> tensors;
    for (const TunedLayer& layer : layers_) {
      validate(*layer.result, prefix + layer.layer.name);
      for (NamedTensor& tensor : format_.pack(*layer.result, prefix + layer.layer.name, plan_.recipe))
        tensors.push_back(std::move(tensor));
    }
    fill_sizes(report, tensors);
    if (options_.fp8_kv_cache && !is_head(block))
      for (NamedTensor& tensor :
           format_.pack_kv(prefix + model_->language_model()->info().attention, cache_scales(largest_kv_)))
        tensors.push_back(std::move(tensor));
    for (const std::string& name : tensors_of(block))
      if (!is_replaced(name)) tensors.push_back({name, source_.read(name)});
    staged_->write(part_name(block), tensors, {{"report", to_json(report).dump()}});
  }

  bool is_replaced(const std::string& name) const {
    constexpr std::string_view kSuffix = ".weight";
    if (!name.ends_with(kSuffix)) return false;
    const models::CausalLm* language = model_->language_model();
    if (language && models::is_second_copy_of_head(language->info(), name)) return true;
    return plan_.quantizes(name.substr(0, name.size() - kSuffix.size()));
  }

  void fill_sizes(BlockReport& report, const std::vector<NamedTensor>& packed) const {
    for (LayerReport& layer : report.layers) {
      layer.source_bytes = static_cast<int64_t>(source_.stored_bytes(*source_.find(layer.name + ".weight")));
      layer.bytes = layer.scheme.bits == 16 ? layer.source_bytes : 0;
      for (const NamedTensor& tensor : packed)
        if (tensor.name.starts_with(layer.name + "."))
          layer.bytes += static_cast<int64_t>(tensor.tensor.data.size_bytes());
    }
  }

  json result_config() const {
    json config = source_.config();
    config["quantization_config"] = format_.config_json(plan_.recipe);
    return config;
  }

  void advance_quantized_chain(int64_t block) {
    StagedCheckpoint staged(*staged_, result_config(), options_.output_dir);
    nn::WeightSource source(staged, load_);
    std::unique_ptr<models::DecoderBlock> rounded = model_->make_block(block, source);
    run_block(*rounded, quantized_, quantized_, options_.tune.batch_size);
  }

  const JobOptions& options_;
  const JobListener& listener_;
  const Format& format_;
  const nn::LoadOptions load_;
  const std::unique_ptr<BlockModel> model_;
  const Checkpoint& source_;
  const JobPlan plan_;
  bool has_calibrated_ = false;
  JobPlace place_;
  std::unique_ptr<StagedTensors> staged_;
  Activations exact_, quantized_;   // outputs of the blocks so far: original weights, quantized weights
  std::vector<TunedLayer> layers_;  // of the block in hand
  KvPair largest_kv_;               // magnitudes in it
  std::string note_;                // for the progress: what the last block came to
};

}  // namespace

std::unique_ptr<ModelJob> plan_model_job(const JobOptions& options, const JobListener& listener,
                                         const Format& format, std::unique_ptr<BlockModel> model,
                                         std::vector<LayerDecision> decided) {
  return std::make_unique<BlockByBlock>(options, listener, format, std::move(model), std::move(decided));
}

nn::LoadOptions job_load_options(const JobOptions& options) {
  return {.compute_dtype = tuning_dtype(options.device),
          .device = options.device,
          .keep_quantized = false,
          .plain_values = true};
}

}  // namespace quaver::quantize
