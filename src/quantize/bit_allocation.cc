#include "quantize/bit_allocation.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace quaver::quantize {
namespace {

constexpr size_t kMaxStates = 4096;

// The first parts with one option each.
struct State {
  double bits = 0, loss = 0;
  uint32_t before = 0;  // index among the states of one part fewer
  uint32_t option = 0;  // of the last of these parts
};

double fewest_bits(const std::vector<BitOption>& options) {
  return std::ranges::min_element(options, {}, &BitOption::bits)->bits;
}

// Keeps those that no other beats in bits and loss, in the order of their bits.
void keep_unbeaten(std::vector<State>& states) {
  std::ranges::sort(states, [](const State& a, const State& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.loss < b.loss;
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(states, [&](const State& state) {
    if (state.loss >= least) return true;
    least = state.loss;
    return false;
  });
}

// Of many neighbours the one of least loss, which comes last among them; the smallest of all stays too.
void thin(std::vector<State>& states) {
  if (states.size() <= kMaxStates) return;
  const double first = states.front().bits, width = (states.back().bits - first) / kMaxStates;
  std::vector<State> kept = {states.front()};
  for (size_t i = 1; i < states.size(); ++i) {
    const bool is_last =
        i + 1 == states.size() || static_cast<int64_t>((states[i].bits - first) / width) !=
                                      static_cast<int64_t>((states[i + 1].bits - first) / width);
    if (is_last) kept.push_back(states[i]);
  }
  states = std::move(kept);
}

}  // namespace

std::vector<size_t> allocate_bits(std::span<const std::vector<BitOption>> parts, double budget) {
  double rest = 0;  // what the parts that are not decided need at least
  for (const auto& options : parts) rest += fewest_bits(options);
  std::vector<std::vector<State>> levels = {{State{}}};
  for (const auto& options : parts) {
    rest -= fewest_bits(options);
    std::vector<State> next;
    for (uint32_t before = 0; before < levels.back().size(); ++before)
      for (uint32_t option = 0; option < options.size(); ++option) {
        const State& state = levels.back()[before];
        const double bits = state.bits + options[option].bits;
        // Sums of many parts, taken in another order, differ in their last bits.
        if (bits + rest <= budget * (1 + 1e-12))
          next.push_back({bits, state.loss + options[option].loss, before, option});
      }
    require(!next.empty(), ErrorKind::kInternal, "no choice stays below ", budget, " bits");
    keep_unbeaten(next);
    thin(next);
    levels.push_back(std::move(next));
  }
  std::vector<size_t> chosen(parts.size());
  size_t at = levels.back().size() - 1;  // the most bits, and so the least loss
  for (size_t part = parts.size(); part > 0; --part) {
    chosen[part - 1] = levels[part][at].option;
    at = levels[part][at].before;
  }
  return chosen;
}

}  // namespace quaver::quantize
