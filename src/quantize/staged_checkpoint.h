// The finished blocks of a running job, seen as a checkpoint, so that they load by the same code as a final
// folder.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/staged_tensors.h"

namespace quaver::quantize {

// Borrows the staged tensors, which must not change while this lives.
class StagedCheckpoint : public Checkpoint {
 public:
  StagedCheckpoint(const StagedTensors& staged, json config, std::filesystem::path path)
      : staged_(staged), config_(std::move(config)), path_(std::move(path)), tensors_(staged.tensors()) {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  }

  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  TensorView read(std::string_view name) const override { return staged_.read(name); }
  std::string file_of(std::string_view) const override { return path_.string(); }

 private:
  const StagedTensors& staged_;
  json config_;
  std::filesystem::path path_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace quaver::quantize
