#include "nn/weight_source.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "nn/device_quant_weight.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

namespace {

std::string joined(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), limit); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > limit ? cat(text, " and ", names.size() - limit, " more") : text;
}

// In the dtype and on the device asked for; the mapped bytes are let go where that makes a copy.
at::Tensor converted(const Checkpoint& checkpoint, std::string_view name, const at::Tensor& stored,
                     const LoadOptions& options) {
  at::Tensor result = stored.to(options.device, options.compute_dtype);
  if (!result.is_same(stored)) checkpoint.release(name);
  return result;
}

}  // namespace

WeightSource::WeightSource(const Checkpoint& checkpoint, LoadOptions options)
    : checkpoint_(checkpoint), options_(std::move(options)), format_(detect_format(checkpoint)) {
  if (format_ && format_->has_plain_values && options_.plain_values) format_ = nullptr;
  if (format_ && format_->kv_cache) kv_cache_ = format_->kv_cache(checkpoint);
  has_kv_scales_ = kv_cache_ && !kv_cache_->dynamic && has_kv_scales(checkpoint);
}

void WeightSource::log_kv_cache() const {
  if (!kv_cache_) return;
  const std::string where = cat(checkpoint_.path().string(), ": asks for keys and values in 8 bits");
  if (quantizes_kv_cache())
    log_info(where);
  else
    log_warning(where, has_kv_scales_ ? "" : ", but brings no scales for them",
                "; they are kept as they are computed");
}

bool WeightSource::has(std::string_view name) const { return checkpoint_.find(name) != nullptr; }

std::string WeightSource::where(std::string_view name) const {
  return cat(checkpoint_.file_of(name), ": tensor '", name, "'");
}

at::Tensor WeightSource::stored(std::string_view name, const std::vector<int64_t>& shape) {
  const TensorInfo* info = checkpoint_.find(name);
  require(info != nullptr, ErrorKind::kBadFile, checkpoint_.path().string(), ": tensor '", name,
          "' is missing");
  used_.emplace(name);
  require(info->shape == shape, ErrorKind::kBadFile, where(name), " has shape ", info->shape, ", expected ",
          shape);
  require(is_floating(info->dtype), ErrorKind::kBadFile, where(name), " has dtype ",
          dtype_info(info->dtype).name, ", expected a plain floating dtype");
  if (options_.device.is_meta())
    return at::empty(shape, at::TensorOptions().dtype(*scalar_type_of(info->dtype)).device(at::kMeta));
  return tensor_over(checkpoint_.read(name), where(name));
}

at::Tensor WeightSource::tensor(std::string_view name, const std::vector<int64_t>& shape) {
  return converted(checkpoint_, name, stored(name, shape), options_);
}

at::Tensor WeightSource::wide_tensor(std::string_view name, const std::vector<int64_t>& shape) {
  wide_.emplace(name);
  LoadOptions wide = options_;
  if (wide.compute_dtype != at::kDouble) wide.compute_dtype = at::kFloat;
  return converted(checkpoint_, name, stored(name, shape), wide);
}

at::Tensor WeightSource::matrix(std::string_view name, int64_t rows, int64_t cols) {
  const at::Tensor table = stored(name, {rows, cols});
  if (!options_.offload) return as_matrix(name, table);
  return converted(checkpoint_, name, table, {.compute_dtype = options_.compute_dtype});
}

at::Tensor WeightSource::as_matrix(std::string_view name, const at::Tensor& stored) const {
  bool keep =
      options_.device.is_cpu() && options_.compute_dtype == at::kFloat && stored.scalar_type() != at::kDouble;
  return keep ? stored : converted(checkpoint_, name, stored, options_);
}

std::optional<at::Tensor> WeightSource::bias_of(std::string_view prefix, int64_t out, Bias rule,
                                                const LinearShard& shard) {
  std::string name = cat(prefix, ".bias");
  if (rule == Bias::kOptional && !has(name)) return std::nullopt;
  at::Tensor bias = tensor(name, {out});
  if (shard.has_columns() && shard.ranks->rank() != 0) return std::nullopt;
  return shard.has_rows() ? taken(bias, 0, shard.runs).contiguous() : bias;
}

Linear WeightSource::linear(std::string_view prefix, int64_t out, int64_t in, Bias rule,
                            const LinearShard& shard) {
  Linear layer = load_linear(prefix, {out, in}, rule, shard);
  layer.set_shard(shard);
  return layer;
}

// A row run stays a view of the file; what is copied lets the file go.
at::Tensor WeightSource::part_of(std::string_view name, const at::Tensor& whole,
                                 const LinearShard& shard) const {
  if (shard.part == LinearShard::Part::kWhole) return whole;
  at::Tensor part = taken(whole, shard.has_rows() ? 0 : 1, shard.runs).contiguous();
  if (!part.is_alias_of(whole)) checkpoint_.release(name);
  return part;
}

