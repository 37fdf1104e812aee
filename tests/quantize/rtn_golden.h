// Layers that AutoRound rounded and packed, by case name, and what they were made from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "formats/format.h"
#include "numerics/half.h"
#include "quantize/rounding.h"

namespace quaver::quantize {

struct RtnCase {
  std::string name;  // "opt-w4-g128-sym-full"
  RoundingProblem problem;
  std::string importance;  // "full"; "flat" and empty: none
};

class RtnGolden {
 public:
  RtnGolden() : file_(SafetensorsFile::open(QUAVER_TEST_DATA "/golden/quantize/rtn.safetensors")) {}

  std::vector<float> floats(const std::string& name) const {
    const TensorView view = file_.read(name);
    std::vector<float> values;
    if (view.dtype == DType::kBF16)
      for (const uint16_t bits : view.data.as<uint16_t>()) values.push_back(bf16_to_float(bits));
    else
      for (const float value : view.data.as<float>()) values.push_back(value);
    return values;
  }

  // Of one method, "rtn" or "opt".
  std::vector<RtnCase> cases(const std::string& method) const {
    std::vector<RtnCase> found;
    for (const auto& entry : file_.entries()) {
      const size_t dot = entry.info.name.find(".qweight");
      if (dot == std::string::npos || !entry.info.name.starts_with(method)) continue;
      found.push_back(parse(entry.info.name.substr(0, dot)));
    }
    return found;
  }

  // The stored bytes of one part, and the packing they are in.
  TensorView part(const RtnCase& which, const std::string& part) const {
    return file_.read(which.name + "." + part);
  }

 private:
  static RtnCase parse(const std::string& name) {
    RtnCase result{.name = name, .problem = {.out = 32, .in = 288}};
    const size_t group = name.find("-g") + 2;
    result.problem.bits = name[name.find("-w") + 2] - '0';
    result.problem.group = name.compare(group, 3, "row") == 0 ? -1 : std::stoi(name.substr(group));
    result.problem.sym = name.find("-asym") == std::string::npos;
    if (const size_t kind = name.find("sym-"); kind != std::string::npos)
      result.importance = name.substr(kind + 4);
    return result;
  }

  SafetensorsFile file_;
};

// Packs as the tool would have and compares every byte.
inline void expect_packed_equal(const RtnGolden& golden, const RtnCase& which, const QuantWeight& weight) {
  const bool interleaved = golden.part(which, "qweight").shape.at(0) == which.problem.in;
  // A wider layer in the recipe makes the packing of other widths the right one for four bits, too.
  Recipe recipe{.bits = which.problem.bits, .sym = which.problem.sym};
  if (!interleaved) recipe.layer_overrides.emplace_back("other", json{{"bits", 8}});
  const auto packed = find_format("auto_round")->pack(weight, which.name, recipe);
  ASSERT_EQ(packed.size(), 3u);
  for (const NamedTensor& named : packed) {
    const TensorView expected = golden.part(which, named.name.substr(named.name.rfind('.') + 1));
    ASSERT_EQ(named.tensor.shape, expected.shape) << named.name;
    EXPECT_TRUE(std::ranges::equal(named.tensor.data.bytes(), expected.data.bytes())) << named.name;
  }
}

}  // namespace quaver::quantize
