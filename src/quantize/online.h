// Quantization while loading: plain weights rounded to nearest as they come, by the names of
// `--quantization`.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "nn/weight_source.h"

namespace quaver::quantize {

// "fp8 = FP8_DYNAMIC, int8 = W8A16, ...": what weights can be rounded to, and by which scheme of `quantize`.
std::string online_schemes();

// Error(kInvalidInput) that lists the known names, unless weights can be rounded to `name` or some format of
// checkpoints is called so.
void check_online_name(std::string_view name);

// For nn::LoadOptions: rounds the layers that `quantize` would round, under the same rules, with the same
// result but for one thing. Where a scheme wants an input's scale by calibration (NVFP4), there is none here:
// each token gets its own. Logs in one line what is rounded and what stays. Null when the checkpoint is
// quantized and `name` is what its own format is called. Borrows the checkpoint. Error(kInvalidInput) when it
// is quantized in another way, or plain and `name` is that of a format.
nn::RoundPlain online_rounding(const Checkpoint& checkpoint, const std::string& name);

}  // namespace quaver::quantize
