// Integer codes against float activations with AVX2.
#include "kernels/linear/integer_panel_a32_body.h"

namespace quaver::kernels {

void integer_panel_a32_avx2(const IntegerPanel& panel) { all_rows<A32Tile, kA32Rows>(panel); }

}  // namespace quaver::kernels
