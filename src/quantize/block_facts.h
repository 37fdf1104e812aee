// What the calibration sees inside a block: the inputs of its layers, the keys and values that it would
// cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "formats/kv_cache.h"
#include "quantize/autoround.h"

namespace quaver::quantize {

struct InputFacts {
  at::Tensor squares;  // [in] float32, summed over tokens; undefined when the layer saw none
  bool chosen = true;  // false: of an expert that no token chose; it saw those that suit it best
  // Magnitude, of tokens that go through the layer without calibration too; of lists of alike layers
  // (experts), which engines run as one, that of all.
  float largest = 0;
};

struct BlockFacts {
  std::map<std::string, InputFacts> inputs;  // by the layer's name in the block
  KvPair largest_kv;                         // magnitudes
};

// Runs the block over all rows; `out` may be the same as `in`, or null.
BlockFacts observe_facts(models::DecoderBlock& block, const Activations& in, Activations* out,
                         int64_t batch_size);

// What e4m3fn codes of such keys and values are multiplied by.
KvPair cache_scales(const KvPair& largest);

}  // namespace quaver::quantize
