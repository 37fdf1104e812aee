// An autoencoder of pictures as pipelines see it: pictures to latents and back, whole or in tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "nn/offload.h"
#include "nn/weight_source.h"

namespace quaver::models {

struct ImageVaeInfo {
  std::string family;  // for display only
  int64_t image_channels = 3, latent_channels = 0;
  int64_t scale = 8;                  // pixels per latent, in height and in width
  int64_t sample_pixels = 0;          // side of the pictures it was trained on
  at::ScalarType dtype = at::kFloat;  // what it computes in
  // How many values decoding holds for each pixel of the picture where it holds most.
  int64_t values_per_pixel = 0;
};

// Latents are given and taken in the scale that transformers see: about zero mean and unit variance.
struct LatentDistribution {
  at::Tensor mean, std;                              // float32 [batch, latent_channels, h, w]
  at::Tensor sample(const at::Tensor& noise) const;  // standard normal noise of the same shape
};

// How a picture is taken apart to save memory.
struct VaeOptions {
  bool tile = false;  // overlapping square tiles, blended linearly, where the picture is larger than one
  int64_t tile_pixels = 0;  // side of a tile, a multiple of info().scale; 0: info().sample_pixels
  double overlap = 0.25;    // of a tile, from 0 to 0.5; rounded down to whole latents
};

// Const and thread safe. The pictures of a batch are worked on one after the other, so that a picture's
// result is its own to the last bit and one picture's memory is enough. Inputs of any floating dtype and
// device; results on the weights' device. Nothing is checked for being finite.
class ImageVae {
 public:
  virtual ~ImageVae() = default;
  virtual const ImageVaeInfo& info() const = 0;

  // Error(kInvalidInput) unless height and width are multiples of info().scale.
  LatentDistribution encode(const at::Tensor& pixels,  // [batch, image_channels, H, W] in -1..1
                            const VaeOptions& options = {}) const;
  at::Tensor decode(
      const at::Tensor& latents,              // [batch, latent_channels, h, w]
      const VaeOptions& options = {}) const;  // -> [batch, image_channels, H, W] in info().dtype, about -1..1

 protected:
  // The networks alone, in and out in info().dtype, latents in their own scale.
  virtual at::Tensor encode_moments(
      const at::Tensor& pixels) const = 0;  // -> [batch, 2 latent_channels, h, w]: means, then log variances
  virtual at::Tensor decode_latents(const at::Tensor& latents) const = 0;
  // Between the networks' scale and that of transformers: own = seen * std + mean. float32.
  virtual const at::Tensor& latents_mean() const = 0;  // [1, 1 or latent_channels, 1, 1]
  virtual const at::Tensor& latents_std() const = 0;   // the same
  // As nn::Linear::visit_tensors, of all layers.
  virtual void visit_tensors(const nn::TensorVisit& visit) = 0;

 private:
  friend std::unique_ptr<ImageVae> load_image_vae(nn::WeightSource& source);
  std::unique_ptr<nn::LayerOffload> offload_;  // where the options ask for it; the networks are one layer
};

// One row per family.
struct ImageVaeFamily {
  const char* class_name;  // config.json's "_class_name"
  // Throws Error(kBadFile) naming config key or tensor. Nothing of the source is left over.
  std::unique_ptr<ImageVae> (*load)(nn::WeightSource& source);
};

std::span<const ImageVaeFamily> image_vae_families();

// By the config's "_class_name"; Error(kUnsupported) lists the known ones.
std::unique_ptr<ImageVae> load_image_vae(nn::WeightSource& source);

// A component whose tensors have the names that FLUX.1's makers gave them, shown under those of diffusers;
// any other as it is. Error(kBadFile) naming the tensor that has no place.
std::unique_ptr<Checkpoint> present_image_vae(std::unique_ptr<Checkpoint> component);

// Opens the one file in which FLUX.1 and BAGEL publish their autoencoder (ae.safetensors), presented, with
// the config that it doesn't bring: sizes are those of its tensors, the rest is the same for all of them.
// Error(kUnsupported) on other autoencoders.
std::unique_ptr<Checkpoint> open_image_vae_file(const std::filesystem::path& file);

}  // namespace quaver::models
