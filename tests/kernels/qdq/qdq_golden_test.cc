// Fake quantization against AutoRound's own functions (tests/golden/kernels/make_qdq.py).
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <span>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kernels/qdq/qdq.h"
#include "kernels/support.h"

namespace quaver::kernels {
namespace {

using Arrays = std::map<std::string, std::vector<float>>;

Arrays read_golden() {
  std::string bytes = read_text_file(QUAVER_TEST_DATA "/golden/kernels/qdq.safetensors", 1 << 20);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  Arrays arrays;
  json header = parse_json(std::string_view(bytes).substr(8, header_bytes), "header");
  for (auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto offsets = entry.at("data_offsets").get<std::vector<size_t>>();
    std::vector<float> values((offsets[1] - offsets[0]) / 4);
    std::memcpy(values.data(), bytes.data() + 8 + header_bytes + offsets[0], offsets[1] - offsets[0]);
    arrays[name] = values;
  }
  return arrays;
}

constexpr int64_t kRows = 12, kCols = 160;

struct QdqCase {
  QdqScheme scheme;
  std::string name;
  int64_t groups;
};

std::vector<QdqCase> qdq_cases() {
  std::vector<QdqCase> all;
  for (int bits : {2, 4, 8})
    for (int64_t group : {32, 64})
      for (bool symmetric : {true, false})
        all.push_back({{bits, group, symmetric},
                       cat("w", bits, "g", group, symmetric ? "sym" : "asym"),
                       (kCols + group - 1) / group});
  return all;
}

QdqArgs args_of(const QdqCase& c, Arrays& golden) {
  return {.scheme = c.scheme,
          .rows = kRows,
          .cols = kCols,
          .w = golden["w"].data(),
          .v = golden["v"].data(),
          .alpha = golden[cat("alpha", c.scheme.group)].data(),
          .beta = golden[cat("beta", c.scheme.group)].data()};
}

TEST(QdqGolden, ForwardIsBitEqual) {
  Arrays golden = read_golden();
  for (const QdqCase& c : qdq_cases())
    for (const CpuFeatures& cpu : cpu_levels()) {
      std::vector<float> w_hat(kRows * kCols), scale(static_cast<size_t>(kRows * c.groups));
      qdq_forward(args_of(c, golden), {.w_hat = w_hat.data(), .scale = scale.data()}, cpu);
      EXPECT_EQ(w_hat, golden[c.name + ".w_hat"]) << c.name << " " << to_string(cpu);
      EXPECT_EQ(scale, golden[c.name + ".scale"]) << c.name << " " << to_string(cpu);
    }
}

// AutoRound holds the scale, and so its gradient, in f16: its range gradients carry 11 bits of the terms'
// magnitude.
void expect_range_gradients(const QdqCase& c, Arrays& golden, const std::vector<float>& got,
                            const char* which) {
  const std::vector<float>& expected = golden[cat(c.name, ".", which)];
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t g = 0; g < c.groups; ++g) {
      double magnitude = 0, range = 0;
      for (int64_t i = g * c.scheme.group; i < std::min(kCols, (g + 1) * c.scheme.group); ++i) {
        magnitude += std::abs(golden["dw"][static_cast<size_t>(r * kCols + i)]);
        range = std::max<double>(range, std::abs(golden["w"][static_cast<size_t>(r * kCols + i)]));
      }
      auto at = static_cast<size_t>(r * c.groups + g);
      EXPECT_NEAR(got[at], expected[at], 0x1p-10 * magnitude * range * 3 + 1e-12)
          << c.name << " " << which << " row " << r;
    }
}

TEST(QdqGolden, BackwardAgrees) {
  Arrays golden = read_golden();
  for (const QdqCase& c : qdq_cases())
    for (const CpuFeatures& cpu : cpu_levels()) {
      std::vector<float> dv(kRows * kCols), dalpha(static_cast<size_t>(kRows * c.groups)), dbeta = dalpha;
      qdq_backward(
          args_of(c, golden),
          {.dw_hat = golden["dw"].data(), .dv = dv.data(), .dalpha = dalpha.data(), .dbeta = dbeta.data()},
          cpu);
      EXPECT_EQ(dv, golden[c.name + ".dv"]) << c.name << " " << to_string(cpu);
      expect_range_gradients(c, golden, dalpha, "dalpha");
      expect_range_gradients(c, golden, dbeta, "dbeta");
    }
}

}  // namespace
}  // namespace quaver::kernels
