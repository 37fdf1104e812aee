// Integer codes against float activations with AVX-512.
#include "kernels/linear/integer_panel_a32_body.h"

namespace quaver::kernels {

void integer_panel_a32_avx512(const CodePanel& panel) { integer_a32_panel(panel); }

}  // namespace quaver::kernels
