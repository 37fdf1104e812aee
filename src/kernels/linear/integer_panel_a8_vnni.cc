// Integer codes against 8-bit activations with AVX-512 VNNI.
#include "kernels/linear/integer_panel_a8_body.h"

namespace quaver::kernels {

void integer_panel_a8_vnni(const IntegerPanel& panel) { all_rows<A8Tile, kA8Rows>(panel); }

}  // namespace quaver::kernels
