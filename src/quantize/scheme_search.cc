#include "quantize/scheme_search.h"

#include <algorithm>
#include <map>

#include "quantize/job_recipe.h"
#include "quantize/sensitivity.h"

namespace quaver::quantize {
namespace {

// Options in turn, as any of them may stand beside any other.
void require_sayable(const SchemeSearch& search, std::span<const LayerDecision> decisions,
                     const Format& format) {
  std::map<std::string, LayerDecision> trial;
  size_t next = 0;
  for (LayerDecision decision : decisions) {
    if (decision.scheme.bits < 16 && decision.reason.empty())
      decision.scheme = search.options[next++ % search.options.size()];
    trial.emplace(decision.name, decision);
  }
  for (const Scheme& base : search.options)
    if (base.bits < 16) format.config_json(recipe_of(base, trial, format));
}

// Bits alone decide that.
void require_possible(const SchemeSearch& search, std::span<const LayerShape> layers,
                      std::span<const LayerDecision> decisions, const std::string& blocks) {
  std::map<std::string, std::vector<double>> nothing;
  for (const LayerShape& layer : layers)
    if (layer.name.starts_with(blocks)) nothing[layer.name].resize(search.options.size());
  mix_schemes(layers, {decisions.begin(), decisions.end()}, search.options, nothing, search.mean_bits);
}

}  // namespace

CalibrationOptions search_text(CalibrationOptions options) {
  constexpr int64_t kRows = 16, kTokens = 256;
  options.nsamples = std::min(options.nsamples, kRows);
  options.seqlen = std::min(options.seqlen, kTokens);
  return options;
}

MixedBits search_schemes(const SchemeSearch& search, std::span<const LayerShape> layers,
                         std::vector<LayerDecision> decisions, const Format& format,
                         const models::CausalLm& shell,
                         const std::function<std::unique_ptr<models::DecoderBlock>(int64_t)>& load_block,
                         const at::Tensor& tokens, ProgressSink& progress) {
  require_sayable(search, decisions, format);
  require_possible(search, layers, decisions, shell.info().blocks_prefix + ".");
  const SensitivityProblem problem{.shell = shell,
                                   .load_block = load_block,
                                   .tokens = tokens,
                                   .schemes = search.options,
                                   .rounding = search.rounding,
                                   .seed = search.seed};
  return mix_schemes(layers, std::move(decisions), search.options, measure_sensitivity(problem, progress),
                     search.mean_bits);
}

Scheme most_used_scheme(std::span<const LayerShape> layers, std::span<const LayerDecision> decisions,
                        const Scheme& base) {
  std::map<std::string, std::pair<double, Scheme>> weights;
  for (size_t i = 0; i < layers.size(); ++i)
    if (const Scheme& scheme = decisions[i].scheme; scheme.bits < 16) {
      auto& [count, known] = weights[to_string(scheme)];
      count += static_cast<double>(layers[i].out) * static_cast<double>(layers[i].in);
      known = scheme;
    }
  if (weights.empty()) return base;
  return std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second.first; })
      ->second.second;
}

}  // namespace quaver::quantize
