// The constructors that the family table lists; each family's file defines its own.
#pragma once

#include <memory>

#include "models/llm/causal_lm.h"

namespace quaver::models {

std::unique_ptr<CausalLm> make_llama(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_qwen2(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_qwen3(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_qwen3_moe(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_gpt_oss(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_gemma3_text(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_gemma3(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_deepseek_v2(nn::WeightSource& source);
std::unique_ptr<CausalLm> make_deepseek_v3(nn::WeightSource& source);

}  // namespace quaver::models
