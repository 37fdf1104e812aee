#include "quantize/scheme_mix.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "base/error.h"
#include "quantize/bit_allocation.h"

namespace quaver::quantize {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Where a name holds a second number, behind the block's, the list that it counts in: the experts of a block.
std::string list_of(const std::string& name) {
  int numbers = 0;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    if (is_number(std::string_view(name).substr(at, end - at)) && ++numbers == 2) return name.substr(0, at);
    at = end + 1;
  }
  return "";
}

// Layers with equal keys get one scheme.
std::string part_key(const LayerShape& layer) {
  if (std::string list = list_of(layer.name); !list.empty()) return list;
  return layer.fused.empty() ? layer.name : layer.fused;
}

double weights_of(const LayerShape& layer) {
  return static_cast<double>(layer.out) * static_cast<double>(layer.in);
}

size_t widest(std::span<const Scheme> options, const LayerShape& layer) {
  size_t best = 0;
  for (size_t i = 1; i < options.size(); ++i)
    if (bits_of(options[i], layer) > bits_of(options[best], layer)) best = i;
  return best;
}

class Mixer {
 public:
  Mixer(std::span<const LayerShape> layers, std::vector<LayerDecision> decisions,
        std::span<const Scheme> options, const std::map<std::string, std::vector<double>>& losses)
      : layers_(layers), decisions_(std::move(decisions)), options_(options), losses_(losses) {
    for (size_t i = 0; i < layers_.size(); ++i) add(i);
  }

  MixedBits mix(double mean_bits) {
    const double budget = mean_bits * weights_ - fixed_bits_;
    std::vector<std::vector<BitOption>> parts;
    double least = 0;
    for (const auto& [key, members] : parts_) {
      parts.push_back(totals(members));
      least += std::ranges::min_element(parts.back(), {}, &BitOption::bits)->bits;
    }
    require(least <= budget, ErrorKind::kInvalidInput, "--avg_bits ", mean_bits,
            " can't be had: the smallest options take ", (least + fixed_bits_) / std::max(1.0, weights_),
            " bits for each weight, scales included");
    const std::vector<size_t> chosen = allocate_bits(parts, budget);
    MixedBits result;
    double bits = fixed_bits_;
    size_t part = 0;
    for (const auto& [key, members] : parts_) {
      const BitOption& option = parts[part][chosen[part]];
      bits += option.bits, result.loss += option.loss;
      for (size_t i : members) decide(i, chosen[part]);
      ++part;
    }
    result.bits = bits / std::max(1.0, weights_);
    result.summary = summary(result);
    result.decisions = std::move(decisions_);
    return result;
  }

 private:
  void add(size_t i) {
    LayerDecision& decision = decisions_[i];
    if (decision.scheme.bits == 16) return;
    weights_ += weights_of(layers_[i]);
    if (decision.reason.empty() && losses_.contains(decision.name)) {
      parts_[part_key(layers_[i])].push_back(i);
      return;
    }
    if (decision.reason.empty())
      decision.scheme = options_[widest(options_, layers_[i])],
      decision.reason = "the option with the most bits, without a measurement";
    fixed_bits_ += bits_of(decision.scheme, layers_[i]);
  }

  std::vector<BitOption> totals(const std::vector<size_t>& members) const {
    std::vector<BitOption> all(options_.size());
    for (size_t i : members)
      for (size_t option = 0; option < options_.size(); ++option) {
        all[option].bits += bits_of(options_[option], layers_[i]);
        all[option].loss += losses_.at(layers_[i].name).at(option);
      }
    return all;
  }

  void decide(size_t i, size_t option) {
    char loss[32];
    std::snprintf(loss, sizeof loss, "%.2e", losses_.at(layers_[i].name).at(option));
    decisions_[i].scheme = options_[option];
    decisions_[i].reason = cat("chosen for the mean of bits; predicted loss ", loss);
  }

  std::string summary(const MixedBits& result) const {
    std::map<std::string, int> counts;
    for (const LayerDecision& decision : decisions_)
      if (decision.scheme.bits != 16) ++counts[to_string(decision.scheme)];
    char start[80];
    std::snprintf(start, sizeof start, "%.3f bits on average, predicted loss %.3g: ", result.bits,
                  result.loss);
    std::string text = start;
    for (const auto& [scheme, count] : counts)
      text += cat(text.back() == ' ' ? "" : ", ", count, " layers ", scheme);
    return text;
  }

  std::span<const LayerShape> layers_;
  std::vector<LayerDecision> decisions_;
  std::span<const Scheme> options_;
  const std::map<std::string, std::vector<double>>& losses_;
  std::map<std::string, std::vector<size_t>> parts_;  // layers that are free, by what ties them together
  double weights_ = 0, fixed_bits_ = 0;               // of quantized layers; of those that are not free
};

}  // namespace

double bits_of(const Scheme& scheme, const LayerShape& layer) {
  if (scheme.bits == 16) return 16 * weights_of(layer);
  const int64_t rows = scheme.group_size == 0 ? layer.out : std::min(scheme.group_rows, layer.out);
  const int64_t cols = scheme.group_size <= 0 ? layer.in : std::min(scheme.group_size, layer.in);
  const bool narrow = scheme.data_type == DataType::kMxFp || scheme.data_type == DataType::kNvFp;
  const int aside = (narrow ? 8 : 16) + (scheme.data_type == DataType::kInt ? scheme.bits : 0);
  const auto groups = static_cast<double>(ceil_div(layer.out, rows) * ceil_div(layer.in, cols));
  return scheme.bits * weights_of(layer) + aside * groups;
}

MixedBits mix_schemes(std::span<const LayerShape> layers, std::vector<LayerDecision> decisions,
                      std::span<const Scheme> options,
                      const std::map<std::string, std::vector<double>>& losses, double mean_bits) {
  return Mixer(layers, std::move(decisions), options, losses).mix(mean_bits);
}

std::vector<Scheme> default_options(const Scheme& base) {
  if (base.data_type == DataType::kMxFp) return {scheme_from_name("MXFP4"), scheme_from_name("MXFP8")};
  require(is_plain_integer(base) && base.bits < 16, ErrorKind::kInvalidInput, "--avg_bits: ", to_string(base),
          " comes in one width; name the schemes to mix by --options");
  std::vector<Scheme> options;
  for (int bits : {2, 4, 8}) {
    options.push_back(base);
    options.back().bits = bits;
  }
  return options;
}

}  // namespace quaver::quantize
