// Plain weights with AVX2.
#include "kernels/linear/plain_panel_body.h"

namespace quaver::kernels {

void plain_panel_avx2(const PlainPanel& panel) { plain_panel(panel); }

}  // namespace quaver::kernels
