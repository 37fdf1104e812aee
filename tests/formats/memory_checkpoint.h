// A checkpoint that lies in memory: for cases that no tool would write.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace quaver {

class MemoryCheckpoint : public Checkpoint {
 public:
  explicit MemoryCheckpoint(json config) : config_(std::move(config)) {}

  template <class T>
  MemoryCheckpoint& add(const std::string& name, DType dtype, std::vector<int64_t> shape,
                        const std::vector<T>& values) {
    return add(name, {dtype, std::move(shape), Buffer::copy_of(values)});
  }
  // Takes the place of one of that name.
  MemoryCheckpoint& add(const std::string& name, TensorView view) {
    remove(name);
    tensors_.push_back({name, view.dtype, view.shape, view.data.size_bytes()});
    std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    views_[name] = std::move(view);
    return *this;
  }
  MemoryCheckpoint& remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TensorInfo& info) { return info.name == name; });
    views_.erase(name);
    return *this;
  }
  MemoryCheckpoint& add_sidecar(const std::string& name, json value) {
    sidecars_[name] = std::move(value);
    return *this;
  }
  MemoryCheckpoint& add_metadata(const std::string& key, std::string text) {
    metadata_[key] = std::move(text);
    return *this;
  }
  MemoryCheckpoint& at_path(std::filesystem::path path) {
    path_ = std::move(path);
    return *this;
  }

  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view name) const override {
    const auto it = sidecars_.find(std::string(name));
    return it == sidecars_.end() ? json() : it->second;
  }
  std::string metadata(std::string_view key) const override {
    const auto it = metadata_.find(std::string(key));
    return it == metadata_.end() ? "" : it->second;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  TensorView read(std::string_view name) const override { return views_.at(std::string(name)); }
  std::string file_of(std::string_view) const override { return "memory/model.safetensors"; }

 private:
  std::filesystem::path path_ = "memory";
  json config_;
  std::map<std::string, json> sidecars_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, TensorView> views_;
};

}  // namespace quaver
