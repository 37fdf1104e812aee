// The tiny models of tests/golden/models, opened with their expected outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "models/llm/causal_lm.h"
#include "nn/memory_checkpoint.h"

namespace quaver::models {

// Checkpoints of the vendors' tools, a folder each.
inline const std::string kFixtureRoot = std::string(QUAVER_TEST_DATA) + "/fixtures/checkpoints/";

// Every folder of tests/golden/models.
std::vector<std::string> golden_names();

struct Golden {
  std::unique_ptr<Checkpoint> checkpoint;
  at::Tensor ids;          // int64 [tokens]
  at::Tensor logits;       // float32 [tokens, vocab], from float32 arithmetic
  at::Tensor logits_bf16;  // the same from bfloat16 arithmetic
  at::Tensor hidden;       // float32 [layers + 1, tokens, hidden]
};
Golden open_golden(const std::string& name);

// A golden model whose config and tensors can be changed.
void copy_golden(const std::string& name, nn::MemoryCheckpoint& copy);
void copy_checkpoint(const Checkpoint& checkpoint, nn::MemoryCheckpoint& copy);

std::unique_ptr<CausalLm> load(const Checkpoint& checkpoint, const nn::LoadOptions& options = {});
// What loading it says; a failure of the test when it loads or fails otherwise.
std::string load_error(const Checkpoint& checkpoint, ErrorKind kind, const nn::LoadOptions& options = {});

// One tensor of a safetensors file, copied.
at::Tensor read_tensor(const std::string& path, const std::string& name);

// Logits of one sequence from position 0.
at::Tensor run_logits(const CausalLm& model, const at::Tensor& ids);

// |got - want| <= depth * sqrt(width) * epsilon * (rms(want) + |want|): each of `depth` sums of `width`
// products in series rounds relative to the size of its result. Returns the largest ratio of error to bound;
// at most 1 passes.
double error_ratio(const at::Tensor& got, const at::Tensor& want, double epsilon, double depth, double width);

constexpr double kEpsilonF32 = 0x1p-24, kEpsilonBf16 = 0x1p-9;

}  // namespace quaver::models
