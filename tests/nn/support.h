// What the nn tests share: random tensors, random quantized weights, a derived comparison, checkpoints in
// memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "formats/quant_weight.h"

namespace quaver::nn {

// Standard normal float32 values from a fixed seed.
at::Tensor randn(std::vector<int64_t> shape, uint64_t seed);

struct QuantOptions {
  int bits = 4;
  int64_t group = 32;
  bool zeros = false;
  bool permuted = false;
  ScaleCodec codec = ScaleCodec::kF16;
};
QuantWeight random_quant_weight(int64_t out, int64_t in, const QuantOptions& options, uint64_t seed);

// |got - want| <= epsilon * sqrt(width) * 8 * (rms(want) + |want|), everywhere; 8 covers a walk's tail and
// the few operations around a sum of `width` products.
testing::AssertionResult near(const at::Tensor& got, const at::Tensor& want, double width,
                              double epsilon = 0x1p-24);

// The error that `body` throws; kInternal "nothing was thrown" when it doesn't.
template <class Body>
Error thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::kInternal, "nothing was thrown"};
}

// Tensors and a config without files.
class MemoryCheckpoint : public Checkpoint {
 public:
  explicit MemoryCheckpoint(json config = json::object()) : config_(std::move(config)) {}
  void add(const std::string& name, const at::Tensor& tensor);
  void remove(const std::string& name);
  json& edit_config() { return config_; }

  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  TensorView read(std::string_view name) const override { return views_.find(name)->second; }
  std::string file_of(std::string_view) const override { return "memory/model.safetensors"; }

 private:
  void list();
  std::filesystem::path path_ = "memory";
  json config_;
  std::map<std::string, TensorView, std::less<>> views_;
  std::vector<TensorInfo> infos_;
};

}  // namespace quaver::nn
