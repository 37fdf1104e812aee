// A tiny deterministic language model and tokenizer for engine tests.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/llm/causal_lm.h"
#include "text/tokenizer.h"

namespace quaver::llm::testing {

inline constexpr int32_t kFakeVocab = 96;
inline constexpr int32_t kFakeEnd = 0;       // the end-of-sequence token
inline constexpr int32_t kPoison = 95;       // its embedding is NaN
inline constexpr int32_t kMaxOrdinary = 94;  // the largest token without a special meaning

// Called at the beginning of each forward pass with the token ids of the batch; may throw or sleep.
using ForwardHook = std::function<void(std::span<const int64_t>)>;

// Attention over random embeddings, two layers, computed row by row so that batching can't change a bit. What
// comes next depends on everything before. kFakeEnd is rarely likely.
std::shared_ptr<models::CausalLm> make_fake_model(ForwardHook hook = {});

// Token i is one ASCII character or a few; 1 ... 4 are the bytes of U+1F600; kFakeEnd is special, "<end>".
std::shared_ptr<const Tokenizer> make_fake_tokenizer();

}  // namespace quaver::llm::testing
