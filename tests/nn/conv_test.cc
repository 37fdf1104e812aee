// Convolutions against sums written out in double precision, on both paths.
#include "nn/conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "nn/kernel_path.h"
#include "nn/memory_checkpoint.h"
#include "nn/support.h"

namespace quaver::nn {
namespace {

struct ConvFixture {
  MemoryCheckpoint checkpoint;
  at::Tensor weight, bias;
  ConvFixture(int64_t out, int64_t in, int64_t kernel)
      : weight(randn({out, in, kernel, kernel}, 1)), bias(randn({out}, 2)) {
    checkpoint.add("conv.weight", weight);
    checkpoint.add("conv.bias", bias);
  }
  template <class Layer, class Shape>
  Layer load(const Shape& shape, at::ScalarType dtype = at::kFloat) const {
    WeightSource source(checkpoint, {.compute_dtype = dtype});
    return Layer(source, "conv", shape);
  }
  // One picture. `pixel(c, y, x)` gives the input, zeros around it included.
  template <class Pixel>
  at::Tensor reference(Pixel pixel, int64_t height, int64_t width, int64_t stride, int64_t first) const {
    const int64_t kernel = weight.size(2);
    at::Tensor result = at::zeros({1, weight.size(0), height, width}, at::kDouble);
    auto y = result.accessor<double, 4>();
    auto w = weight.accessor<float, 4>();
    for (int64_t o = 0; o < weight.size(0); ++o)
      for (int64_t row = 0; row < height; ++row)
        for (int64_t col = 0; col < width; ++col) {
          double sum = bias[o].item<float>();
          for (int64_t i = 0; i < weight.size(1); ++i)
            for (int64_t u = 0; u < kernel; ++u)
              for (int64_t v = 0; v < kernel; ++v)
                sum += double{w[o][i][u][v]} * pixel(i, row * stride + u + first, col * stride + v + first);
          y[0][o][row][col] = sum;
        }
    return result;
  }
};

// The pixel of a picture [1, channels, h, w], 0 outside.
auto pixel_of(const at::Tensor& x) {
  return [x, a = x.accessor<float, 4>()](int64_t c, int64_t row, int64_t col) -> double {
    const bool inside = row >= 0 && row < x.size(2) && col >= 0 && col < x.size(3);
    return inside ? a[0][c][row][col] : 0;
  };
}

class ConvTest : public testing::Test {
  c10::InferenceMode no_gradients_;
};

TEST_F(ConvTest, PadsOnAllSides) {
  ConvFixture fixture(5, 6, 3);
  at::Tensor x = randn({1, 6, 7, 4}, 3);
  at::Tensor y = fixture.load<Conv2d>(ConvShape{.in = 6, .out = 5}).forward(x);
  EXPECT_TRUE(near(y, fixture.reference(pixel_of(x), 7, 4, 1, -1), 54));
}

TEST_F(ConvTest, OnePixelKernel) {
  ConvFixture fixture(5, 6, 1);
  at::Tensor x = randn({1, 6, 3, 4}, 3);
  at::Tensor y = fixture.load<Conv2d>(ConvShape{.in = 6, .out = 5, .kernel = 1, .padding = 0}).forward(x);
  EXPECT_TRUE(near(y, fixture.reference(pixel_of(x), 3, 4, 1, 0), 6));
}

TEST_F(ConvTest, DownPadsBelowAndToTheRight) {
  ConvFixture fixture(6, 6, 3);
  at::Tensor x = randn({1, 6, 8, 4}, 3);
  at::Tensor y = fixture.load<DownConv2d>(6).forward(x);
  EXPECT_TRUE(near(y, fixture.reference(pixel_of(x), 4, 2, 2, 0), 54));
}

TEST_F(ConvTest, UpRepeatsPixelsOnBothPaths) {
  ConvFixture fixture(6, 6, 3);
  const UpConv2d layer = fixture.load<UpConv2d>(6);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 6, 3, 5}, {1, 6, 1, 1}}) {
    at::Tensor x = randn(shape, 3);
    auto repeated = [&, small = pixel_of(x)](int64_t c, int64_t row, int64_t col) {
      return row < 0 || col < 0 ? 0 : small(c, row / 2, col / 2);
    };
    at::Tensor want = fixture.reference(repeated, 2 * shape[2], 2 * shape[3], 1, -1);
    EXPECT_TRUE(near(layer.forward(x), want, 54));
    AtenOnly reference;
    EXPECT_TRUE(near(layer.forward(x), want, 54));
  }
}

TEST_F(ConvTest, UpInBfloat16) {
  ConvFixture fixture(6, 6, 3);
  at::Tensor x = randn({2, 6, 3, 5}, 3);
  at::Tensor want = fixture.load<UpConv2d>(6).forward(x);
  at::Tensor got = fixture.load<UpConv2d>(6, at::kBFloat16).forward(x.to(at::kBFloat16));
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(near(got, want, 1, 0x1p-9));
}

TEST_F(ConvTest, PicturesLieChannelsLast) {
  ConvFixture fixture(8, 8, 3);
  at::Tensor x = randn({2, 8, 4, 6}, 3);
  auto is_channels_last = [](const at::Tensor& y) { return y.is_contiguous(at::MemoryFormat::ChannelsLast); };
  EXPECT_TRUE(is_channels_last(fixture.load<Conv2d>(ConvShape{.in = 8, .out = 8}).forward(x)));
  EXPECT_TRUE(is_channels_last(fixture.load<DownConv2d>(8).forward(x)));
  EXPECT_TRUE(is_channels_last(fixture.load<UpConv2d>(8).forward(x)));
}

TEST_F(ConvTest, RefusesAnotherShape) {
  ConvFixture fixture(5, 6, 3);
  Error error = thrown_by([&] { fixture.load<Conv2d>(ConvShape{.in = 6, .out = 5, .kernel = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
  EXPECT_NE(std::string(error.what()).find("'conv.weight' has shape [5, 6, 3, 3], expected [5, 6, 1, 1]"),
            std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace quaver::nn
