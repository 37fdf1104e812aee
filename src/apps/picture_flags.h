// The flags that say which pictures to make; the same for every command that makes some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/command.h"
#include "diffusion/guidance.h"
#include "diffusion/image_facts.h"
#include "pipeline/image_request.h"

namespace quaver::apps {

// On a command line the user owns the machine, so only slips of the hand are caught.
constexpr pipeline::ImageRequestLimits kCommandLineLimits{
    .max_pixels = int64_t{1} << 40, .max_steps = 1000, .max_count = 1000, .max_guidance = 100};

struct PictureFlags {
  std::string negative_prompt, size;
  std::optional<int64_t> width, height, steps, text_tokens;
  std::optional<double> guidance_scale, true_cfg_scale;
  int64_t count = 1;
};

void add_request_flags(CLI::App& app, PictureFlags& flags);

// All but prompt, seed and source. Error(kInvalidInput) where --size is no size or contradicts --width and
// --height.
pipeline::ImageRequest request_of(const PictureFlags& flags);

// "--cache", "--transformer", "--vae-use-tiling", "--vae-use-slicing" and "--offload" as `serve` has them.
struct PictureModelFlags {
  std::string cache = "none", transformer;
  bool vae_tiling = false, vae_slicing = false, offload = false;
};
void add_vae_flags(CLI::App& app, PictureModelFlags& flags);
void add_transformer_flag(CLI::App& app, PictureModelFlags& flags);
void add_offload_flag(CLI::App& app, PictureModelFlags& flags);
CLI::Option* add_cache_flag(CLI::App& app, const std::string& name, std::string& cache);
void tell_of_vae_flags(const PictureModelFlags& flags);

}  // namespace quaver::apps
