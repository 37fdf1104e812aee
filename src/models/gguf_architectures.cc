#include "models/gguf_architectures.h"

#include <array>
#include <string>

#include "base/error.h"

namespace quaver::models {
namespace {

constexpr std::array kArchitectures = {
    GgufArchitecture{
        .name = "llama", .model_type = "llama", .architecture = "LlamaForCausalLM", .interleaved_rope = true},
    GgufArchitecture{.name = "qwen2", .model_type = "qwen2", .architecture = "Qwen2ForCausalLM"},
    GgufArchitecture{.name = "qwen3", .model_type = "qwen3", .architecture = "Qwen3ForCausalLM"},
    GgufArchitecture{.name = "qwen3moe",
                     .model_type = "qwen3_moe",
                     .architecture = "Qwen3MoeForCausalLM",
                     .experts = true},
    GgufArchitecture{.name = "gemma3",
                     .model_type = "gemma3_text",
                     .architecture = "Gemma3ForCausalLM",
                     .four_norms = true,
                     .norms_plus_one = true},
};

}  // namespace

const GgufArchitecture& gguf_architecture(const GgufFile& file) {
  std::string_view name = file.string("general.architecture");
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.name == name) return row;
    known += cat(known.empty() ? "" : ", ", row.name);
  }
  fail(ErrorKind::kUnsupported, file.path().string(), ": architecture '", name,
       "' is not supported; known are ", known);
}

}  // namespace quaver::models
