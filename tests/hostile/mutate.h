// Damages valid inputs in thousands of repeatable ways and demands of a reader: a result or a quaver::Error,
// soon, and within memory in proportion to the input.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hostile/allocation_guard.h"

namespace quaver::testing {

// The same seed gives the same inputs on every machine: only mt19937_64's raw numbers are used.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // One to four damages to a copy of `original`. `donor` lends bytes for splices; it may be the original.
  std::string mutate(std::string_view original, std::string_view donor) {
    std::string bytes(original);
    for (uint64_t i = 0, n = 1 + below(4); i < n; ++i) damage(bytes, donor);
    return bytes;
  }

  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

 private:
  void damage(std::string& bytes, std::string_view donor) {
    switch (below(10)) {
      case 0:
        return flip_bits(bytes);
      case 1:
        return overwrite_bytes(bytes);
      case 2:
        bytes.resize(below(bytes.size() + 1));
        return;  // cut off
      case 3:
        bytes.append(below(64), static_cast<char>(below(256)));
        return;  // grown
      case 4:
        bytes.erase(position(bytes), 1 + below(32));
        return;  // bytes lost in the middle
      case 5:
        return splice(bytes, bytes);  // a run repeated
      case 6:
        return splice(bytes, donor);  // a run of another file
      case 7:
        return lie_in_binary(bytes);
      default:
        return lie_in_decimal(bytes);
    }
  }

  // Half of all damage lands in the first 512 bytes, where headers and lengths are.
  size_t position(const std::string& bytes) {
    size_t range = below(2) ? bytes.size() : std::min<size_t>(bytes.size(), 512);
    return below(range);
  }

  void flip_bits(std::string& bytes) {
    for (uint64_t i = 0, n = 1 + below(8); i < n && !bytes.empty(); ++i)
      bytes[position(bytes)] ^= static_cast<char>(1u << below(8));
  }

  void overwrite_bytes(std::string& bytes) {
    size_t at = position(bytes);
    for (uint64_t i = 0, n = 1 + below(16); i < n && at + i < bytes.size(); ++i)
      bytes[at + i] = static_cast<char>(below(256));
  }

  void splice(std::string& bytes, std::string_view donor) {
    std::string run(donor.substr(below(donor.size()), 1 + below(200)));
    if (below(2)) {
      bytes.insert(position(bytes), run);
    } else {
      size_t at = position(bytes);
      bytes.replace(at, std::min(run.size(), bytes.size() - at), run);
    }
  }

  uint64_t interesting(size_t size) {
    const std::array<uint64_t, 16> values = {0,
                                             1,
                                             2,
                                             7,
                                             255,
                                             65535,
                                             65536,
                                             (uint64_t{1} << 31) - 1,
                                             uint64_t{1} << 31,
                                             uint64_t{1} << 32,
                                             uint64_t{1} << 58,
                                             uint64_t{1} << 61,
                                             uint64_t{1} << 63,
                                             ~uint64_t{0},
                                             size,
                                             size + 1};
    uint64_t value = values[below(values.size())];
    return below(3) ? value : value + below(17) - 8;
  }

  // A little-endian length, count or offset that lies.
  void lie_in_binary(std::string& bytes) {
    size_t width = size_t{1} << below(4), at = position(bytes);
    uint64_t value = interesting(bytes.size());
    for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
      bytes[at + i] = static_cast<char>(value >> (8 * i));
  }

  // A run of digits replaced by another number.
  void lie_in_decimal(std::string& bytes) {
    size_t begin = bytes.find_first_of("0123456789", position(bytes));
    if (begin == std::string::npos) return lie_in_binary(bytes);
    size_t end = bytes.find_first_not_of("0123456789", begin);
    bytes.replace(begin, (end == std::string::npos ? bytes.size() : end) - begin,
                  std::to_string(interesting(bytes.size())));
  }

  std::mt19937_64 random_;
};

struct MutationRun {
  std::vector<std::string> originals;  // valid inputs; each must be accepted
  int count = 1000;
  uint64_t seed = 1;
  // Memory that one input may cost: fixed plus a multiple of its length.
  size_t fixed_bytes = size_t{1} << 20;
  size_t bytes_per_byte = 32;
  std::chrono::milliseconds time_limit{2000};
};

// Returns how many inputs were accepted. `reader` gets exactly the input's bytes on the heap, so that a
// sanitizer sees the first one past the end; any exception but quaver::Error fails the test, and so does a
// message that is empty, has more than one line or is longer than 2,000 bytes.
inline int run_mutations(const MutationRun& run,
                         const std::function<void(std::span<const std::byte>)>& reader) {
  Mutator mutator(run.seed);
  int accepted = 0;
  auto try_one = [&](const std::string& input) {
    std::vector<std::byte> exact(input.size());
    std::copy_n(reinterpret_cast<const std::byte*>(input.data()), input.size(), exact.begin());
    reset_peak_allocated_bytes();
    auto start = std::chrono::steady_clock::now();
    try {
      reader(exact);
      ++accepted;
    } catch (const Error& e) {
      std::string message = e.what();
      EXPECT_TRUE(!message.empty() && message.size() < 2000 && message.find('\n') == std::string::npos)
          << message;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, run.time_limit);
    EXPECT_LE(peak_allocated_bytes(), run.fixed_bytes + run.bytes_per_byte * input.size());
  };
  for (const std::string& original : run.originals) try_one(original);
  EXPECT_EQ(accepted, static_cast<int>(run.originals.size())) << "an undamaged input was refused";
  for (int i = 0; i < run.count && !::testing::Test::HasFailure(); ++i) {
    const std::string& original = run.originals[mutator.below(run.originals.size())];
    const std::string& donor = run.originals[mutator.below(run.originals.size())];
    std::string input = mutator.mutate(original, donor);
    SCOPED_TRACE("input " + std::to_string(i) + " of seed " + std::to_string(run.seed));
    try_one(input);
  }
  return accepted;
}

}  // namespace quaver::testing
