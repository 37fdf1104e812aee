// Where writers get their tensors from, one in memory at a time.
#pragma once

#include <functional>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/printable.h"

namespace quaver {

// Called once for each tensor, in the order of writing; must return exactly the dtype and shape announced.
using TensorSource = std::function<TensorView(const TensorInfo&)>;

// Asks for a tensor. Error(kInternal) when another one comes.
inline TensorView announced(const TensorSource& source, const TensorInfo& info) {
  TensorView view = source(info);
  require(view.dtype == info.dtype && view.shape == info.shape && view.data.size_bytes() == info.size_bytes,
          ErrorKind::kInternal, "tensor ", printable(info.name), " was announced as ",
          dtype_info(info.dtype).name, " ", info.shape, " and came as ", dtype_info(view.dtype).name, " ",
          view.shape, " of ", view.data.size_bytes(), " bytes");
  return view;
}

}  // namespace quaver
