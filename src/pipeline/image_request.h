// What a client asks of a picture model and what comes back, step by step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "media/image.h"

namespace quaver::pipeline {

// The most that one request may ask for.
struct ImageRequestLimits {
  int64_t max_pixels = 33'177'600;  // of all pictures of a request together
  int64_t max_steps = 200, max_count = 10, max_previews = 3;
  double max_guidance = 20, max_adapter_scale = 100;
};

// Which of the model's adapters a picture is made with.
struct AdapterChoice {
  std::string name, path;       // the one of this name, or that came from this path; the empty one counts not
  std::optional<double> scale;  // unset: the adapter's own
};

// As clients write it; what is unset takes the model's default.
struct ImageRequest {
  std::string id;  // unique among live requests
  std::string prompt, negative_prompt;
  int64_t count = 1;
  std::optional<int64_t> width, height;  // both or neither; unset with a source: the source's
  std::optional<int64_t> steps, text_tokens;
  std::optional<double> guidance_scale, true_cfg_scale;
  // Of the first picture; picture i has seed + i. Unset: drawn at random below 2^32.
  std::optional<uint64_t> seed;
  std::shared_ptr<const Image> source;    // resized to width x height where it differs
  std::shared_ptr<const GrayImage> mask;  // the same; white is redone
  std::optional<double> strength;         // with a source; default 0.6
  std::optional<AdapterChoice> adapter;   // unset: those that always run
  int64_t previews = 0;                   // how many, spread over the steps
  int64_t preview_side = 256;             // at most so many pixels wide and high
};

// One piece of news of one request. The last has kind kDone, kAborted or kFailed; nothing follows it.
struct ImageEvent {
  enum class Kind { kQueued, kProgress, kPreview, kImage, kDone, kAborted, kFailed };
  Kind kind = Kind::kQueued;
  std::string request_id;
  int64_t queue_position = 0;          // requests ahead; kQueued, kProgress
  int64_t step = 0, steps = 0;         // of the batch that runs; kProgress and later
  int64_t index = 0;                   // which of the request's pictures; kPreview, kImage
  int64_t preview_index = 0;           // kPreview
  std::shared_ptr<const Image> image;  // kPreview, kImage
  uint64_t seed = 0;                   // kImage
  int64_t prompt_tokens = 0;           // kImage, kDone
  // With kDone.
  double guidance_scale = 0;
  std::map<std::string, double> stage_s;  // seconds in "text_encode", "denoise" and "decode"
  int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;  // of the process, or of its device's allocator
  std::vector<std::string> notes;  // fields without effect, what was cut off prompts
  std::optional<Error> error;      // with kFailed
};

// Called on the engine's thread; must return fast and not throw.
using ImageSink = std::function<void(ImageEvent)>;

}  // namespace quaver::pipeline
