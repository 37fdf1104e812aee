// The scalar reference of fake quantization.
#include <algorithm>
#include <cmath>

#include "kernels/qdq/group_math.h"
#include "numerics/half.h"

namespace quaver::kernels {
namespace {

float round_f16(float x) { return f16_to_float(float_to_f16(x)); }

float load(const void* base, bool bf16, int64_t i) {
  return bf16 ? bf16_to_float(static_cast<const uint16_t*>(base)[i]) : static_cast<const float*>(base)[i];
}

void store(void* base, bool bf16, int64_t i, float value) {
  if (bf16)
    static_cast<uint16_t*>(base)[i] = float_to_bf16(value);
  else
    static_cast<float*>(base)[i] = value;
}

GroupScale scale_of(const QdqRow& row, int64_t g, int64_t begin, int64_t end) {
  float low = 0, high = 0;
  for (int64_t i = begin; i < end; ++i) {
    low = std::min(low, load(row.w, row.w_bf16, i));
    high = std::max(high, load(row.w, row.w_bf16, i));
  }
  return group_scale(row, g, low, high, round_f16);
}

struct Rounded {
  float ratio, q;
  bool inside;
};

Rounded round_element(const QdqRow& row, const GroupScale& s, int64_t i) {
  float ratio = load(row.w, row.w_bf16, i) / s.scale;
  float shifted = std::nearbyint(ratio + (row.v ? load(row.v, row.v_bf16, i) : 0.0f)) + s.zero;
  return {ratio, std::clamp(shifted, s.low, s.high), shifted >= s.low && shifted <= s.high};
}

template <class Visit>
void for_each_group(const QdqRow& row, const Visit& visit) {
  for (int64_t begin = 0, g = 0; begin < row.cols; begin += row.group, ++g) {
    int64_t end = std::min(row.cols, begin + row.group);
    visit(g, begin, end, scale_of(row, g, begin, end));
  }
}

}  // namespace

void qdq_forward_row_scalar(const QdqRow& row) {
  for_each_group(row, [&](int64_t g, int64_t begin, int64_t end, const GroupScale& s) {
    store_group(row, g, s);
    for (int64_t i = begin; i < end; ++i) {
      float q = round_element(row, s, i).q;
      if (row.w_hat) store(row.w_hat, row.w_hat_bf16, i, s.scale * (q - s.zero));
      if (row.codes) row.codes[i] = static_cast<uint8_t>(q - s.low);
    }
  });
}

void qdq_backward_row_scalar(const QdqRow& row) {
  for_each_group(row, [&](int64_t g, int64_t begin, int64_t end, const GroupScale& s) {
    GroupSums sums;
    for (int64_t i = begin; i < end; ++i) {
      Rounded r = round_element(row, s, i);
      float dw = load(row.dw_hat, row.dw_hat_bf16, i);
      float dv = r.inside ? dw * s.scale : 0.0f;
      sums.scale += dw * (r.q - s.zero - (r.inside ? r.ratio : 0.0f));
      if (!r.inside) sums.clamped += dw;
      if (row.dv) row.dv[i] = dv;
      if (row.v_rate != 0.0f)
        store(row.v, row.v_bf16, i, stepped(load(row.v, row.v_bf16, i), row.v_rate, dv));
    }
    finish_group(row, g, s, sums);
  });
}

}  // namespace quaver::kernels
