// The text that a job runs on as its model sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "quantize/calibration.h"

namespace quaver::quantize {

// By the model's own tokenizer.
CalibrationSet load_text(const std::string& model, const CalibrationOptions& wanted);
at::Tensor token_tensor(const CalibrationSet& text, at::Device device);  // int64 [rows x seqlen]

}  // namespace quaver::quantize
