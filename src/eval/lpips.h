// The learned perceptual distance of two pictures, from weights that the user brings.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "media/image.h"

namespace quaver::eval {

// LPIPS, version 0.1, over AlexNet: Zhang, Isola, Efros, Shechtman and Wang, "The unreasonable effectiveness
// of deep features as a perceptual metric" (2018). Immutable and thread safe.
class Lpips {
 public:
  static constexpr int kLeastSide = 31;  // below, nothing is left for the last layers

  // A .safetensors or .pth file, or a folder whose files of these kinds are read together. Five convolutions
  // under torchvision's names (features.0.weight) or the lpips package's (net.slice1.0.weight), five heads
  // under that package's (lin0.model.1.weight). Error(kBadFile) naming what is missing or of another shape,
  // Error(kNotFound).
  explicit Lpips(const std::filesystem::path& weights);

  // 0 for identical pictures. Error(kInvalidInput) where the sizes differ or a side is below kLeastSide.
  double distance(const Image& a, const Image& b) const;

 private:
  static constexpr size_t kLayers = 5;
  std::array<at::Tensor, kLayers> features(const Image& picture) const;

  struct Layer {
    at::Tensor weight, bias;  // [out, in, kernel, kernel], [out]
    at::Tensor head;          // [1, out, 1, 1]
  };
  std::array<Layer, kLayers> layers_;
};

// quaver/lpips in the user's cache folder ($XDG_CACHE_HOME or ~/.cache), where there is one.
std::optional<std::filesystem::path> cached_lpips_weights();

}  // namespace quaver::eval
