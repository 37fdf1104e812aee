#include "diffusion/pixels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

namespace quaver::diffusion {

namespace {

at::Tensor bytes_of(const std::vector<uint8_t>& samples, int64_t height, int64_t width, int64_t channels) {
  return at::from_blob(const_cast<uint8_t*>(samples.data()), {height, width, channels}, at::kByte)
      .permute({2, 0, 1})
      .unsqueeze(0);
}

}  // namespace

at::Tensor pixels_of(const Image& image) {
  return bytes_of(image.rgb, image.height, image.width, 3).to(at::kFloat).contiguous() / 127.5 - 1;
}

at::Tensor mask_of(const GrayImage& mask) {
  return bytes_of(mask.gray, mask.height, mask.width, 1).ge(128).to(at::kFloat).contiguous();
}

Image image_of(const at::Tensor& pixels) {
  const at::Tensor bytes = ((pixels.to(at::kFloat) / 2 + 0.5).clamp(0, 1) * 255)
                               .round()
                               .to(at::kByte)
                               .permute({1, 2, 0})
                               .to(at::kCPU)
                               .contiguous();
  Image image{.width = static_cast<int>(bytes.size(1)), .height = static_cast<int>(bytes.size(0)), .rgb = {}};
  const uint8_t* first = bytes.const_data_ptr<uint8_t>();
  image.rgb.assign(first, first + bytes.numel());
  return image;
}

bool is_constant(const Image& image) {
  for (size_t i = 3; i < image.rgb.size(); ++i)
    if (image.rgb[i] != image.rgb[i - 3]) return false;
  return true;
}

}  // namespace quaver::diffusion
