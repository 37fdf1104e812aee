// AutoRound: tunes the rounding and clipping of one block's weights so that its output stays what it was.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/quant_weight.h"
#include "models/llm/causal_lm.h"
#include "quantize/batch_runner.h"
#include "quantize/scheme.h"
#include "quantize/tunable_weight.h"

namespace quaver::quantize {

struct TuneOptions {
  int64_t iters = 200;
  float lr = 0.0f;         // 0: 1 / iters, doubled at 1000 iterations and more for layers of 3 bits or fewer
  float minmax_lr = 0.0f;  // 0: as lr
  int64_t batch_size = 8;
  int64_t gradient_accumulate_steps = 1;
  bool tune_minmax = true;
  bool use_best = true;  // false keeps the parameters after the last step
  uint64_t seed = 42;
};

// Rows of activations of the whole calibration set, one block's input or output.
struct Activations {
  at::Tensor rows;  // [num_rows, seqlen, hidden]
  int64_t num_rows() const { return rows.size(0); }
  int64_t seqlen() const { return rows.size(1); }
};

// What a block's output should be.
struct TuneTarget {
  // Of these rows of the input: [n, seqlen, width]. Asked from several threads at once.
  std::function<at::Tensor(std::span<const int64_t>)> rows;
  int64_t width = 0;
};

// Known beforehand; borrows them.
TuneTarget target_of(const Activations& outputs);

struct TunedLayer {
  models::DecoderBlock::NamedLinear layer;
  Scheme scheme;
  float shared_amax = 0;                      // as make_tunable() takes it
  ActivationQuant activation = {};            // goes into the result
  at::Tensor importance;                      // [in] sums of squared inputs; undefined: it saw no token
  std::shared_ptr<const QuantWeight> result;  // filled by tune_block
};

struct BlockLoss {
  double before = 0;      // mean squared error of the block's output at plain rounding, on the held-out rows
  double after = 0;       // at the parameters kept
  int64_t best_step = 0;  // number of updates behind the parameters kept
};

// Called after each step with (step, loss on the last minibatch).
using StepListener = std::function<void(int64_t, double)>;

// Minimises the mean squared difference between block(`input`) with quantized weights and `target`, over all
// positions but the last of each row, from ranges searched for each weight (range_search.h). An eighth of the
// rows (at least one, when there are two) is held out; at the start, every few steps and after the last one
// the loss there is measured, and the parameters of the lowest one are kept, plain rounding among them.
// Leaves the block's linears with the dequantized results as dense weights. `block_index` goes into the
// shuffle, so that a block's result does not depend on which blocks ran before it in this process.
BlockLoss tune_block(models::DecoderBlock& block, std::vector<TunedLayer>& layers, const Activations& input,
                     const TuneTarget& target, const TuneOptions& options, int64_t block_index,
                     const StepListener& listener);

// Runs the block over all rows, `batch_size` at a time, without gradients; `out` may be the same tensor as
// `in`.
void run_block(const models::DecoderBlock& block, const Activations& in, Activations& out,
               int64_t batch_size);

// The same for a block whose layers have input observers, which then see one whole batch after the other, as
// do `kv` and `experts` (BatchRunner::observe). `out` may be null.
void observe_block(const models::DecoderBlock& block, const Activations& in, Activations* out,
                   int64_t batch_size, BatchRunner::KvObserver kv, nn::ExpertCalibration* experts);

}  // namespace quaver::quantize
