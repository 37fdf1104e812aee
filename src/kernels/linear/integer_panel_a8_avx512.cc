// Integer codes against 8-bit activations with AVX-512.
#include "kernels/linear/integer_panel_a8_body.h"

namespace quaver::kernels {

void integer_panel_a8_avx512(const CodePanel& panel) { integer_a8_panel(panel); }

}  // namespace quaver::kernels
