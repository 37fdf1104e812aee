// What several tests of this folder say about a format and a checkpoint.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/format.h"
#include "packed_fixture.h"

namespace quaver {

// The message of the Error that `action` throws; empty when it throws none.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline QuantWeight load(const Checkpoint& checkpoint, std::string_view layer, Extent2d shape = {}) {
  const Format* format = detect_format(checkpoint);
  LayerPlan plan = format->plan(checkpoint, layer);
  plan.shape = shape;
  return format->unpack(plan, checkpoint);
}

inline void expect_same_values(const QuantWeight& weight, const PlainLayer& layer) {
  ASSERT_EQ(weight.shape, (Extent2d{layer.out, layer.in}));
  const std::vector<float> values = dequantize(weight);
  for (int64_t n = 0; n < layer.out; ++n)
    for (int64_t k = 0; k < layer.in; ++k)
      ASSERT_EQ(values[static_cast<size_t>(n * layer.in + k)], layer.value(n, k))
          << "row " << n << " column " << k;
}

inline void expect_same_tensors(const std::vector<NamedTensor>& packed, const Checkpoint& checkpoint) {
  for (const NamedTensor& named : packed) {
    const TensorInfo* info = checkpoint.find(named.name);
    ASSERT_NE(info, nullptr) << named.name;
    EXPECT_EQ(info->dtype, named.tensor.dtype) << named.name;
    EXPECT_EQ(info->shape, named.tensor.shape) << named.name;
    const Buffer stored = checkpoint.read(named.name).data;
    EXPECT_TRUE(std::ranges::equal(stored.bytes(), named.tensor.data.bytes())) << named.name;
  }
}

}  // namespace quaver
