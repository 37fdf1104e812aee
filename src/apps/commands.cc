#include "apps/commands.h"

#include <ATen/Context.h>
#include <torch/version.h>

#include <array>

#include "base/cpu_features.h"

namespace quaver::apps {
namespace {

const std::array kCommands = {
    Command{"pull", "download a model from the hub into the cache", add_pull},
    Command{"quantize", "quantize a model and write a folder that can be served", add_quantize},
    Command{"serve", "serve a model over HTTP (OpenAI API)", add_serve},
    Command{"chat", "talk to a model in this terminal", add_chat},
    Command{"generate", "complete one prompt, or draw it", add_generate},
    Command{"inspect", "show a model's layers, formats, sizes and kernels", add_inspect},
    Command{"convert", "write a model as plain bf16 or fp32, or in another format", add_convert},
    Command{"eval", "perplexity, and KL divergence to a reference model", add_eval},
    Command{"compare", "pictures and latents of two models, from the same noise", add_compare},
    Command{"bench", "measure tokens per second of reading and writing", add_bench},
    Command{"completion", "print a completion script for bash, zsh or fish", add_completion},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

std::string version_text() {
  return cat("quaver ", QUAVER_VERSION, "\nlibtorch ", TORCH_VERSION, at::hasCUDA() ? ", CUDA" : ", CPU only",
             "\nprocessor: ", to_string(cpu_features()));
}

}  // namespace quaver::apps
