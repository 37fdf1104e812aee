// A checkpoint without files: tensors and a config that tests can change.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "nn/tensor_bridge.h"

namespace quaver::nn {

// Tensors and a config without files.
class MemoryCheckpoint : public Checkpoint {
 public:
  explicit MemoryCheckpoint(json config = json::object()) : config_(std::move(config)) {}
  void add(const std::string& name, const at::Tensor& tensor) {
    views_[name] = view_of(tensor);
    list();
  }
  void remove(const std::string& name) {
    views_.erase(name);
    list();
  }
  json& edit_config() { return config_; }

  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  TensorView read(std::string_view name) const override { return views_.find(name)->second; }
  std::string file_of(std::string_view) const override { return "memory/model.safetensors"; }

 private:
  void list() {
    infos_.clear();
    for (const auto& [name, view] : views_)
      infos_.push_back({name, view.dtype, view.shape, view.data.size_bytes()});
  }
  std::filesystem::path path_ = "memory";
  json config_;
  std::map<std::string, TensorView, std::less<>> views_;
  std::vector<TensorInfo> infos_;
};

}  // namespace quaver::nn
