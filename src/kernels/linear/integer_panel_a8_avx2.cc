// Integer codes against 8-bit activations with AVX2.
#include "kernels/linear/integer_panel_a8_body.h"

namespace quaver::kernels {

void integer_panel_a8_avx2(const IntegerPanel& panel) { all_rows<A8Tile, kA8Rows>(panel); }

}  // namespace quaver::kernels
