// What a prompt becomes before the first step: the rows that the transformer reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/named_linear.h"

namespace quaver::diffusion {

// A component's layers, by checkpoint name.
struct ComponentLinears {
  std::string component;  // "text_encoder", "transformer"
  std::vector<models::NamedLinear> linears;
};

struct PromptRows {
  at::Tensor text;                 // [1, tokens, text_width]
  at::Tensor pooled;               // [1, pooled_width]; undefined where the family has none
  int64_t tokens = 0;              // of the prompt itself, without padding
  std::vector<std::string> notes;  // what was cut off, a sentence each
};

// Const and thread safe.
class PromptEncoder {
 public:
  virtual ~PromptEncoder() = default;
  // Error(kNonFinite) naming the component whose output is not finite.
  virtual PromptRows encode(std::string_view prompt, int64_t max_tokens) const = 0;
  // The encoders' layers: for adapters, and not while encode runs.
  virtual std::vector<ComponentLinears> linears() = 0;
};

// Error(kNonFinite) "<component> gave values that are not finite <where>" unless all are.
void check_finite(const at::Tensor& x, std::string_view component, std::string_view where);

}  // namespace quaver::diffusion
