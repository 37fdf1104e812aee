#include "apps/picture_flags.h"

#include <charconv>

#include "base/error.h"
#include "base/log.h"
#include "diffusion/step_cache.h"

namespace quaver::apps {
namespace {

struct SidesOfSize {
  int64_t width = 0, height = 0;
};

SidesOfSize parse_size(const std::string& text) {
  SidesOfSize size;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, size.width);
  const bool crossed =
      first.ec == std::errc() && first.ptr != end && (*first.ptr == 'x' || *first.ptr == 'X');
  const auto second = crossed ? std::from_chars(first.ptr + 1, end, size.height) : first;
  require(crossed && second.ec == std::errc() && second.ptr == end, ErrorKind::kInvalidInput, "--size is '",
          text, "', expected WIDTHxHEIGHT such as 1024x768");
  return size;
}

}  // namespace

void add_request_flags(CLI::App& app, PictureFlags& flags) {
  add_flag(app, "negative-prompt", flags.negative_prompt,
           "what the picture must not show; works through true guidance");
  add_flag(app, "size", flags.size, "WIDTHxHEIGHT in pixels; default: the model's");
  app.add_option("--width", flags.width, "pixels");
  app.add_option("--height", flags.height, "pixels");
  app.add_option(both_spellings("num-inference-steps"), flags.steps, "default: the model's");
  app.add_option(both_spellings("guidance-scale"), flags.guidance_scale,
                 "how strongly the prompt pulls; default: the model's");
  app.add_option(
      both_spellings("true-cfg-scale") + "," + both_spellings("cfg-scale"), flags.true_cfg_scale,
      "weight against --negative-prompt where --guidance-scale is an input of the model; above 1 the "
      "model runs twice a step");
  app.add_option("-n," + both_spellings("num-images-per-prompt"), flags.count,
                 "pictures; the next has the next seed")
      ->capture_default_str();
  app.add_option(both_spellings("max-sequence-length"), flags.text_tokens,
                 "tokens of a prompt; more are cut off; default: the model's most");
}

pipeline::ImageRequest request_of(const PictureFlags& flags) {
  pipeline::ImageRequest request;
  request.negative_prompt = flags.negative_prompt;
  request.count = flags.count;
  request.width = flags.width;
  request.height = flags.height;
  request.steps = flags.steps;
  request.text_tokens = flags.text_tokens;
  request.guidance_scale = flags.guidance_scale;
  request.true_cfg_scale = flags.true_cfg_scale;
  if (flags.size.empty()) return request;
  const SidesOfSize size = parse_size(flags.size);
  require(flags.width.value_or(size.width) == size.width && flags.height.value_or(size.height) == size.height,
          ErrorKind::kInvalidInput, "--size is ", flags.size, ", but --width or --height says otherwise");
  request.width = size.width;
  request.height = size.height;
  return request;
}

void add_vae_flags(CLI::App& app, PictureModelFlags& flags) {
  add_switch(app, "vae-use-tiling", flags.vae_tiling, "decode large pictures tile by tile, in less memory");
  add_switch(app, "vae-use-slicing", flags.vae_slicing, "accepted for compatibility");
}

void add_transformer_flag(CLI::App& app, PictureModelFlags& flags) {
  add_flag(app, "transformer", flags.transformer,
           "file to take the transformer's weights from: .gguf or .safetensors, under diffusers' names or "
           "those of the model's makers");
}

void add_offload_flag(CLI::App& app, PictureModelFlags& flags) {
  app.add_flag(cat(both_spellings("offload"), ",", both_spellings("enable-cpu-offload"), ",",
                   both_spellings("enable-layerwise-offload")),
               flags.offload,
               "weights wait in host memory and come to the GPU layer by layer while they are used");
}

CLI::Option* add_cache_flag(CLI::App& app, const std::string& name, std::string& cache) {
  const auto problem = [](const std::string& given) -> std::string {
    try {
      diffusion::parse_step_cache(given);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  return add_flag(app, name, cache,
                  "steps that reuse the last one's work: none, first-block, teacache[:THRESHOLD]")
      ->check(problem)
      ->type_name("NAME");
}

void tell_of_vae_flags(const PictureModelFlags& flags) {
  if (flags.vae_slicing)
    log_warning("--vae-use-slicing has no effect: the autoencoder always works on one picture at a time");
}

}  // namespace quaver::apps
