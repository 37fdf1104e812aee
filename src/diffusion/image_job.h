// One batch of pictures on its way from noise: a step at a time, so that others may look in or stop it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "diffusion/image_pipeline.h"

namespace quaver::diffusion {

// Borrows the pipeline. Not thread safe. Every picture of a batch is the one that its spec gives alone,
// unless the pipeline has a step cache, which decides for the batch as a whole.
class ImageJob {
 public:
  // Encodes prompts and sources. Precondition: the specs may share a batch; there is at least one.
  ImageJob(const ImagePipeline& pipeline, std::vector<ImageSpec> specs);

  const std::vector<ImageSpec>& specs() const { return specs_; }
  int64_t steps() const { return schedule_.steps(); }
  int64_t steps_done() const { return done_; }
  int64_t steps_skipped() const { return cache_.skipped(); }  // by a step cache
  int64_t prompt_tokens(size_t index) const { return prompt_tokens_.at(index); }
  // What was cut off a picture's prompts: the texts are its own.
  const std::vector<std::string>& notes(size_t index) const { return notes_.at(index); }

  // What the transformer sees at the next step: all pictures' positive branches, then the negative ones.
  // Precondition: steps_done() < steps().
  models::DitInput next_input() const;
  // Same precondition. Error(kNonFinite) naming the component.
  void step();
  // The latents as tokens, float32, on the device.
  const at::Tensor& latents() const { return latents_; }  // [batch, tokens, channels]
  // What the picture looks like so far, small and rough: at most `side` pixels wide and high.
  Image preview(size_t index, int64_t side) const;
  // Precondition: all steps are done. Error(kNonFinite) naming the autoencoder where its output is not
  // finite, or one flat colour.
  Image decode(size_t index) const;

 private:
  struct Branch {
    at::Tensor text, pooled;  // of all pictures
  };

  Branch encode(const std::function<std::string_view(const ImageSpec&)>& prompt_of);
  void fix_input();
  void start();
  at::Tensor velocity();
  at::Tensor unpacked(const at::Tensor& tokens, size_t index) const;  // [1, c, h, w]

  const ImagePipeline& pipeline_;
  std::vector<ImageSpec> specs_;
  Schedule schedule_;
  int64_t rows_, cols_, done_ = 0;
  std::vector<int64_t> prompt_tokens_;
  std::vector<std::vector<std::string>> notes_;  // beside specs_
  Branch positive_, negative_;
  models::DitInput input_;  // what is the same at every step
  at::Tensor latents_, last_velocity_;
  at::Tensor source_, noise_, mask_;  // of jobs that start from pictures, as tokens
  StepCache cache_;
};

}  // namespace quaver::diffusion
