// Rotary position embedding, rotate-half pairing: frequencies with their scalings, tables, application.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace quaver::nn {

// How frequencies are stretched for contexts longer than those of pre-training.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3, kYarn } kind = Kind::kNone;
  double factor = 1;
  double original_max_positions = 0;                 // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 1;                       // yarn: multiplies cos and sin
  bool truncate = true;                              // yarn: whole correction bounds
};

struct RopeSpec {
  int64_t dim = 0;  // even; dimensions of a head that turn, from the front
  double theta = 10000;
  RopeScaling scaling;
};

// Per token: cos and sin of each pair's angle. Angles are computed in float32 and rounded to `dtype` last.
struct RopeAngles {
  at::Tensor cos, sin;  // [tokens, dim / 2]
};

// Immutable and thread safe.
class RopeTable {
 public:
  RopeTable(const RopeSpec& spec, at::Device device);
  RopeAngles angles(const at::Tensor& positions, at::ScalarType dtype) const;  // int64 [tokens]
  const at::Tensor& inverse_frequencies() const { return inverse_frequencies_; }

 private:
  at::Tensor inverse_frequencies_;  // float32 [dim / 2]
  double attention_factor_;
};

// The angles of one forward pass, worked out once per table. Not thread safe; positions must not change
// meanwhile.
class RopeCache {
 public:
  const RopeAngles& angles(const RopeTable& table, const at::Tensor& positions, at::ScalarType dtype);

 private:
  std::vector<std::pair<const RopeTable*, RopeAngles>> entries_;
};

// Turns pairs (j, j + dim / 2) of every head; dimensions past `dim` pass through.
at::Tensor apply_rope(const at::Tensor& x,
                      const RopeAngles& angles);  // [tokens, heads, head_dim] -> the same

// Turns pairs (2 j, 2 j + 1) of heads that turn whole, and leaves pair j at (j, j + dim / 2): queries and
// keys that both went through it have the products that they would have in place.
at::Tensor apply_interleaved_rope(const at::Tensor& x,
                                  const RopeAngles& angles);  // [tokens, heads, dim] -> the same

}  // namespace quaver::nn
