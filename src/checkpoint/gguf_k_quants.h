// The blocks of 256 elements whose groups share a second level of scales (Q4_K, Q5_K, Q6_K): how values
// become such a block.
#pragma once

#include <cstddef>

namespace quaver {

// From 256 finite values of at most 65504 in magnitude; byte layouts as gguf_block.cc reads them. The
// searches and their float32 arithmetic follow the published reference (ggml), so that bytes equal its own.
void encode_q4_k(const float* in, std::byte* out);  // 144 bytes
void encode_q5_k(const float* in, std::byte* out);  // 176 bytes
void encode_q6_k(const float* in, std::byte* out);  // 210 bytes

}  // namespace quaver
