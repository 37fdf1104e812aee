#include "pipeline/resident_weights.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "nn/tensor_bridge.h"

namespace quaver::pipeline {

namespace {

int64_t bytes_in(int64_t values, at::ScalarType dtype) {
  return values * static_cast<int64_t>(c10::elementSize(dtype));
}

int64_t values_of(const TensorInfo& tensor) {
  int64_t values = 1;
  for (const int64_t extent : tensor.shape) values *= extent;
  return values;
}

// "blocks.#.to_q": the same place in every block.
std::string place_of(const std::string& name) {
  std::string place;
  for (const char c : name)
    if (!std::isdigit(static_cast<unsigned char>(c)))
      place += c;
    else if (!place.ends_with('#'))
      place += '#';
  return place;
}

bool is_table(const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  return tensor.shape.size() == 2 &&
         (name.find("embed") != std::string_view::npos || name.ends_with("shared.weight"));
}

class Counter {
 public:
  Counter(const Checkpoint& checkpoint, const nn::LoadOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        source_(checkpoint, options),
        on_cpu_(options.device.is_cpu()),
        kernels_(on_cpu_ && options.compute_dtype == at::kFloat) {}

  void add_layer(const PlannedLayer& layer) {
    const int64_t values = layer.shape.rows * layer.shape.cols;
    const int64_t bytes = bytes_of_layer(layer, values);
    (layer.block < 0 ? out_.rest : out_.blocks) += bytes;
    if (layer.block >= 0) out_.largest_block = std::max(out_.largest_block, block_[layer.block] += bytes);
  }

  // A head that a listed model doesn't have stays in the file: a language model's body reads prompts.
  void add_others(bool listed) {
    for (const TensorInfo& tensor : checkpoint_.tensors())
      if (!counted_.contains(tensor.name) && !(listed && tensor.name.starts_with("lm_head.")))
        add_tensor(tensor);
  }

  const ResidentWeights& result() const { return out_; }

 private:
  struct Sample {
    double bytes_per_value;
    bool expands;
  };

  int64_t bytes_of_layer(const PlannedLayer& layer, int64_t values) {
    const Format* format = source_.format();
    const LayerPlan plan = format ? format->plan(checkpoint_, layer.name) : LayerPlan{};
    const std::string name = cat(layer.name, ".weight");
    counted_.insert(name);
    counted_.insert(plan.tensors.begin(), plan.tensors.end());
    counted_.insert(plan.dropped.begin(), plan.dropped.end());
    if (plan.tensors.empty() && !options_.round_plain) return plain_layer(layer, name, values);
    std::string kind = plan.tensors.empty() ? place_of(layer.name) : plan.scheme.dump();
    for (const std::string& tensor : plan.tensors)
      kind += cat(" ", dtype_info(checkpoint_.stored_type(tensor)).name);
    auto known = samples_.find(kind);
    if (known == samples_.end()) known = samples_.emplace(kind, sample(layer)).first;
    const Sample& one = known->second;
    if (one.expands) out_.expanded = std::max(out_.expanded, bytes_in(values, options_.compute_dtype));
    return static_cast<int64_t>(one.bytes_per_value * static_cast<double>(values));
  }

  // As it is stored where kernels take it; else in the activations' dtype.
  int64_t plain_layer(const PlannedLayer& layer, const std::string& name, int64_t values) {
    const TensorInfo* tensor = checkpoint_.find(name);
    if (!tensor) return 0;  // loading says so
    int64_t bytes = bytes_in(values, options_.compute_dtype);
    if (kernels_)
      bytes = static_cast<int64_t>(tensor->size_bytes) * values / std::max<int64_t>(1, values_of(*tensor));
    if (on_cpu_ && !kernels_ && keeps_dtype(*tensor)) {
      out_.mapped += bytes;
      return 0;
    }
    if (layer.block >= 0 && !layer.modulation) count_roundable(bytes, values);
    return bytes;
  }

  void count_roundable(int64_t bytes, int64_t values) {
    out_.roundable += bytes;
    out_.as_int4 += values / 2 + values / 64;
  }

  Sample sample(const PlannedLayer& layer) {
    const nn::Linear loaded = source_.linear(layer.name, layer.whole.rows, layer.whole.cols);
    const int64_t bias = loaded.bias() ? static_cast<int64_t>(loaded.bias()->nbytes()) : 0;
    const double bytes = static_cast<double>(static_cast<int64_t>(loaded.size_bytes()) - bias);
    return {bytes / static_cast<double>(layer.whole.rows * layer.whole.cols), !on_cpu_ && !loaded.is_dense()};
  }

  void add_tensor(const TensorInfo& tensor) {
    if (!nn::is_floating(tensor.dtype) || checkpoint_.stored_type(tensor.name) != tensor.dtype) {
      out_.rest += static_cast<int64_t>(checkpoint_.stored_bytes(tensor));
      return;
    }
    const bool table = is_table(tensor);
    // Under two names there is one table still.
    if (table && !tables_.insert(tensor.shape).second) return;
    // Experts of a block may be one tensor.
    const bool matrix = tensor.shape.size() == 2 || tensor.shape.size() == 3;
    const auto stored = static_cast<int64_t>(tensor.size_bytes);
    const int64_t converted = bytes_in(values_of(tensor), options_.compute_dtype);
    const int64_t held = matrix && kernels_ ? stored : converted;
    const bool kept =
        kernels_ ? table : keeps_dtype(tensor) && (on_cpu_ ? matrix : table && options_.offload);
    (kept ? out_.mapped : table ? out_.tables : out_.rest) += held;
    if (matrix && !table && !kept) count_roundable(held, values_of(tensor));
  }

  bool keeps_dtype(const TensorInfo& tensor) const {
    return nn::scalar_type_of(tensor.dtype) == options_.compute_dtype;
  }

  const Checkpoint& checkpoint_;
  const nn::LoadOptions& options_;
  nn::WeightSource source_;
  bool on_cpu_, kernels_;
  ResidentWeights out_;
  std::map<std::string, Sample> samples_;
  std::map<int64_t, int64_t> block_;
  std::set<std::string, std::less<>> counted_;
  std::set<std::vector<int64_t>> tables_;
};

}  // namespace

ResidentWeights resident_weights(const Checkpoint& checkpoint, const nn::LoadOptions& options,
                                 const std::vector<PlannedLayer>& layers) {
  Counter counter(checkpoint, options);
  for (const PlannedLayer& layer : layers) counter.add_layer(layer);
  counter.add_others(!layers.empty());
  return counter.result();
}

}  // namespace quaver::pipeline
