// Plain weights with AVX-512.
#include "kernels/linear/plain_panel_body.h"

namespace quaver::kernels {

void plain_panel_avx512(const PlainPanel& panel) { plain_panel(panel); }

}  // namespace quaver::kernels
