// The table of decoder families: one row each.
#include "models/llm/families.h"

#include <array>

#include "models/llm/split_experts.h"

namespace quaver::models {

std::span<const CausalLmFamily> causal_lm_families() {
  static constexpr std::array kFamilies = {
      CausalLmFamily{"llama", "LlamaForCausalLM", make_llama},
      CausalLmFamily{"qwen2", "Qwen2ForCausalLM", make_qwen2},
      CausalLmFamily{"qwen3", "Qwen3ForCausalLM", make_qwen3},
      CausalLmFamily{"qwen3_moe", "Qwen3MoeForCausalLM", make_qwen3_moe},
      CausalLmFamily{"gpt_oss", "GptOssForCausalLM", make_gpt_oss, split_interleaved_experts},
      CausalLmFamily{"gemma3_text", "Gemma3ForCausalLM", make_gemma3_text},
      CausalLmFamily{"gemma3", "Gemma3ForConditionalGeneration", make_gemma3},
      CausalLmFamily{"deepseek_v2", "DeepseekV2ForCausalLM", make_deepseek_v2},
      CausalLmFamily{"deepseek_v3", "DeepseekV3ForCausalLM", make_deepseek_v3},
  };
  return kFamilies;
}

}  // namespace quaver::models
