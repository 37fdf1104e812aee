// exp and tanh on vectors. Include only from *_avx2.cc and *_avx512.cc files.
#pragma once

#include "kernels/simd.h"

namespace quaver::kernels {
namespace {

// Within 2 ulp where the result is normal (measured: 1.01); 0 below, infinity above, NaN for NaN; exp(0) is
// exactly 1. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by the polynomial of Cephes' expf.
QUAVER_INLINE Vec exp(Vec x) {
  x = min(splat(89.0f), max(splat(-105.0f), x));
  Vec n = rint(mul(x, splat(1.44269504f)));
  Vec r = fnma(n, splat(0.693359375f), x);
  r = fnma(n, splat(-2.12194440e-4f), r);
  Vec p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = add(fma(mul(r, r), p, r), splat(1.0f));
  return times_power_of_two(p, n);
}

// Within 2 ulp (measured: 1.3). Near zero the polynomial of Cephes' tanhf, since 1 - 2 / (e^2x + 1) cancels
// there.
QUAVER_INLINE Vec tanh(Vec x) {
  Vec magnitude = abs(x), z = mul(x, x);
  Vec p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  Vec small = fma(mul(p, z), x, x);
  Vec grown = exp(add(magnitude, magnitude));
  Vec large = sub(splat(1.0f), div(splat(2.0f), add(grown, splat(1.0f))));
  return where(less(magnitude, splat(0.625f)), small, copy_sign(large, x));
}

}  // namespace
}  // namespace quaver::kernels
