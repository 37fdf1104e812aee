#include "apps/lora_flags.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"

namespace quaver::apps {
namespace {

// The file's name without its ending; of the names that trainers give every file, the folder's.
std::string name_of_file(const std::string& file) {
  std::filesystem::path path = std::filesystem::absolute(file).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string stem =
      path.extension() == ".safetensors" ? path.stem().string() : path.filename().string();
  return stem == "pytorch_lora_weights" || stem == "adapter_model" ? path.parent_path().filename().string()
                                                                   : stem;
}

bool taken(const std::vector<diffusion::Adapter>& adapters, const std::string& name) {
  return std::ranges::find(adapters, name, &diffusion::Adapter::name) != adapters.end();
}

void add_file(std::vector<diffusion::Adapter>& adapters, const std::string& file, double scale) {
  const std::string name = name_of_file(file);
  std::string own = name;
  for (int number = 2; taken(adapters, own); ++number) own = cat(name, "-", number);
  adapters.push_back({.name = own, .path = file, .scale = scale, .always = true});
}

// What stands behind the last colon, where it is a number and the whole is no file.
std::optional<double> scale_behind(const std::string& given, size_t colon) {
  if (colon == std::string::npos || std::filesystem::exists(given)) return std::nullopt;
  double scale = 0;
  const char* end = given.data() + given.size();
  const auto [rest, error] = std::from_chars(given.data() + colon + 1, end, scale);
  if (error != std::errc() || rest != end) return std::nullopt;
  require(std::isfinite(scale), ErrorKind::kInvalidInput, "--lora ", given,
          ": the scale is no finite number");
  return scale;
}

}  // namespace

CLI::Option* add_lora_flag(CLI::App& app, const std::string& name, std::vector<std::string>& files) {
  return app
      .add_option(both_spellings(name), files,
                  "LoRA file to draw with, FILE or FILE:SCALE; may be given several times")
      ->allow_extra_args(false)
      ->take_all();
}

void add_lora_flags(CLI::App& app, LoraFlags& flags) {
  add_lora_flag(app, "lora", flags.files);
  add_flag(app, "lora-path", flags.path, "LoRA file to draw with, as --lora");
  app.add_option(both_spellings("lora-scale"), flags.scale, "with --lora-path: how strongly; default 1");
}

void add_lora_modules_flag(CLI::App& app, LoraFlags& flags) {
  app.add_option(both_spellings("lora-modules"), flags.modules,
                 "LoRA files that requests pick by name: NAME=FILE ...");
}

std::vector<diffusion::Adapter> adapters_of(const LoraFlags& flags) {
  std::vector<diffusion::Adapter> adapters;
  for (const std::string& given : flags.files) {
    const size_t colon = given.rfind(':');
    const std::optional<double> scale = scale_behind(given, colon);
    add_file(adapters, scale ? given.substr(0, colon) : given, scale.value_or(1));
  }
  require(!flags.scale || !flags.path.empty(), ErrorKind::kInvalidInput, "--lora-scale needs --lora-path");
  if (!flags.path.empty()) add_file(adapters, flags.path, flags.scale.value_or(1));
  for (const std::string& given : flags.modules) {
    const size_t equals = given.find('=');
    require(equals != std::string::npos && equals > 0 && equals + 1 < given.size(), ErrorKind::kInvalidInput,
            "--lora-modules has '", given, "', expected NAME=FILE");
    const std::string name = given.substr(0, equals);
    require(!taken(adapters, name), ErrorKind::kInvalidInput, "--lora-modules: two adapters are called '",
            name, "'");
    adapters.push_back({.name = name, .path = given.substr(equals + 1)});
  }
  return adapters;
}

std::string adapters_text(const std::vector<diffusion::Adapter>& adapters,
                          const std::vector<double>& scales) {
  std::string text;
  for (size_t i = 0; i < scales.size(); ++i)
    if (scales[i] != 0) text += cat(text.empty() ? "" : ", ", adapters[i].name, ":", scales[i]);
  return text;
}

}  // namespace quaver::apps
