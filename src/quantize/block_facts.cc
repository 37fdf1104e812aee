#include "quantize/block_facts.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "numerics/e4m3fn.h"

namespace quaver::quantize {
namespace {

constexpr int64_t kLeastExpertTokens = 64;  // of a batch

// "mlp.experts.3.up_proj" -> "mlp.experts..up_proj"
std::string without_numbers(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

void raise_to(float& largest, const at::Tensor& values) {
  largest = std::max(largest, values.abs().max().item<float>());
}

void add_input(InputFacts& seen, const at::Tensor& x, bool is_shown) {
  at::Tensor rows = x.detach().to(at::kFloat).reshape({-1, x.size(-1)});
  if (rows.size(0) == 0) return;
  if (!is_shown) raise_to(seen.largest, rows);
  at::Tensor squares = rows.square().sum(0);
  seen.squares = seen.squares.defined() ? seen.squares + squares : squares;
}

void share_largest(std::map<std::string, InputFacts>& inputs) {
  std::map<std::string, float> largest;
  for (const auto& [name, seen] : inputs)
    largest[without_numbers(name)] = std::max(largest[without_numbers(name)], seen.largest);
  for (auto& [name, seen] : inputs) seen.largest = largest.at(without_numbers(name));
}

}  // namespace

BlockFacts observe_facts(models::DecoderBlock& block, const Activations& in, Activations* out,
                         int64_t batch_size) {
  BlockFacts facts;
  nn::ExpertCalibration experts{.least_tokens = kLeastExpertTokens};
  for (auto& linear : block.linears())
    linear.linear->set_input_observer([&experts, &seen = facts.inputs[linear.name]](const at::Tensor& x) {
      add_input(seen, x, experts.showing);
    });
  const auto observe_kv = [&](const at::Tensor& keys, const at::Tensor& values) {
    raise_to(facts.largest_kv.k, keys);
    raise_to(facts.largest_kv.v, values);
  };
  observe_block(block, in, out, batch_size, observe_kv, &experts);
  for (auto& linear : block.linears()) {
    linear.linear->set_input_observer(nullptr);
    if (linear.expert >= 0)
      facts.inputs[linear.name].chosen = experts.routed.at(static_cast<size_t>(linear.expert)) > 0;
  }
  share_largest(facts.inputs);
  return facts;
}

KvPair cache_scales(const KvPair& largest) {
  const auto scale = [](float magnitude) { return magnitude > 0 ? magnitude / kE4M3FNMax : 1.0f; };
  return {scale(largest.k), scale(largest.v)};
}

}  // namespace quaver::quantize
