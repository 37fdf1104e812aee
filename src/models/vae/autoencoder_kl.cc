// AutoencoderKL: the autoencoder of FLUX.1, Ovis-Image, BAGEL and GLM-Image.
#include <ATen/ops/tensor.h>

#include <optional>
#include <utility>

#include "models/llm/decoder_config.h"
#include "models/vae/autoencoder_kl_blocks.h"
#include "models/vae/families.h"

namespace quaver::models {

namespace {

class AutoencoderKl : public ImageVae {
 public:
  AutoencoderKl(nn::WeightSource& source, const KlConfig& config)
      : info_{.family = "autoencoder_kl",
              .image_channels = config.in_channels,
              .latent_channels = config.latent_channels,
              .scale = int64_t{1} << (config.channels.size() - 1),
              .sample_pixels = config.sample_pixels,
              .dtype = source.options().compute_dtype,
              .values_per_pixel = decoder_values_per_pixel(config)},
        encoder_(source, config),
        decoder_(source, config),
        mean_(per_channel(config.latents_mean, source.options().device)),
        std_(per_channel(config.latents_std, source.options().device)) {
    const int64_t latents = config.latent_channels;
    auto pixel_by_pixel = [&](int64_t channels) {
      return nn::ConvShape{.in = channels, .out = channels, .kernel = 1, .padding = 0};
    };
    if (config.quant_conv) quant_conv_.emplace(source, "quant_conv", pixel_by_pixel(2 * latents));
    if (config.post_quant_conv) post_quant_conv_.emplace(source, "post_quant_conv", pixel_by_pixel(latents));
    source.finish("");
  }

  const ImageVaeInfo& info() const override { return info_; }

 protected:
  at::Tensor encode_moments(const at::Tensor& pixels) const override {
    at::Tensor moments = encoder_.forward(pixels);
    return quant_conv_ ? quant_conv_->forward(moments) : moments;
  }
  at::Tensor decode_latents(const at::Tensor& latents) const override {
    return decoder_.forward(post_quant_conv_ ? post_quant_conv_->forward(latents) : latents);
  }
  void visit_tensors(const nn::TensorVisit& visit) override {
    encoder_.visit_tensors(visit), decoder_.visit_tensors(visit);
  }
  const at::Tensor& latents_mean() const override { return mean_; }
  const at::Tensor& latents_std() const override { return std_; }

 private:
  static at::Tensor per_channel(const std::vector<double>& values, at::Device device) {
    return at::tensor(values, at::kFloat).view({1, -1, 1, 1}).to(device);
  }

  ImageVaeInfo info_;
  KlEncoder encoder_;
  KlDecoder decoder_;
  std::optional<nn::Conv2d> quant_conv_, post_quant_conv_;
  at::Tensor mean_, std_;  // float32 [1, 1 or latent_channels, 1, 1]
};

}  // namespace

std::unique_ptr<ImageVae> load_autoencoder_kl(nn::WeightSource& source) {
  const KlConfig config = read_autoencoder_kl(config_of(source.checkpoint()));
  if (!config.force_upcast || source.options().compute_dtype != at::kHalf)
    return std::make_unique<AutoencoderKl>(source, config);
  nn::LoadOptions wide = source.options();
  wide.compute_dtype = at::kFloat;
  nn::WeightSource wide_source(source.checkpoint(), wide);
  return std::make_unique<AutoencoderKl>(wide_source, config);
}

}  // namespace quaver::models
