// The named mixes of GGUF types ("Q4_K_M"): which stored tensor gets which type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/dtype.h"

namespace quaver::models {

struct GgufMix {
  std::string_view name;   // "Q4_K_M"
  uint32_t file_type;      // of general.file_type
  DType base;              // of most matrices
  bool more_bits = false;  // some matrices of some layers get Q6_K
};

// By name, in any case; null when unknown.
const GgufMix* find_gguf_mix(std::string_view name);
// "Q4_0, Q4_1, ..."
std::string gguf_mix_names();

// Whether files store it in fewer bits than float32: a matrix, and no router.
bool is_gguf_matrix(std::string_view stored_name, const std::vector<int64_t>& shape);

struct GgufModelFacts {
  int64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  bool has_output = true;  // a head of its own, not the embedding
};

struct GgufTypeChoice {
  DType type;
  DType wanted;  // differs from `type` where rows don't fill that one's blocks
};

// llama.cpp's choices without an importance matrix: the head one of 6 bits or more, values and downward
// projections of every third layer and of the first and last eighth Q6_K, vectors and routers F32. Where rows
// don't fill blocks of 256, Q5_0, Q5_1 and Q8_0 stand for Q4_K, Q5_K and Q6_K; where not even those of 32,
// F16. `shape` is row-major.
GgufTypeChoice choose_gguf_type(const GgufMix& mix, const GgufModelFacts& model, std::string_view stored_name,
                                const std::vector<int64_t>& shape);

}  // namespace quaver::models
