// Fake quantization with AVX-512.
#include "kernels/qdq/qdq_row_body.h"

namespace quaver::kernels {

void qdq_forward_row_avx512(const QdqRow& row) { qdq_forward_row(row); }
void qdq_backward_row_avx512(const QdqRow& row) { qdq_backward_row(row); }

}  // namespace quaver::kernels
