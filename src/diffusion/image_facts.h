// What a picture model takes and what holds where a request says nothing; free of torch, for servers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quaver::diffusion {

// What a request's guidance scale means.
enum class GuidanceKind {
  kNone,       // the model was distilled without: the number has no effect
  kDistilled,  // an input of the model
  kTrue,       // weighs the prompt's branch against the negative prompt's
};

// What holds when a request leaves it out; those of the reference pipelines.
struct ImageDefaults {
  int64_t steps = 0, text_tokens = 0;  // tokens: of the longer text encoder, and the most it takes
  GuidanceKind guidance_kind = GuidanceKind::kNone;
  double guidance_scale = 0;
};

// A LoRA that was loaded with the model.
struct Adapter {
  std::string name, path;
  double scale = 1;     // how strongly, where a request that picks it doesn't say
  bool always = false;  // runs where a request picks none
};

struct ImageFacts {
  std::string family;
  ImageDefaults defaults;
  int64_t unit = 16;  // width and height are multiples of it
  int64_t default_width = 0, default_height = 0;
  std::vector<Adapter> adapters;
  int64_t guidance_ranks = 1;  // processes that share the branches of guidance
};

}  // namespace quaver::diffusion
