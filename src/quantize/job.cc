#include "quantize/job.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/remove_tree.h"
#include "checkpoint/staged_tensors.h"
#include "formats/format.h"
#include "models/llm/causal_lm.h"
#include "models/tokenizer_files.h"
#include "nn/weight_source.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3fn.h"
#include "quantize/export.h"
#include "quantize/model_layers.h"
#include "quantize/opt_rtn.h"
#include "quantize/output_folder.h"
#include "quantize/recipe.h"
#include "quantize/round_to_nearest.h"
#include "quantize/staged_checkpoint.h"

namespace quaver::quantize {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

const char* method_name(Method method) {
  constexpr std::array kNames = {"rtn", "opt-rtn", "autoround"};
  return kNames[static_cast<size_t>(method)];
}

const Format& writable_format(const std::string& name) {
  const Format* format = find_format(name);
  require(format != nullptr && format->pack != nullptr, ErrorKind::kInvalidInput, "format '", name,
          "' can't be written; writable are ", writable_format_names());
  return *format;
}

std::string part_name(int64_t block) {
  std::string digits = std::to_string(block);
  return cat("block-", std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0'), digits);
}

// "mlp.experts.3.up_proj" -> "mlp.experts..up_proj"
std::string without_numbers(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

bool has_static_input_scale(const Scheme& scheme) {
  const ActivationScheme& input = scheme.activation;
  return input.bits < 16 && (!input.dynamic || input.data_type == DataType::kNvFp);
}

// Fits the part of an input's scale that a checkpoint fixes to the largest magnitude seen.
void set_input_scale(ActivationQuant& input, float largest) {
  if (!(largest > 0)) largest = 1.0f;
  if (input.mode == ActivationQuant::Mode::kStatic) input.static_scale = largest / kE4M3FNMax;
  if (input.mode == ActivationQuant::Mode::kDynamic && input.scale == ScaleCodec::kE4M3FN) {
    input.super_divisor = kE4M3FNMax * kE2M1Max / largest;
    input.super_scale = 1.0f / input.super_divisor;
  }
}

class Job {
 public:
  Job(const JobOptions& options, const JobListener& listener)
      : options_(options),
        listener_(listener),
        format_(writable_format(options.format)),
        source_(models::open_model(options.model)),
        load_{
            .compute_dtype = tuning_dtype(options.device), .device = options.device, .keep_quantized = false},
        shell_source_(*source_, load_),
        shell_(models::make_causal_lm_shell(shell_source_)) {
    require(shell_source_.format() == nullptr, ErrorKind::kInvalidInput, options.model,
            " is quantized already; quantize the original model");
  }

  RunReport run() {
    auto start = Clock::now();
    plan_layers();
    recipe_ = make_recipe();
    format_.config_json(recipe_);  // refuses what this format has no words for, before any work
    if (is_calibrated()) calibrate();
    refuse_source_as_target();
    OutputFolder folder(options_.output_dir, fingerprint(), options_.resume, options_.overwrite);
    staged_ = std::make_unique<StagedTensors>(folder.staging());
    if (is_calibrated()) embed_calibration();
    for (int64_t block = 0; block < shell_->info().num_layers; ++block) process_block(block);
    report_.bytes = write_result(folder.result());
    report_.seconds = seconds_since(start);
    report_.peak_memory_bytes = peak_memory_bytes();
    write_reports(report_, folder.result());
    folder.publish();
    listener_.progress->finish(cat("wrote ", options_.output_dir.string()));
    return report_;
  }

 private:
  std::string block_prefix(int64_t block) const { return cat(shell_->info().blocks_prefix, ".", block, "."); }

  std::unique_ptr<models::DecoderBlock> source_block(int64_t block) const {
    nn::WeightSource source(*source_, load_);
    return shell_->make_block(block, source);
  }

  void release_block(int64_t block) const {
    std::string prefix = block_prefix(block);
    for (const TensorInfo& info : source_->tensors())
      if (info.name.starts_with(prefix)) source_->release(info.name);
  }

  void plan_layers() {
    const std::vector<LayerShape> shapes = quantizable_layers(*shell_, *source_);
    for (LayerDecision& decision : decide_layers(options_.rules, shapes))
      decisions_[decision.name] = decision;
    std::vector<LayerDecision> in_order;
    for (const LayerShape& shape : shapes) in_order.push_back(decisions_.at(shape.name));
    if (listener_.on_plan) listener_.on_plan(in_order);
  }

  WeightScheme form_of(const Scheme& scheme) const {
    WeightScheme form = stored_scheme(scheme);
    if (form.activation.scale == ScaleCodec::kE8M0) form.activation.power_of_two = format_.input_power;
    return form;
  }

  Recipe make_recipe() const {
    Recipe recipe{.bits = options_.rules.base.bits,
                  .group_size = options_.rules.base.group_size,
                  .sym = options_.rules.base.sym,
                  .block_names = {shell_->info().blocks_prefix}};
    if (!is_plain_integer(options_.rules.base)) recipe.scheme = form_of(options_.rules.base);
    for (const auto& [name, decision] : decisions_)
      if (!(decision.scheme == options_.rules.base))
        recipe.layer_overrides.emplace_back(name, override_of(decision));
    std::vector<std::string> layers;
    for (const auto& [name, decision] : decisions_) layers.push_back(name);
    recipe.plain_modules = plain_modules(*source_, layers, shell_->info().head);
    bool tuned = options_.method == Method::kAutoRound;
    recipe.tuning = {{"iters", tuned ? options_.tune.iters : 0}};
    if (is_calibrated())
      recipe.tuning.update({{"nsamples", options_.calibration.nsamples},
                            {"seqlen", options_.calibration.seqlen},
                            {"batch_size", options_.tune.batch_size}});
    return recipe;
  }

  // Rounding alone needs no text, unless an input's scale is to be found.
  bool is_calibrated() const {
    return options_.method != Method::kRtn || has_static_input_scale(options_.rules.base);
  }

  json override_of(const LayerDecision& decision) const {
    const Scheme& scheme = decision.scheme;
    if (scheme.bits == 16) return {{"bits", 16}, {"data_type", "float"}};
    const Scheme& base = options_.rules.base;
    require(is_plain_integer(scheme) && is_plain_integer(base), ErrorKind::kInvalidInput, decision.name, ": ",
            to_string(scheme), " beside ", to_string(base),
            "; one folder holds several schemes among weight-only integers alone");
    json changes = json::object();
    if (scheme.bits != base.bits) changes["bits"] = scheme.bits;
    if (scheme.group_size != base.group_size) changes["group_size"] = scheme.group_size;
    if (scheme.sym != base.sym) changes["sym"] = scheme.sym;
    return changes;
  }

  json fingerprint() const {
    json overrides = json::object();
    for (const auto& [name, value] : recipe_.layer_overrides) overrides[name] = value;
    return {{"model", std::filesystem::absolute(options_.model).string()},
            {"format", options_.format},
            {"method", method_name(options_.method)},
            {"scheme", to_string(options_.rules.base)},
            {"layer_config", overrides},
            {"iters", options_.tune.iters},
            {"lr", options_.tune.lr},
            {"minmax_lr", options_.tune.minmax_lr},
            {"batch_size", options_.tune.batch_size},
            {"gradient_accumulate_steps", options_.tune.gradient_accumulate_steps},
            {"enable_minmax_tuning", options_.tune.tune_minmax},
            {"best", options_.tune.use_best},
            {"seed", options_.tune.seed},
            {"dataset", options_.calibration.dataset},
            {"nsamples", options_.calibration.nsamples},
            {"seqlen", options_.calibration.seqlen}};
  }

  void refuse_source_as_target() const {
    namespace fs = std::filesystem;
    require(!fs::exists(options_.output_dir) || !fs::equivalent(options_.output_dir, source_->path()),
            ErrorKind::kInvalidInput, "--output_dir ", options_.output_dir.string(),
            " is the model's own folder");
  }

  void calibrate() {
    std::unique_ptr<Tokenizer> tokenizer = models::open_tokenizer(options_.model);
    calibration_ = load_calibration(*tokenizer, options_.calibration);
    report_.calibration = cat(calibration_.source, ": ", calibration_.num_rows, " of ",
                              calibration_.wanted_rows, " rows of ", calibration_.seqlen, " tokens");
    if (listener_.on_calibration) listener_.on_calibration(calibration_);
  }

  void embed_calibration() {
    at::NoGradGuard no_grad;
    at::Tensor ids = at::empty({calibration_.num_rows * calibration_.seqlen}, at::kLong);
    std::copy(calibration_.tokens.begin(), calibration_.tokens.end(), ids.data_ptr<int64_t>());
    at::Tensor rows = shell_->embed(ids.to(options_.device)).to(load_.compute_dtype);
    exact_.rows = rows.view({calibration_.num_rows, calibration_.seqlen, -1});
    quantized_.rows = exact_.rows.clone();
    calibration_.tokens = {};
  }

  void process_block(int64_t block) {
    auto start = Clock::now();
    std::string part = part_name(block);
    if (!staged_->has(part)) {
      BlockReport made = quantize_block(block);
      made.seconds = seconds_since(start);
      stage(block, made);
      finish_block(made);
    } else {
      if (is_calibrated()) advance_exact_chain(*source_block(block));
      finish_block(block_report_from_json(parse_json(staged_->metadata(part).at("report"), part), part));
    }
    layers_.clear();
    if (is_calibrated()) advance_quantized_chain(block);
    release_block(block);
  }

  void finish_block(BlockReport report) {
    report_.blocks.push_back(std::move(report));
    const BlockReport& last = report_.blocks.back();
    listener_.progress->update(last.index + 1, shell_->info().num_layers, loss_note(last));
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
      const LayerDecision& decision = decisions_.at(block_prefix(index) + linear.name);
      report.layers.push_back({.name = decision.name, .scheme = decision.scheme, .remark = decision.reason});
      if (decision.scheme.bits != 16)
        layers_.push_back({.layer = linear,
                           .scheme = storable(decision.scheme),
                           .activation = form_of(decision.scheme).activation,
                           .result = nullptr});
    }
    share_largest_weights();
    if (is_calibrated()) observe(*block, index, report);
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
      listener_.progress->update(index * options_.tune.iters + step,
                                 shell_->info().num_layers * options_.tune.iters,
                                 report_.blocks.empty() ? "" : loss_note(report_.blocks.back()));
    };
    BlockLoss loss = tune_block(block, layers_, quantized_, exact_, options_.tune, index, on_step);
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

  // Fills in what the calibration says of each layer's input, and advances the exact chain. The same layer of
  // all experts has one input scale: engines run them as one.
  void observe(models::DecoderBlock& block, int64_t index, BlockReport& report) {
    std::map<std::string, InputFacts> facts = advance_exact_chain(block);
    std::map<std::string, float> largest;
    for (const auto& [name, seen] : facts)
      largest[without_numbers(name)] = std::max(largest[without_numbers(name)], seen.largest);
    for (TunedLayer& layer : layers_) {
      const InputFacts& seen = facts[layer.layer.name];
      layer.importance = seen.squares;
      set_input_scale(layer.activation, largest[without_numbers(layer.layer.name)]);
      if (seen.squares.defined()) continue;
      for (LayerReport& line : report.layers)
        if (line.name == block_prefix(index) + layer.layer.name)
          line.remark = "saw no calibration token: rounded by the weights alone";
    }
  }

  struct InputFacts {
    at::Tensor squares;  // [in] float32, summed over tokens; undefined when the layer saw none
    float largest = 0;   // magnitude
  };

  // Runs the original block over the calibration rows.
  std::map<std::string, InputFacts> advance_exact_chain(models::DecoderBlock& block) {
    std::map<std::string, InputFacts> facts;
    for (auto& linear : block.linears())
      linear.linear->set_input_observer([&seen = facts[linear.name]](const at::Tensor& x) {
        at::Tensor rows = x.detach().to(at::kFloat).reshape({-1, x.size(-1)});
        if (rows.size(0) == 0) return;
        seen.largest = std::max(seen.largest, rows.abs().max().item<float>());
        at::Tensor squares = rows.square().sum(0);
        seen.squares = seen.squares.defined() ? seen.squares + squares : squares;
      });
    run_block(block, exact_, exact_, options_.tune.batch_size, /*observed=*/true);
    for (auto& linear : block.linears()) linear.linear->set_input_observer(nullptr);
    return facts;
  }

  void round_layers(int64_t block) {
    for (TunedLayer& layer : layers_) {
      auto result = std::make_shared<QuantWeight>(rounded(layer, block_prefix(block) + layer.layer.name));
      result->activation = layer.activation;
      layer.result = std::move(result);
    }
  }

  QuantWeight rounded(const TunedLayer& layer, const std::string& name) const {
    const at::Tensor weight = layer.layer.linear->dense_weight();
    const bool integers = layer.scheme.data_type == DataType::kInt;
    if (options_.method == Method::kRtn || (integers && !layer.importance.defined()))
      return round_to_nearest(weight, layer.scheme, layer.shared_amax, name);
    return integers ? search_integers(weight, layer, name) : search_floats(weight, layer);
  }

  static QuantWeight search_floats(const at::Tensor& weight, const TunedLayer& layer) {
    std::unique_ptr<TunableWeight> tunable = make_tunable(weight, layer.scheme, layer.shared_amax);
    tunable->search_ranges(layer.importance);
    return tunable->quantized();
  }

  static QuantWeight search_integers(const at::Tensor& dense, const TunedLayer& layer,
                                     const std::string& name) {
    at::Tensor weight = dense.to(at::kCPU, at::kFloat).contiguous();
    std::span<const float> values(weight.const_data_ptr<float>(), static_cast<size_t>(weight.numel()));
    RoundingProblem problem = integer_problem(weight.size(0), weight.size(1), layer.scheme);
    problem.what = name;
    at::Tensor sums = layer.importance.to(at::kCPU).contiguous();
    std::span<const float> importance(sums.const_data_ptr<float>(), static_cast<size_t>(sums.numel()));
    return opt_rtn(values, importance, problem);
  }

  void stage(int64_t block, BlockReport& report) {
    std::string prefix = block_prefix(block);
    std::vector<NamedTensor> tensors;
    for (const TunedLayer& layer : layers_) {
      validate(*layer.result, prefix + layer.layer.name);
      for (NamedTensor& tensor : format_.pack(*layer.result, prefix + layer.layer.name, recipe_))
        tensors.push_back(std::move(tensor));
    }
    fill_sizes(report, tensors);
    for (const TensorInfo& info : source_->tensors())
      if (info.name.starts_with(prefix) && !is_replaced(info.name))
        tensors.push_back({info.name, source_->read(info.name)});
    staged_->write(part_name(block), tensors, {{"report", to_json(report).dump()}});
  }

  bool is_replaced(const std::string& name) const {
    constexpr std::string_view kSuffix = ".weight";
    if (!name.ends_with(kSuffix)) return false;
    if (models::is_second_copy_of_head(shell_->info(), name)) return true;
    auto found = decisions_.find(name.substr(0, name.size() - kSuffix.size()));
    return found != decisions_.end() && found->second.scheme.bits != 16;
  }

  void fill_sizes(BlockReport& report, const std::vector<NamedTensor>& packed) const {
    for (LayerReport& layer : report.layers) {
      layer.source_bytes = static_cast<int64_t>(source_->find(layer.name + ".weight")->size_bytes);
      layer.bytes = layer.scheme.bits == 16 ? layer.source_bytes : 0;
      for (const NamedTensor& tensor : packed)
        if (tensor.name.starts_with(layer.name + "."))
          layer.bytes += static_cast<int64_t>(tensor.tensor.data.size_bytes());
    }
  }

  json result_config() const {
    json config = source_->config();
    config["quantization_config"] = format_.config_json(recipe_);
    return config;
  }

  void advance_quantized_chain(int64_t block) {
    StagedCheckpoint staged(*staged_, result_config(), options_.output_dir);
    nn::WeightSource source(staged, load_);
    std::unique_ptr<models::DecoderBlock> rounded = shell_->make_block(block, source);
    run_block(*rounded, quantized_, quantized_, options_.tune.batch_size);
  }

  int64_t write_result(const std::filesystem::path& folder) {
    report_.model = options_.model;
    report_.format = options_.format;
    report_.method = method_name(options_.method);
    report_.scheme = to_string(options_.rules.base);
    for (const TensorInfo& info : source_->tensors())
      report_.source_bytes += static_cast<int64_t>(info.size_bytes);
    remove_tree(folder);
    std::filesystem::create_directories(folder);
    ExportedModel result{.source = *source_,
                         .source_path = options_.model,
                         .staged = *staged_,
                         .is_replaced = [this](const std::string& name) { return is_replaced(name); },
                         .config = result_config(),
                         .format = &format_,
                         .max_shard_bytes = options_.max_shard_bytes};
    return export_model(result, folder);
  }

  const JobOptions& options_;
  const JobListener& listener_;
  const Format& format_;
  std::unique_ptr<Checkpoint> source_;
  nn::LoadOptions load_;
  nn::WeightSource shell_source_;
  std::unique_ptr<models::CausalLm> shell_;
  std::map<std::string, LayerDecision> decisions_;
  Recipe recipe_;
  CalibrationSet calibration_;
  std::unique_ptr<StagedTensors> staged_;
  Activations exact_, quantized_;   // outputs of the blocks so far: original weights, quantized weights
  std::vector<TunedLayer> layers_;  // of the block in hand
  RunReport report_;
};

}  // namespace

at::ScalarType tuning_dtype(at::Device device) {
  bool native = device.is_cuda() || cpu_features().avx512_bf16 || cpu_features().amx;
  return native ? at::kBFloat16 : at::kFloat;
}

RunReport run_job(const JobOptions& options, const JobListener& listener) {
  return Job(options, listener).run();
}

}  // namespace quaver::quantize
