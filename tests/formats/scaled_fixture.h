// Small layers of codes and scales in memory, and settings that are meant for them.
#pragma once

#include <string>
#include <vector>

#include "format_checks.h"
#include "memory_checkpoint.h"

namespace quaver {

inline json fp8_config(json more = json::object()) {
  json value = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  value.update(more);
  return {{"quantization_config", value}};
}

// One group with these "weights" and "input_activations".
inline json compressed_config(json weights, json activations = nullptr, json more = json::object()) {
  json value = {
      {"quant_method", "compressed-tensors"},
      {"config_groups",
       {{"group_0",
         {{"targets", {"Linear"}}, {"weights", std::move(weights)}, {"input_activations", activations}}}}}};
  value.update(more);
  return {{"quantization_config", value}};
}

// Bytes 0, 1, 2 ... below `limit`, again and again.
inline std::vector<uint8_t> counted_bytes(int64_t count, int limit = 0x7e) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % static_cast<size_t>(limit));
  return bytes;
}

// "layer.weight" of 8-bit floats [out, in].
inline void add_float8(MemoryCheckpoint& checkpoint, int64_t out, int64_t in, DType type = DType::kF8E4M3) {
  checkpoint.add("layer.weight", type, {out, in},
                 counted_bytes(out * in, type == DType::kF8E5M2 ? 0x7b : 0x7e));
}

inline void add_floats(MemoryCheckpoint& checkpoint, const std::string& name, std::vector<int64_t> shape,
                       float first = 0.5f, float step = 0.25f) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<float>(i));
  checkpoint.add(name, DType::kF32, std::move(shape), values);
}

inline std::string load_error(const MemoryCheckpoint& checkpoint, Extent2d shape = {}) {
  return error_of([&] { load(checkpoint, "layer", shape); });
}

}  // namespace quaver
