// Hands a model its weights by name and counts them: every tensor is used exactly once or the load stops.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/format.h"
#include "formats/kv_cache.h"
#include "nn/kv_scaling.h"
#include "nn/linear.h"

namespace quaver::nn {

// Rounds a plain weight while it loads: given the layer's name and the weight as stored, [out, in] on the
// CPU. Nothing: the layer stays plain.
using RoundPlain =
    std::function<std::optional<QuantWeight>(const std::string& layer, const at::Tensor& weight)>;

struct LoadOptions {
  at::ScalarType compute_dtype = at::kFloat;  // of activations
  at::Device device = at::kCPU;               // at::kMeta: shapes and dtypes alone, weights are not read
  bool keep_quantized = true;                 // false: quantized layers become dense in compute_dtype
  bool plain_values = false;  // where the checkpoint has them (Format::has_plain_values), in place of codes
  // Layers that kernels run keep nothing but their kernel's layout (Linear::keep_kernel_layout_only), made
  // while loading: half the memory. For serving.
  bool kernel_layout_only = false;
  // Inputs of layers are quantized as the checkpoint asks; false: weights alone are.
  bool strict_activations = true;
  bool exact_activations = false;  // kernels must not round activations; for evaluation
  bool force_tied_head = false;    // use the embedding as the head whatever the config says
  RoundPlain round_plain;          // asked of each plain linear layer; null: they stay plain
  // Who computes the model together, borrowed; null: this process alone. Ranks of `tensor_ranks` hold a part
  // of each large layer, those of `sequence_ranks` take a part of the tokens through the whole layers.
  const RankGroup* tensor_ranks = nullptr;
  const RankGroup* sequence_ranks = nullptr;
  // Weights wait in host memory and are on the device while they are used (nn/offload.h): those of blocks a
  // block at a time, an autoencoder's together. Tables of rows stay on the host.
  bool offload = false;
};

// Whether a layer's bias must be there. An extra bias is used where it is found: some writers store zeros.
enum class Bias { kOptional, kRequired };

// Borrows the checkpoint. Not thread safe.
class WeightSource {
 public:
  WeightSource(const Checkpoint& checkpoint, LoadOptions options);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const LoadOptions& options() const { return options_; }
  const Format* format() const { return format_; }

  bool has(std::string_view name) const;
  // A plain tensor of exactly this shape, in compute_dtype on the device. Error(kBadFile) names file, tensor,
  // expected and got.
  at::Tensor tensor(std::string_view name, const std::vector<int64_t>& shape);
  // As `tensor`, but never in less than float32: for small tensors that decide (a router's).
  at::Tensor wide_tensor(std::string_view name, const std::vector<int64_t>& shape);
  // True for those that were read as such.
  bool is_wide(std::string_view name) const { return wide_.contains(name); }
  // As `tensor`, but for large tables and plain weights: on the CPU with float32 activations it keeps the
  // stored dtype and, where the file is mapped, the mapping. Under `offload` it is on the CPU.
  at::Tensor matrix(std::string_view name, int64_t rows, int64_t cols);
  // `prefix`.weight (plain, or rounded as the options say) or what the checkpoint's format says;
  // `prefix`.bias when present. A rounded weight's plain form is let go before the layer is laid out.
  // Extents are those of the whole layer; of it the rank's shard is kept. Values are those of the whole
  // layer's weight, rounded as a whole where it is. A bias that the ranks' sum must have once is rank 0's.
  // Error(kUnsupported) naming the layer where its inputs can't be quantized in such parts.
  Linear linear(std::string_view prefix, int64_t out, int64_t in, Bias bias = Bias::kOptional,
                const LinearShard& shard = {});
  // Where the options ask for it, keeps a layer in its kernel's layout alone and lets the mapped tensors go.
  // A quantized weight that no kernel takes is expanded once, since each call would do it otherwise.
  void settle(Linear& layer, const std::vector<std::string>& tensors);
  // True when the format stores this layer quantized.
  bool is_quantized(std::string_view prefix) const;
  // True when keys and values are to be kept in e4m3fn: the checkpoint asks for it and brings scales, and the
  // options obey.
  bool quantizes_kv_cache() const { return has_kv_scales_ && options_.strict_activations; }
  // The scales of an attention layer's keys and values; nothing unless quantizes_kv_cache(). Error(kBadFile)
  // where their number is neither 1 nor `kv_heads`.
  std::optional<KvScaling> kv_scaling(std::string_view attention, int64_t kv_heads);
  // Marks tensors as accounted for without loading them (a tied head's second copy).
  void ignore(std::string_view name);
  void ignore_if(bool (*matches)(std::string_view name));
  // Error(kBadFile) listing tensors under `prefix` ("" = all) that nobody took. Logs how many layers so far
  // quantize their inputs, how many run otherwise than the checkpoint asks, what it asks of keys and
  // values, and its rules that fit no tensor.
  void finish(std::string_view prefix);

 private:
  // In compute_dtype on the device, or as stored where `matrix` keeps that.
  at::Tensor as_matrix(std::string_view name, const at::Tensor& stored) const;
  Linear load_linear(std::string_view prefix, Extent2d whole, Bias rule, const LinearShard& shard);
  at::Tensor part_of(std::string_view name, const at::Tensor& whole, const LinearShard& shard) const;
  std::shared_ptr<QuantWeight> part_of(std::string_view prefix, std::shared_ptr<QuantWeight> whole,
                                       const LinearShard& shard) const;
  std::shared_ptr<QuantWeight> unpacked(const LayerPlan& plan);
  std::shared_ptr<QuantWeight> rounded(std::string_view prefix, const at::Tensor& weight) const;
  bool keeps(const QuantWeight& weight) const;  // as codes on the device
  Linear quantized(std::shared_ptr<QuantWeight> weight, const std::vector<std::string>& tensors,
                   std::optional<at::Tensor> bias, const LinearShard& shard);
  InputQuant take_input_quant(QuantWeight& weight, const LinearShard& shard);
  void log_inputs();
  void log_kv_cache() const;
  void log_unmatched_rules() const;
  at::Tensor stored(std::string_view name, const std::vector<int64_t>& shape);
  std::optional<at::Tensor> bias_of(std::string_view prefix, int64_t out, Bias rule,
                                    const LinearShard& shard);
  std::string where(std::string_view name) const;

  const Checkpoint& checkpoint_;
  LoadOptions options_;
  const Format* format_;
  std::optional<KvCacheQuant> kv_cache_;
  bool has_kv_scales_ = false;
  std::set<std::string, std::less<>> used_, wide_;
  std::map<std::string, int64_t> inputs_;  // layers by what the checkpoint asks of their input, where it does
  int64_t expanded_ = 0;                   // layers that no kernel takes
};

}  // namespace quaver::nn
