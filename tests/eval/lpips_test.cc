// LPIPS equals the lpips package's, over weights that a rule makes (tests/golden/eval/make_lpips.py).
#include "eval/lpips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/remove_tree.h"
#include "checkpoint/safetensors_writer.h"
#include "media/decode.h"

namespace quaver::eval {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kLpipsGolden = std::string(QUAVER_TEST_DATA) + "/golden/eval/";

std::vector<float> fractions(int64_t count, uint32_t tensor) {
  std::vector<float> out;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    uint32_t x = i * 2654435761u + 40503u * (tensor + 1);
    for (int round = 0; round < 2; ++round) x = (x ^ x >> 16) * 0x45d9f3bu;
    x ^= x >> 16;
    out.push_back(static_cast<float>(x >> 8) / static_cast<float>(1 << 24));
  }
  return out;
}

using Tensors = std::map<std::string, TensorView>;

TensorView tensor_of(std::vector<int64_t> shape, uint32_t tensor, float scale, float shift) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values = fractions(count, tensor);
  for (float& value : values) value = (value * (1 - shift) + shift) * scale;
  return {DType::kF32, std::move(shape), Buffer::copy_of(values)};
}

struct Convolution {
  int index;
  int64_t out, in, kernel;
};
constexpr Convolution kConvolutions[] = {
    {0, 64, 3, 11}, {3, 192, 64, 5}, {6, 384, 192, 3}, {8, 256, 384, 3}, {10, 256, 256, 3}};

// Names as torchvision has them, or as the package's own state has.
Tensors convolutions(bool of_package) {
  Tensors out;
  for (uint32_t i = 0; i < 5; ++i) {
    const auto [index, rows, in, kernel] = kConvolutions[i];
    const std::string name = of_package ? cat("net.slice", i + 1, ".", index) : cat("features.", index);
    const auto scale = static_cast<float>(std::sqrt(6.0 / static_cast<double>(in * kernel * kernel)));
    out[name + ".weight"] = tensor_of({rows, in, kernel, kernel}, 3 * i, scale, -1);
    out[name + ".bias"] = tensor_of({rows}, 3 * i + 1, 0.1f, -1);
  }
  return out;
}

Tensors heads() {
  Tensors out;
  for (uint32_t i = 0; i < 5; ++i)
    out[cat("lin", i, ".model.1.weight")] = tensor_of({1, kConvolutions[i].out, 1, 1}, 3 * i + 2, 1, 0);
  return out;
}

void write(const fs::path& file, const Tensors& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, view] : tensors)
    infos.push_back({name, view.dtype, view.shape, view.data.size_bytes()});
  write_safetensors_file(file, infos, [&](const TensorInfo& info) { return tensors.at(info.name); }, {});
}

class LpipsTest : public ::testing::Test {
 protected:
  LpipsTest() : folder_(fs::temp_directory_path() / fs::path(cat("quaver-lpips-", ::getpid()))) {
    fs::create_directories(folder_);
  }
  ~LpipsTest() override { remove_tree(folder_); }

  std::string refusal(const fs::path& weights) const {
    try {
      const Lpips lpips(weights);
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  }

  const fs::path folder_;
};

Image side(const std::string& name) {
  return decode_image(MappedFile::open(kLpipsGolden + name + ".png")->bytes(), name);
}

Image tiled(const Image& picture, int down, int across) {
  Image out{.width = across * picture.width, .height = down * picture.height};
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < 3 * out.width; ++x)
      out.rgb.push_back(
          picture.rgb[static_cast<size_t>(y % picture.height * 3 * picture.width + x % (3 * picture.width))]);
  return out;
}

TEST_F(LpipsTest, EqualsThePackage) {
  write(folder_ / "alexnet.safetensors", convolutions(false));
  write(folder_ / "heads.safetensors", heads());
  const Lpips lpips(folder_);
  const json golden = read_json_file(kLpipsGolden + "lpips.json");
  for (const std::string name : {"noise", "shift", "inverted", "identical"}) {
    const Image a = side(name + "_reference"), b = side(name + "_candidate");
    // Five layers of float32 sums of up to 3456 products.
    const double want = golden.at(name), want_tiled = golden.at(name + "_tiled");
    EXPECT_NEAR(lpips.distance(a, b), want, want * 2e-5) << name;
    EXPECT_NEAR(lpips.distance(tiled(a, 2, 3), tiled(b, 2, 3)), want_tiled, want_tiled * 2e-5) << name;
  }
}

TEST_F(LpipsTest, ReadsOneFileUnderThePackagesNames) {
  Tensors all = convolutions(true);
  all.merge(heads());
  write(folder_ / "all.safetensors", all);
  const Lpips lpips(folder_ / "all.safetensors");
  const double want = read_json_file(kLpipsGolden + "lpips.json").at("noise");
  EXPECT_NEAR(lpips.distance(side("noise_reference"), side("noise_candidate")), want, want * 2e-5);
  const Image small{.width = 16, .height = 32, .rgb = std::vector<uint8_t>(16 * 32 * 3)};
  EXPECT_THROW(lpips.distance(small, small), Error);
  EXPECT_THROW(lpips.distance(small, side("noise_reference")), Error);
}

TEST_F(LpipsTest, NamesWhatIsMissingOrMisshapen) {
  EXPECT_THAT(refusal(folder_ / "none.pth"), HasSubstr("does not exist"));
  write(folder_ / "heads.safetensors", heads());
  EXPECT_THAT(refusal(folder_), HasSubstr("no tensor 'features.0.weight', nor 'net.slice1.0.weight'"));
  Tensors wrong;
  wrong["features.0.weight"] = tensor_of({64, 3, 3, 3}, 0, 1, 0);
  write(folder_ / "vgg.safetensors", wrong);
  EXPECT_THAT(refusal(folder_), HasSubstr("'features.0.weight' is f32 [64, 3, 3, 3], expected floats"));
}

}  // namespace
}  // namespace quaver::eval
