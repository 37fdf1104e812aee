#include "pipeline/image_check.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "media/resize.h"

namespace quaver::pipeline {

namespace {

template <class... Args>
[[noreturn]] void wrong(const char* field, const Args&... args) {
  throw Error(ErrorKind::kInvalidInput, cat(field, " ", args...), field);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

constexpr size_t kMaxPromptBytes = size_t{1} << 16;

void check_prompt(const char* field, const std::string& text) {
  if (text.size() > kMaxPromptBytes)
    wrong(field, "has ", text.size(), " bytes, expected at most ", kMaxPromptBytes);
}

double in_range(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) wrong(field, "is ", value, ", expected ", low, " to ", high);
  return value;
}

int64_t in_range(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) wrong(field, "is ", value, ", expected ", low, " to ", high);
  return value;
}

struct Size {
  int64_t width, height;
};

// The nearest legal size below and above, per side.
std::string legal_sizes_near(Size size, int64_t unit) {
  auto below = [&](int64_t side) { return std::max(unit, side / unit * unit); };
  auto above = [&](int64_t side) { return std::max(unit, (side + unit - 1) / unit * unit); };
  return cat(below(size.width), "x", below(size.height), " or ", above(size.width), "x", above(size.height));
}

Size size_of(const ImageRequest& request, const diffusion::ImageFacts& facts, int64_t max_pixels) {
  if (request.width.has_value() != request.height.has_value())
    wrong("size", "needs both a width and a height");
  Size size = {facts.default_width, facts.default_height};
  if (request.source) size = {request.source->width, request.source->height};
  if (request.width) size = {*request.width, *request.height};
  constexpr int64_t kMaxSide = 65536;
  if (size.width < 1 || size.height < 1 || size.width > kMaxSide || size.height > kMaxSide)
    wrong("size", "is ", size.width, "x", size.height, ", expected sides of 1 to ", kMaxSide, " pixels");
  if (size.width % facts.unit != 0 || size.height % facts.unit != 0)
    wrong("size", "is ", size.width, "x", size.height, ", expected multiples of ", facts.unit, " such as ",
          legal_sizes_near(size, facts.unit));
  if (size.width * size.height * request.count > max_pixels)
    wrong("size", "is ", size.width, "x", size.height, " for ", request.count,
          request.count == 1 ? " picture" : " pictures", ", expected at most ", max_pixels, " pixels in all");
  return size;
}

uint64_t seed_of(const ImageRequest& request) {
  constexpr uint64_t kMost = (uint64_t{1} << 63) - 1;
  if (!request.seed) return std::random_device{}();
  if (*request.seed > kMost) wrong("seed", "is ", *request.seed, ", expected 0 to ", kMost);
  return *request.seed;
}

template <class Picture>
std::shared_ptr<const Picture> fitted(const std::shared_ptr<const Picture>& picture, Size size,
                                      Resample filter) {
  if (!picture || (picture->width == size.width && picture->height == size.height)) return picture;
  return std::make_shared<const Picture>(
      resize(*picture, static_cast<int>(size.width), static_cast<int>(size.height), filter));
}

std::string known_adapters(const diffusion::ImageFacts& facts) {
  std::string names;
  for (const diffusion::Adapter& adapter : facts.adapters)
    names += cat(names.empty() ? "" : ", ", adapter.name);
  return names.empty() ? "none was loaded when the model was" : cat("expected one of: ", names);
}

const diffusion::Adapter& chosen_adapter(const AdapterChoice& choice, const diffusion::ImageFacts& facts) {
  constexpr size_t kShown = 200;
  for (const diffusion::Adapter& adapter : facts.adapters)
    if (choice.path.empty() ? adapter.name == choice.name : adapter.path == choice.path) return adapter;
  if (choice.path.empty())
    wrong("lora", "names '", choice.name.substr(0, kShown), "', ", known_adapters(facts));
  // Requests must not make the server read files.
  wrong("lora", "asks for a file; adapters are loaded with the model alone, ", known_adapters(facts));
}

// One for each adapter of the model; empty where none runs, so that such pictures share batches.
std::vector<double> adapter_scales(const ImageRequest& request, const diffusion::ImageFacts& facts,
                                   const ImageRequestLimits& limits) {
  std::vector<double> scales(facts.adapters.size());
  const diffusion::Adapter* chosen = request.adapter ? &chosen_adapter(*request.adapter, facts) : nullptr;
  for (size_t i = 0; i < scales.size(); ++i) {
    const diffusion::Adapter& adapter = facts.adapters[i];
    if (chosen ? &adapter == chosen : adapter.always) scales[i] = adapter.scale;
  }
  if (chosen && request.adapter->scale)
    scales[static_cast<size_t>(chosen - facts.adapters.data())] =
        in_range("lora", *request.adapter->scale, -limits.max_adapter_scale, limits.max_adapter_scale);
  if (std::ranges::all_of(scales, [](double scale) { return scale == 0; })) scales.clear();
  return scales;
}

void check_source(const ImageRequest& request) {
  if (request.mask && !request.source) wrong("mask_image", "needs an image that it masks");
  if (request.strength && !request.source) wrong("strength", "needs an image to start from");
}

}  // namespace

