#include "eval/lpips.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "checkpoint/pickle_file.h"
#include "checkpoint/safetensors_file.h"
#include "nn/tensor_bridge.h"

namespace quaver::eval {

namespace {

namespace fs = std::filesystem;

struct FeatureLayer {
  int64_t in, out, kernel, stride, padding;
  int index;   // in torchvision's list of layers
  bool pools;  // before it
};

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014).
constexpr std::array kFeatureLayers = {
    FeatureLayer{3, 64, 11, 4, 2, 0, false}, FeatureLayer{64, 192, 5, 1, 2, 3, true},
    FeatureLayer{192, 384, 3, 1, 1, 6, true}, FeatureLayer{384, 256, 3, 1, 1, 8, false},
    FeatureLayer{256, 256, 3, 1, 1, 10, false}};

class LpipsFiles {
 public:
  explicit LpipsFiles(const fs::path& path) : path_(path.string()) {
    require(fs::exists(path), ErrorKind::kNotFound, path_, ": does not exist");
    std::vector<fs::path> files = {path};
    if (fs::is_directory(path)) files = files_of(path);
    for (const fs::path& file : files) add(file);
  }

  // Under whichever of the names it has, in float32.
  at::Tensor read(const std::vector<std::string>& names, const std::vector<int64_t>& shape) const {
    const auto name = std::ranges::find_if(names, [&](const auto& n) { return tensors_.contains(n); });
    require(name != names.end(), ErrorKind::kBadFile, path_, ": holds no tensor '", names.front(), "', nor '",
            names.back(), "', expected AlexNet's convolutions and the heads of LPIPS");
    const TensorView& view = tensors_.at(*name);
    require(view.shape == shape && nn::is_floating(view.dtype), ErrorKind::kBadFile, path_, ": tensor '",
            *name, "' is ", dtype_info(view.dtype).name, " ", view.shape, ", expected floats ", shape);
    return nn::tensor_over(view, path_).to(at::kFloat);
  }

 private:
  static bool is_pickle(const fs::path& file) {
    return file.extension() == ".pth" || file.extension() == ".pt" || file.extension() == ".bin";
  }

  static std::vector<fs::path> files_of(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
      if (is_pickle(entry.path()) || entry.path().extension() == ".safetensors")
        files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }

  void add(const fs::path& path) {
    if (is_pickle(path)) {
      const PickleFile file = PickleFile::open(path);
      for (const PickledTensor& entry : file.entries()) tensors_.emplace(entry.info.name, file.read(entry));
    } else {
      const SafetensorsFile file = SafetensorsFile::open(path);
      for (const SafetensorsEntry& entry : file.entries())
        tensors_.emplace(entry.info.name, file.read(entry));
    }
  }

  std::string path_;
  std::map<std::string, TensorView> tensors_;
};

std::vector<std::string> convolution_names(size_t layer, const char* part) {
  const int index = kFeatureLayers[layer].index;
  return {cat("features.", index, ".", part), cat("net.slice", layer + 1, ".", index, ".", part)};
}

std::vector<std::string> head_names(size_t layer) {
  return {cat("lin", layer, ".model.1.weight"), cat("lins.", layer, ".model.1.weight"),
          cat("lin", layer, ".model.0.weight")};
}

// As the network was trained to see pictures: values in [-1, 1] less a mean by a deviation of each colour.
at::Tensor network_input(const Image& picture) {
  const at::Tensor shift = at::tensor({-0.030f, -0.088f, -0.188f}).view({3, 1, 1}),
                   scale = at::tensor({0.458f, 0.448f, 0.450f}).view({3, 1, 1});
  const at::Tensor bytes =
      at::from_blob(const_cast<uint8_t*>(picture.rgb.data()), {picture.height, picture.width, 3}, at::kByte);
  const at::Tensor values = bytes.to(at::kFloat).permute({2, 0, 1}) / 127.5 - 1;
  return ((values - shift) / scale).unsqueeze(0);  // [1, 3, height, width]
}

at::Tensor unit_length(const at::Tensor& features) {  // over channels
  constexpr double kEps = 1e-10;
  return features / ((features * features).sum(1, /*keepdim=*/true).sqrt() + kEps);
}

}  // namespace

Lpips::Lpips(const fs::path& weights) {
  const LpipsFiles files(weights);
  for (size_t i = 0; i < kLayers; ++i) {
    const FeatureLayer& layer = kFeatureLayers[i];
    layers_[i] = {.weight = files.read(convolution_names(i, "weight"),
                                       {layer.out, layer.in, layer.kernel, layer.kernel}),
                  .bias = files.read(convolution_names(i, "bias"), {layer.out}),
                  .head = files.read(head_names(i), {1, layer.out, 1, 1})};
  }
}

std::array<at::Tensor, Lpips::kLayers> Lpips::features(const Image& picture) const {
  std::array<at::Tensor, kLayers> out;
  at::Tensor x = network_input(picture);
  for (size_t i = 0; i < kLayers; ++i) {
    const FeatureLayer& layer = kFeatureLayers[i];
    if (layer.pools) x = at::max_pool2d(x, 3, 2);
    x = at::conv2d(x, layers_[i].weight, layers_[i].bias, layer.stride, layer.padding).relu();
    out[i] = unit_length(x);
  }
  return out;
}

double Lpips::distance(const Image& a, const Image& b) const {
  require(a.width == b.width && a.height == b.height, ErrorKind::kInvalidInput,
          "pictures to compare must have one size, got ", a.width, "x", a.height, " and ", b.width, "x",
          b.height);
  require(std::min(a.width, a.height) >= kLeastSide, ErrorKind::kInvalidInput,
          "LPIPS needs pictures of at least ", kLeastSide, "x", kLeastSide, ", got ", a.width, "x", a.height);
  at::NoGradGuard no_gradients;
  const auto of_a = features(a), of_b = features(b);
  double sum = 0;
  for (size_t i = 0; i < kLayers; ++i) {
    const at::Tensor difference = of_a[i] - of_b[i];
    sum += at::conv2d(difference * difference, layers_[i].head).mean().item<double>();
  }
  return sum;
}

std::optional<fs::path> cached_lpips_weights() {
  fs::path cache;
  if (const auto set = env_string("XDG_CACHE_HOME"))
    cache = *set;
  else if (const auto home = env_string("HOME"))
    cache = fs::path(*home) / ".cache";
  std::error_code none;
  if (cache.empty() || !fs::exists(cache / "quaver" / "lpips", none)) return std::nullopt;
  return cache / "quaver" / "lpips";
}

}  // namespace quaver::eval
