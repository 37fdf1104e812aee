// Where each row of the linear table comes from; for table.cc alone.
#pragma once

#include "kernels/linear/kernel.h"

namespace quaver::kernels {

LinearKernel int_a8_vnni_row();
LinearKernel int_a8_avx512_row();
LinearKernel int_a8_avx2_row();
LinearKernel int_a32_avx512_row();
LinearKernel int_a32_avx2_row();
LinearKernel float_a32_avx512_row();
LinearKernel float_a32_avx2_row();
LinearKernel plain_avx512_row();
LinearKernel plain_avx2_row();
LinearKernel reference_scalar_row();

}  // namespace quaver::kernels
