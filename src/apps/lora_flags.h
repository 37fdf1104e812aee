// The flags that name LoRA files to load with a model of pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "diffusion/image_facts.h"

namespace quaver::apps {

struct LoraFlags {
  std::vector<std::string> files;    // --lora FILE[:SCALE]
  std::string path;                  // --lora-path FILE
  std::optional<double> scale;       // --lora-scale
  std::vector<std::string> modules;  // --lora-modules NAME=FILE
};

// "FILE" or "FILE:SCALE", several times; these run in every picture.
CLI::Option* add_lora_flag(CLI::App& app, const std::string& name, std::vector<std::string>& files);
// --lora, --lora-path and --lora-scale.
void add_lora_flags(CLI::App& app, LoraFlags& flags);
// --lora-modules: adapters that requests pick by name.
void add_lora_modules_flag(CLI::App& app, LoraFlags& flags);

// A file's adapter is called as the file is. Error(kInvalidInput) naming the flag: scales that are no number,
// names that are taken.
std::vector<diffusion::Adapter> adapters_of(const LoraFlags& flags);

// "style:0.8, form:1"; empty where none runs.
std::string adapters_text(const std::vector<diffusion::Adapter>& adapters, const std::vector<double>& scales);

}  // namespace quaver::apps
