// Float codes against float activations with AVX2.
#include "kernels/linear/float_panel_a32_body.h"

namespace quaver::kernels {

void float_panel_a32_avx2(const CodePanel& panel) { float_a32_panel(panel); }

}  // namespace quaver::kernels
