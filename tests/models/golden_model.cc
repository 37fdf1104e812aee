#include "models/golden_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/safetensors_file.h"
#include "nn/tensor_bridge.h"

namespace quaver::models {

namespace {
const std::string kGoldenRoot = std::string(QUAVER_TEST_DATA) + "/golden/models/";
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenRoot))
    if (entry.is_directory() && std::filesystem::exists(entry.path() / "config.json"))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

at::Tensor read_tensor(const std::string& path, const std::string& name) {
  return nn::tensor_over(SafetensorsFile::open(path).read(name), path).clone();
}

Golden open_golden(const std::string& name) {
  std::string file = kGoldenRoot + name + ".safetensors";
  return {open_model(kGoldenRoot + name), read_tensor(file, "ids"), read_tensor(file, "logits"),
          read_tensor(file, "logits_bf16"), read_tensor(file, "hidden")};
}

void copy_golden(const std::string& name, nn::MemoryCheckpoint& copy) {
  copy_checkpoint(*open_golden(name).checkpoint, copy);
}

void copy_checkpoint(const Checkpoint& checkpoint, nn::MemoryCheckpoint& copy) {
  copy.edit_config() = checkpoint.config();
  for (const TensorInfo& info : checkpoint.tensors())
    copy.add(info.name, nn::tensor_over(checkpoint.read(info.name), info.name).clone());
}

std::unique_ptr<CausalLm> load(const Checkpoint& checkpoint, const nn::LoadOptions& options) {
  nn::WeightSource source(checkpoint, options);
  return load_causal_lm(source);
}

std::string load_error(const Checkpoint& checkpoint, ErrorKind kind, const nn::LoadOptions& options) {
  try {
    load(checkpoint, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it loaded";
  return {};
}

at::Tensor run_logits(const CausalLm& model, const at::Tensor& ids) {
  nn::DenseAttention attention({ids.size(0)});
  StepContext step{.positions = at::arange(ids.size(0), at::kLong), .attention = &attention};
  return model.logits(model.forward(ids, step));
}

double error_ratio(const at::Tensor& got, const at::Tensor& want, double epsilon, double depth,
                   double width) {
  at::Tensor reference = want.to(at::kDouble);
  double rms = std::sqrt(reference.pow(2).mean().item<double>());
  at::Tensor bound = (reference.abs() + rms) * (depth * std::sqrt(width) * epsilon);
  return ((got.to(at::kDouble) - reference).abs() / bound).max().item<double>();
}

}  // namespace quaver::models