std::vector<diffusion::ImageSpec> check_image_request(const ImageRequest& request,
                                                      const diffusion::ImagePipeline& model,
                                                      const ImageRequestLimits& limits) {
  const diffusion::ImageFacts& facts = model.facts();
  if (is_blank(request.prompt)) wrong("prompt", "is empty, expected what the picture shows");
  check_prompt("prompt", request.prompt);
  check_prompt("negative_prompt", request.negative_prompt);
  in_range("n", request.count, 1, limits.max_count);
  in_range("partial_images", request.previews, 0, limits.max_previews);
  check_source(request);
  const Size size = size_of(request, facts, limits.max_pixels);
  constexpr double kDefaultStrength = 0.6;
  if (request.guidance_scale) in_range("guidance_scale", *request.guidance_scale, 0, limits.max_guidance);
  if (request.true_cfg_scale) in_range("true_cfg_scale", *request.true_cfg_scale, 0, limits.max_guidance);
  const double strength = request.strength.value_or(request.source ? kDefaultStrength : 1);
  if (!(strength > 0 && strength <= 1))
    wrong("strength", "is ", strength, ", expected above 0 and at most 1");
  diffusion::ImageSpec spec{
      .prompt = request.prompt,
      .negative_prompt = request.negative_prompt,
      .width = size.width,
      .height = size.height,
      .steps =
          in_range("num_inference_steps", request.steps.value_or(facts.defaults.steps), 1, limits.max_steps),
      .text_tokens = in_range("max_sequence_length", request.text_tokens.value_or(facts.defaults.text_tokens),
                              1, facts.defaults.text_tokens),
      .guidance =
          model.guidance(request.guidance_scale, request.true_cfg_scale, !request.negative_prompt.empty()),
      .seed = seed_of(request),
      .source = fitted(request.source, size, Resample::kLanczos),
      .mask = fitted(request.mask, size, Resample::kLanczos),
      .adapter_scales = adapter_scales(request, facts, limits),
      .strength = strength};
  std::vector<diffusion::ImageSpec> specs(static_cast<size_t>(request.count), spec);
  // Past 2^63 - 1 the next seed is 0.
  for (size_t i = 0; i < specs.size(); ++i) specs[i].seed = (spec.seed + i) & ((uint64_t{1} << 63) - 1);
  return specs;
}

std::vector<std::string> idle_fields(const ImageRequest& request, const diffusion::ImageFacts& facts,
                                     const diffusion::Guidance& guidance) {
  using diffusion::GuidanceKind;
  const bool only_true = facts.defaults.guidance_kind == GuidanceKind::kTrue;
  std::vector<std::string> notes;
  if (guidance.branches() == 1 && !request.negative_prompt.empty())
    notes.push_back(cat("negative_prompt has no effect: it needs ",
                        only_true ? "guidance_scale" : "true_cfg_scale", " above 1"));
  if (guidance.branches() == 1 && request.true_cfg_scale.value_or(1) > 1)
    notes.emplace_back("true_cfg_scale has no effect without negative_prompt");
  if (facts.defaults.guidance_kind == GuidanceKind::kNone && request.guidance_scale)
    notes.push_back(
        cat("guidance_scale has no effect: this ", facts.family, " was distilled without guidance"));
  if (guidance.branches() == 1 && facts.guidance_ranks > 1)
    notes.push_back(
        cat("--cfg-parallel-size ", facts.guidance_ranks,
            " has no effect on a picture alone without true guidance: half of the ranks are idle"));
  return notes;
}

}  // namespace quaver::pipeline
