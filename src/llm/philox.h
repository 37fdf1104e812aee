// Random numbers addressed by (seed, position): the same draw whatever else the process has drawn.
#pragma once

#include <array>
#include <cstdint>

namespace quaver::llm {

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53u} * counter[0], b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// In [0, 1), with 53 random bits.
constexpr double uniform_at(uint64_t seed, uint64_t position) {
  auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  auto words = philox4x32({low(position), high(position), 0, 0}, {low(seed), high(seed)});
  uint64_t bits = (uint64_t{words[0]} << 21) | (words[1] >> 11);
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace quaver::llm
