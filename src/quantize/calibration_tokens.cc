#include "quantize/calibration_tokens.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "models/tokenizer_files.h"

namespace quaver::quantize {

CalibrationSet load_text(const std::string& model, const CalibrationOptions& wanted) {
  return load_calibration(*models::open_tokenizer(model), wanted);
}

at::Tensor token_tensor(const CalibrationSet& text, at::Device device) {
  at::Tensor ids = at::empty({text.num_rows * text.seqlen}, at::kLong);
  std::copy(text.tokens.begin(), text.tokens.end(), ids.data_ptr<int64_t>());
  return ids.to(device);
}

}  // namespace quaver::quantize
