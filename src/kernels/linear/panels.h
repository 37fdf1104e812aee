// The tiles that the fast linear kernels are made of, per instruction set; for this folder alone.
// A panel is `panel_rows` rows of W side by side in the lanes of two vectors.
#pragma once

#include <cstdint>

#include "numerics/element.h"

namespace quaver::kernels {

enum class PlainElement { kF32, kF16, kBF16 };

// y[m, rows of the panel] from x[m, k].
struct PlainPanel {
  const float* x;
  int64_t x_stride;
  // f32, f16: [k, panel_rows]. bf16: [k, panel_rows / 2] pairs, row j in the low and row j + panel_rows / 2
  // in the high half, so that one shift and one mask widen a whole register.
  const void* weight;
  PlainElement element;
  int64_t k;
  float* y;  // of the panel's first row
  int64_t y_stride;
  const float* bias;  // of the panel's first row, or null
  int64_t m;
  int64_t valid;  // rows of the panel that exist; the last panel may be short
};

// The scales of a panel's blocks, or their minima. The first level lies with the codes of its block, coded as
// in the checkpoint.
struct PanelScales {
  ScaleCodec codec = ScaleCodec::kF32;
  int64_t bytes = 0;                  // of one entry of the first level; 0: there are none
  const float* super = nullptr;       // second level [columns, panel_rows], or null
  const int32_t* super_of = nullptr;  // [blocks] column of each
  bool divides = false;               // by the second level, rather than multiplying
};

// W in blocks of at most 128 input channels that share a scale, each padded to a multiple of 8 channels. A
// panel is one line in memory, read once from front to back: per block the scales [panel_rows], the minima
// [panel_rows] where there are some, then the codes. Codes per 8 channels:
// 2 bits: lane = row of both vectors, byte i = channel i and 4 + i of the first vector's row, then of the
//   second's, low bits first.
// 4 bits: for each vector of rows, lane = row, byte i = channel i (low) and channel 4 + i (high).
// 8 bits: both vectors of rows with channels 0-3, lane = row, byte = channel; then both with channels 4-7.
// 8 bits that are to stand in halves: per pair of channels [panel_rows], each row's two codes side by side.
struct CodePanel {
  int bits;
  const uint8_t* weight;
  PanelScales scales, mins;
  const uint8_t* zeros;  // [blocks, panel_rows], or null: `zero` for all
  int32_t zero;
  // Floats of 4 bits: the number that each code is, [16]. Of 8: see code_form.h.
  const float* values;
  int half_shift;
  float factor;
  const int32_t* block_steps;  // [blocks] eighths of their padded lengths
  int64_t blocks;
  // Activations: 8-bit with one scale and the sum of its codes per block and row, or exact floats.
  const int8_t* x8;       // [m, padded_k]
  const float* x_scales;  // [m, blocks]
  const int32_t* x_sums;  // [m, blocks]
  const float* x;         // [m, padded_k]
  int64_t padded_k;
  float* y;  // of the panel's first row
  int64_t y_stride;
  const float* bias;  // of the panel's first row, or null
  int64_t m;
  int64_t valid;
};

// One block of one row of activations to 8 bits: scale = max|x| / 127, codes rounded to nearest even. A block
// whose maximum is below 2^-100 becomes zero; one with a NaN or an infinity gets the scale NaN. Returns the
// codes' sum.
struct QuantizedBlock {
  float scale;
  int32_t sum;
};

void plain_panel_avx2(const PlainPanel& panel);
void plain_panel_avx512(const PlainPanel& panel);

void integer_panel_a8_avx2(const CodePanel& panel);
void integer_panel_a8_avx512(const CodePanel& panel);
void integer_panel_a8_vnni(const CodePanel& panel);
void integer_panel_a32_avx2(const CodePanel& panel);
void integer_panel_a32_avx512(const CodePanel& panel);
void float_panel_a32_avx2(const CodePanel& panel);
void float_panel_a32_avx512(const CodePanel& panel);

QuantizedBlock quantize_block_avx2(const float* x, int64_t n, int8_t* codes);
QuantizedBlock quantize_block_avx512(const float* x, int64_t n, int8_t* codes);

}  // namespace quaver::kernels