std::shared_ptr<QuantWeight> WeightSource::part_of(std::string_view prefix,
                                                   std::shared_ptr<QuantWeight> whole,
                                                   const LinearShard& shard) const {
  if (shard.part == LinearShard::Part::kWhole) return whole;
  if (shard.has_rows()) return std::make_shared<QuantWeight>(rows_of(*whole, shard.runs));
  const ActivationQuant asked = whole->activation;
  if (!options_.strict_activations) whole->activation = {};  // nobody cares whether it can be done in parts
  auto part = std::make_shared<QuantWeight>(
      columns_of(*whole, shard.runs, cat(checkpoint_.path().string(), ": layer '", prefix, "'")));
  part->activation = asked;
  return part;
}

Linear WeightSource::load_linear(std::string_view prefix, Extent2d whole, Bias rule,
                                 const LinearShard& shard) {
  LayerPlan plan = format_ ? format_->plan(checkpoint_, prefix) : LayerPlan{};
  used_.insert(plan.dropped.begin(), plan.dropped.end());
  const std::string name = cat(prefix, ".weight");
  at::Tensor weight;
  if (options_.round_plain && (plan.tensors.empty() || format_->has_plain_values)) {
    weight = stored(name, {whole.rows, whole.cols});
    std::shared_ptr<QuantWeight> quant = rounded(prefix, weight);
    if (quant || !plan.tensors.empty()) weight.reset();
    if (quant)
      return quantized(part_of(prefix, std::move(quant), shard), {name},
                       bias_of(prefix, whole.rows, rule, shard), shard);
  }
  if (!plan.tensors.empty() && options_.device.is_meta()) {
    used_.insert(plan.tensors.begin(), plan.tensors.end());
    const at::Tensor form = at::empty({whole.rows, whole.cols},
                                      at::TensorOptions(options_.compute_dtype).device(options_.device));
    return Linear::plain(
        shard.part == LinearShard::Part::kWhole ? form : taken(form, shard.has_rows() ? 0 : 1, shard.runs),
        bias_of(prefix, whole.rows, rule, shard));
  }
  if (!plan.tensors.empty()) {
    plan.shape = whole;
    std::shared_ptr<QuantWeight> quant = part_of(prefix, unpacked(plan), shard);
    const bool expands = options_.keep_quantized && !keeps(*quant);
    expanded_ += expands;
    if (!expands || !format_->has_plain_values)
      return quantized(std::move(quant), plan.tensors, bias_of(prefix, whole.rows, rule, shard), shard);
  }
  if (!weight.defined()) weight = stored(name, {whole.rows, whole.cols});
  Linear layer =
      Linear::plain(as_matrix(name, part_of(name, weight, shard)), bias_of(prefix, whole.rows, rule, shard));
  settle(layer, {name});
  return layer;
}

std::shared_ptr<QuantWeight> WeightSource::unpacked(const LayerPlan& plan) {
  auto quant = std::make_shared<QuantWeight>(format_->unpack(plan, checkpoint_));
  used_.insert(plan.tensors.begin(), plan.tensors.end());
  require(quant->shape == plan.shape, ErrorKind::kBadFile, checkpoint_.path().string(), ": layer '",
          plan.layer, "' unpacks to [", quant->shape.rows, ", ", quant->shape.cols, "], expected [",
          plan.shape.rows, ", ", plan.shape.cols, "]");
  return quant;
}

std::shared_ptr<QuantWeight> WeightSource::rounded(std::string_view prefix, const at::Tensor& weight) const {
  std::optional<QuantWeight> quant = options_.round_plain(std::string(prefix), weight);
  if (!quant) return nullptr;
  require(quant->shape == Extent2d{weight.size(0), weight.size(1)}, ErrorKind::kInternal, "layer '", prefix,
          "' was rounded to another shape");
  return std::make_shared<QuantWeight>(*std::move(quant));
}

bool WeightSource::keeps(const QuantWeight& weight) const {
  return options_.keep_quantized && (options_.device.is_cpu() || DeviceQuantWeight::can_expand(weight));
}

Linear WeightSource::quantized(std::shared_ptr<QuantWeight> weight, const std::vector<std::string>& tensors,
                               std::optional<at::Tensor> bias, const LinearShard& shard) {
  for (const std::string& name : tensors) checkpoint_.release(name);
  const InputQuant input = take_input_quant(*weight, shard);
  const bool keep = keeps(*weight);
  Linear layer =
      Linear::quantized(weight, bias, options_.compute_dtype, keep ? options_.device : at::Device(at::kCPU));
  layer.set_exact_activations(options_.exact_activations);
  if (!keep) layer = Linear::plain(layer.dense_weight().to(options_.device), bias);
  layer.set_input_quant(input);
  if (keep) settle(layer, tensors);
  return layer;
}

