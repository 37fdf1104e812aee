// A pipeline's folder in the diffusers layout: model_index.json, and a folder for each of its components.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

// Immutable and thread safe.
class DiffusersFolder {
 public:
  // True when the folder holds a model_index.json.
  static bool is(const std::filesystem::path& folder);
  // Error(kNotFound) without that file, Error(kBadFile) when it is no object or names no "_class_name".
  static DiffusersFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::string class_name() const;  // "FluxPipeline"
  const json& index() const { return index_; }
  // True when the index names it, not as null: ["diffusers", "AutoencoderKL"].
  bool has(std::string_view component) const;
  // Its class as the index has it; empty when it has none.
  std::string component_class(std::string_view component) const;
  // Error(kNotFound) naming the component when the index or the disk does not have it.
  std::filesystem::path component_path(std::string_view component) const;
  // One of its JSON files; null when absent.
  json component_file(std::string_view component, std::string_view file_name) const;
  // A file (tensor_file.h) in place of a component's weights; the component's config.json still describes it.
  // Error(kNotFound) without the file or the component.
  void use_file(std::string_view component, const std::filesystem::path& file);

  // Its weights and config; of a component that holds no other weights, those of the one .gguf file in it.
  // `model_index.json` or a quantization_config.json beside it may speak for the
  // transformers: a "transformer*" component without settings of its own takes those.
  std::unique_ptr<Checkpoint> component(std::string_view component) const;
  // Names of components that the index has, sorted.
  std::vector<std::string> components() const;

 private:
  json root_quantization() const;

  std::filesystem::path file_of(std::string_view component) const;

  std::filesystem::path path_;
  json index_;
  std::map<std::string, std::filesystem::path, std::less<>>
      files_;  // by the component whose weights they are
};

}  // namespace quaver
