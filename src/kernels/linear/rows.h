// Where each row of the linear table comes from; for table.cc alone.
#pragma once

#include "kernels/linear/kernel.h"

namespace quaver::kernels {

LinearKernel reference_scalar_row();

}  // namespace quaver::kernels
