// What a component's weights will take in memory, told from the headers of its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "nn/weight_source.h"

namespace quaver::pipeline {

// A linear layer of a model that was built from shapes alone.
struct PlannedLayer {
  std::string name;
  Extent2d shape, whole;  // [out, in] of what this rank holds, and of the layer
  int64_t block = -1;     // -1: outside of all blocks
  bool modulation = false;
};

// In bytes.
struct ResidentWeights {
  int64_t blocks = 0;         // of layers inside blocks
  int64_t largest_block = 0;  // the block that has most of them
  int64_t rest = 0;           // everything else but tables
  int64_t tables = 0;         // of rows, which stay on the host under `offload`
  int64_t mapped = 0;         // what stays in the files, on the CPU
  int64_t expanded = 0;       // the largest layer whose codes are expanded for each product
  int64_t roundable = 0;      // of these: plain layers that --quantization would round,
  int64_t as_int4 = 0;        // and what they would take in 4 bits with a scale of 16 bits for 128 weights

  int64_t total() const { return blocks + rest + tables; }
};

// Plain tensors have the sizes that nn::WeightSource gives them. A quantized layer's size depends on the
// kernel that takes it; so of each kind (or where the options round, of each place in a block) one layer is
// loaded and let go, and the others are in proportion. Layers that `layers` does not list are counted as they
// are stored.
ResidentWeights resident_weights(const Checkpoint& checkpoint, const nn::LoadOptions& options,
                                 const std::vector<PlannedLayer>& layers);

}  // namespace quaver::pipeline
