#include "models/token_ids.h"

#include <span>

#include "base/error.h"

namespace quaver::models {

void check_token_ids(const at::Tensor& ids, int64_t vocab_size) {
  if (!ids.is_cpu()) return;
  at::Tensor flat = ids.contiguous();
  for (int64_t id : std::span(flat.const_data_ptr<int64_t>(), static_cast<size_t>(flat.numel())))
    require(id >= 0 && id < vocab_size, ErrorKind::kInvalidInput, "token id ", id,
            " is outside the vocabulary of ", vocab_size);
}

}  // namespace quaver::models
