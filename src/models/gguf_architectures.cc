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

const GgufArchitecture& gguf_architecture(const json& config, std::string_view what) {
  const bool is_tower = config.contains("text_config") && config.at("text_config").is_object();
  const std::string outer = json_value<std::string>(config, "model_type", "", what);
  const std::string type =
      is_tower ? json_value<std::string>(config.at("text_config"), "model_type", outer + "_text", what)
               : outer;
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) {
    if (type == row.model_type) return row;
    known += cat(known.empty() ? "" : ", ", row.model_type);
  }
  fail(ErrorKind::kUnsupported, what, ": a model of type '", type, "' can't be written as a GGUF; those of ",
       known, " can");
}

}  // namespace quaver::models