// Moves what the weight asks of its input out of it, multiplier included: it comes before the rounding.
InputQuant WeightSource::take_input_quant(QuantWeight& weight, const LinearShard& shard) {
  if (weight.activation.mode == ActivationQuant::Mode::kNone) return {};
  ++inputs_[describe(weight.activation)];
  if (!options_.strict_activations) return {};
  return {std::exchange(weight.activation, {}), std::exchange(weight.input_multiplier, {}), options_.device,
          shard.has_columns() ? shard.ranks : nullptr};
}

void WeightSource::settle(Linear& layer, const std::vector<std::string>& tensors) {
  if (!options_.kernel_layout_only) return;
  const bool aten_runs = options_.device.is_cpu() && options_.compute_dtype != at::kFloat;
  if (options_.device.is_cpu() && layer.quant_weight() && (aten_runs || layer.kernel_name() == "aten")) {
    at::ScalarType dtype = aten_runs                    ? options_.compute_dtype
                           : options_.exact_activations ? at::kFloat
                                                        : at::kBFloat16;
    const InputQuant input = layer.input_quant();
    layer = Linear::plain(layer.dense_weight().to(dtype), layer.bias());
    layer.set_input_quant(input);
    ++expanded_;
  }
  if (aten_runs) return;
  layer.keep_kernel_layout_only();
  for (const std::string& name : tensors) checkpoint_.release(name);
}

std::optional<KvScaling> WeightSource::kv_scaling(std::string_view attention, int64_t kv_heads) {
  if (!kv_cache_) return std::nullopt;
  const KvScales scales = read_kv_scales(checkpoint_, attention);
  for (const std::string& name : scales.tensors) used_.insert(name);
  if (!quantizes_kv_cache()) return std::nullopt;
  auto spread = [&](const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(values.size());
    require(count == 1 || count == kv_heads, ErrorKind::kBadFile, checkpoint_.path().string(), ": layer '",
            attention, "' has ", count, " scales for its keys and values, expected one, or one for each of ",
            kv_heads, " heads");
    at::Tensor result = at::empty({kv_heads}, at::kFloat);
    for (int64_t head = 0; head < kv_heads; ++head)
      result.data_ptr<float>()[head] = values[static_cast<size_t>(count == 1 ? 0 : head)];
    return result.to(options_.device);
  };
  return KvScaling{spread(scales.k), spread(scales.v)};
}

bool WeightSource::is_quantized(std::string_view prefix) const {
  return format_ && !format_->plan(checkpoint_, prefix).tensors.empty();
}

void WeightSource::ignore(std::string_view name) { used_.emplace(name); }

void WeightSource::ignore_if(bool (*matches)(std::string_view)) {
  for (const TensorInfo& info : checkpoint_.tensors())
    if (matches(info.name)) used_.insert(info.name);
}

void WeightSource::log_inputs() {
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : std::exchange(inputs_, {})) kinds.push_back(cat(count, " ", kind));
  if (kinds.empty()) return;
  const std::string where = checkpoint_.path().string();
  if (options_.strict_activations)
    log_info(where, ": layers with quantized inputs: ", joined(kinds, kinds.size()));
  else
    log_warning(where, ": layers that ask for quantized inputs and get them as they come: ",
                joined(kinds, kinds.size()));
}

void WeightSource::log_unmatched_rules() const {
  if (!format_) return;
  for (const std::string& rule : format_->unmatched_rules(checkpoint_))
    log_warning(checkpoint_.path().string(), ": the rule '", rule,
                "' of the quantization settings fits no tensor");
}

void WeightSource::finish(std::string_view prefix) {
  log_unmatched_rules();
  log_inputs();
  log_kv_cache();
  if (int64_t count = std::exchange(expanded_, 0))
    log_warning(checkpoint_.path().string(), ": no kernel here multiplies the weights of ", count,
                " layers as they are stored; they are held expanded to 16 bits or more");
  std::vector<std::string> unused;
  for (const TensorInfo& info : checkpoint_.tensors())
    if (info.name.starts_with(prefix) && !used_.contains(info.name)) unused.push_back(info.name);
  if (unused.empty()) return;
  fail(ErrorKind::kBadFile, checkpoint_.path().string(), ": ", unused.size(),
       " tensors belong to no layer of this model: ", joined(unused, 5));
}

}  // namespace quaver::nn
