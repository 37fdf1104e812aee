#include "models/vae/image_vae.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>

#include <functional>
#include <optional>
#include <vector>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"
#include "models/vae/tiles.h"

namespace quaver::models {

namespace {

// Beyond these a variance says nothing; what diffusers cuts at.
constexpr double kLeastLogVariance = -30, kMostLogVariance = 20;

template <class... Args>
void check_option(bool condition, const char* field, const Args&... args) {
  if (!condition) throw Error(ErrorKind::kInvalidInput, cat(args...), field);
}

// In latents; nothing where the options ask for no tiles.
std::optional<Tiling> latent_tiling(const ImageVaeInfo& info, const VaeOptions& options) {
  if (!options.tile) return std::nullopt;
  const int64_t pixels = options.tile_pixels != 0 ? options.tile_pixels : info.sample_pixels;
  check_option(pixels > 0 && pixels % info.scale == 0, "tile_pixels", "tile_pixels is ", pixels,
               ", expected a multiple of ", info.scale);
  check_option(options.overlap >= 0 && options.overlap <= 0.5, "overlap", "overlap is ", options.overlap,
               ", expected from 0 to 0.5 of a tile");
  const int64_t tile = pixels / info.scale;
  return Tiling{tile, static_cast<int64_t>(static_cast<double>(tile) * options.overlap), info.scale, 1};
}

using Network = std::function<at::Tensor(const at::Tensor&)>;

// For the time that it lives the networks are on the device.
class Present {
 public:
  explicit Present(nn::LayerOffload* offload) : pass_(offload) {
    if (offload) use_.emplace(*offload, 0);
  }

 private:
  nn::OffloadPass pass_;  // ends last
  std::optional<nn::LayerOffload::Use> use_;
};

at::Tensor one_by_one(const at::Tensor& pictures, const std::optional<Tiling>& tiling,
                      const Network& network) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : pictures.split(1))
    results.push_back(tiling && needs_tiles(x, *tiling) ? in_tiles(x, *tiling, network) : network(x));
  return results.size() == 1 ? results[0] : at::cat(results);
}

void check_picture(const at::Tensor& x, const char* what, int64_t channels) {
  check_option(x.dim() == 4 && x.size(0) > 0 && x.size(1) == channels && x.numel() > 0, what, what,
               " have shape ", x.sizes().vec(), ", expected [batch, ", channels, ", height, width]");
}

}  // namespace

at::Tensor LatentDistribution::sample(const at::Tensor& noise) const { return mean + std * noise; }

LatentDistribution ImageVae::encode(const at::Tensor& pixels, const VaeOptions& options) const {
  check_picture(pixels, "pixels", info().image_channels);
  check_option(pixels.size(2) % info().scale == 0 && pixels.size(3) % info().scale == 0, "pixels",
               "a picture is ", pixels.size(3), " wide and ", pixels.size(2), " high, expected multiples of ",
               info().scale);
  const Present present(offload_.get());
  std::optional<Tiling> tiling = latent_tiling(info(), options);
  if (tiling) tiling = {tiling->tile * info().scale, tiling->overlap * info().scale, 1, info().scale};
  at::Tensor moments =
      one_by_one(pixels.to(latents_mean().device(), info().dtype), tiling, [this](const at::Tensor& x) {
        return encode_moments(x);
      }).to(at::kFloat);
  const int64_t channels = info().latent_channels;
  at::Tensor log_variance = moments.narrow(1, channels, channels).clamp(kLeastLogVariance, kMostLogVariance);
  return {(moments.narrow(1, 0, channels) - latents_mean()) / latents_std(),
          at::exp(log_variance * 0.5) / latents_std()};
}

at::Tensor ImageVae::decode(const at::Tensor& latents, const VaeOptions& options) const {
  check_picture(latents, "latents", info().latent_channels);
  const Present present(offload_.get());
  at::Tensor own = latents.to(latents_mean().device(), at::kFloat) * latents_std() + latents_mean();
  return one_by_one(own.to(info().dtype), latent_tiling(info(), options),
                    [this](const at::Tensor& z) { return decode_latents(z); });
}

std::unique_ptr<ImageVae> load_image_vae(nn::WeightSource& source) {
  const ConfigReader config = config_of(source.checkpoint());
  const std::string name = config.text("_class_name", "");
  std::string known;
  for (const ImageVaeFamily& family : image_vae_families()) {
    if (name == family.class_name) {
      std::unique_ptr<ImageVae> vae = family.load(source);
      if (source.options().offload) {
        vae->offload_ = std::make_unique<nn::LayerOffload>(source.options().device);
        vae->offload_->add([&](const nn::TensorVisit& visit) { vae->visit_tensors(visit); });
      }
      return vae;
    }
    known += cat(known.empty() ? "" : ", ", family.class_name);
  }
  config.unsupported("_class_name", "is '", name, "', expected one of: ", known);
}

}  // namespace quaver::models
