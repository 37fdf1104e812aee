// One row of fake quantization, per instruction set; for qdq.cc alone.
#pragma once

#include <cstdint>

namespace quaver::kernels {

struct QdqRow {
  int bits;
  bool symmetric;
  bool zero_from_one;
  float range_limit;
  int64_t group, cols;
  const void* w;
  bool w_bf16;
  void* v;  // or null
  bool v_bf16;
  float* alpha;  // or null; per group
  float* beta;   // or null; per group
  // Forward.
  void* w_hat;  // or null
  bool w_hat_bf16;
  float* scale;    // or null; per group
  float* zero;     // or null; per group
  uint8_t* codes;  // or null
  // Backward.
  const void* dw_hat;
  bool dw_hat_bf16;
  float* dv;      // or null
  float* dalpha;  // or null; per group
  float* dbeta;   // or null; per group
  float v_rate, range_rate;
};

void qdq_forward_row_scalar(const QdqRow& row);
void qdq_forward_row_avx2(const QdqRow& row);
void qdq_forward_row_avx512(const QdqRow& row);
void qdq_backward_row_scalar(const QdqRow& row);
void qdq_backward_row_avx2(const QdqRow& row);
void qdq_backward_row_avx512(const QdqRow& row);

}  // namespace quaver::kernels
