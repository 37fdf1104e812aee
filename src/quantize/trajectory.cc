#include "quantize/trajectory.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "diffusion/image_job.h"
#include "quantize/caption_list.h"
#include "quantize/dit_rows.h"

namespace quaver::quantize {

namespace {

// One step of each of `count` equal parts of the way, drawn by the caption's own generator.
std::vector<int64_t> drawn_steps(int64_t steps, int64_t count, std::mt19937_64& random) {
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * steps / count, end = std::max(first + 1, (i + 1) * steps / count);
    drawn.push_back(first + static_cast<int64_t>(random() % static_cast<uint64_t>(end - first)));
  }
  return drawn;
}

models::DitInput entry_of(const models::DitInput& input, int64_t entry) {
  auto one = [&](const at::Tensor& x) { return x.defined() ? x.narrow(0, entry, 1) : x; };
  return {.latents = one(input.latents),
          .text = one(input.text),
          .pooled = one(input.pooled),
          .sigma = one(input.sigma),
          .guidance = one(input.guidance),
          .rope = input.rope};
}

class Sampler {
 public:
  Sampler(const diffusion::ImagePipeline& model, const TrajectoryOptions& options)
      : model_(model),
        options_(options),
        captions_(load_captions(options.dataset, options.prompts, options.seed)) {
    check();
    const auto count = static_cast<int64_t>(captions_.size());
    out_.prompts = std::min(count, options.samples);
    out_.steps = options.steps > 0 ? options.steps : model.facts().defaults.steps;
  }

  Trajectory run(ProgressSink& progress) {
    for (int64_t prompt = 0; prompt < out_.prompts; ++prompt) {
      progress.update(prompt, out_.prompts, "drawing pictures to calibrate on");
      draw(prompt);
    }
    return std::move(out_);
  }

 private:
  void check() const {
    const diffusion::ImageFacts& facts = model_.facts();
    require(options_.samples >= 1, ErrorKind::kInvalidInput, "--calib_samples must be at least 1, got ",
            options_.samples);
    require(options_.steps >= 0, ErrorKind::kInvalidInput, "--num_inference_steps must be at least 1, got ",
            options_.steps);
    require(options_.text_tokens >= 0 && options_.text_tokens <= facts.defaults.text_tokens,
            ErrorKind::kInvalidInput, "--max_sequence_length must be 1 to ", facts.defaults.text_tokens,
            ", got ", options_.text_tokens);
    const double guidance = options_.guidance_scale.value_or(0);
    require(guidance >= 0 && std::isfinite(guidance), ErrorKind::kInvalidInput,
            "--guidance_scale must be a number from 0 on, got ", guidance);
    for (const int64_t side : {options_.width, options_.height})
      require(side >= 0 && side % facts.unit == 0, ErrorKind::kInvalidInput,
              "--width and --height must be multiples of ", facts.unit, ", got ", side);
  }

  diffusion::ImageSpec spec_of(int64_t prompt) const {
    const diffusion::ImageFacts& facts = model_.facts();
    return {.prompt = captions_[static_cast<size_t>(prompt)],
            .negative_prompt = {},
            .width = options_.width > 0 ? options_.width : facts.default_width,
            .height = options_.height > 0 ? options_.height : facts.default_height,
            .steps = out_.steps,
            .text_tokens = options_.text_tokens > 0 ? options_.text_tokens : facts.defaults.text_tokens,
            .guidance = model_.guidance(options_.guidance_scale, {}, false),
            .seed = options_.seed + static_cast<uint64_t>(prompt)};
  }

  // The share of this caption: the first ones give one more where the samples don't divide.
  int64_t samples_of(int64_t prompt) const {
    return (prompt + 1) * options_.samples / out_.prompts - prompt * options_.samples / out_.prompts;
  }

  void draw(int64_t prompt) {
    std::mt19937_64 random(options_.seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(prompt));
    std::vector<int64_t> wanted = drawn_steps(out_.steps, samples_of(prompt), random);
    diffusion::ImageJob job(model_, {spec_of(prompt)});
    while (!wanted.empty()) {
      for (; !wanted.empty() && wanted.front() == job.steps_done(); wanted.erase(wanted.begin())) keep(job);
      if (!wanted.empty()) job.step();
    }
  }

  void keep(const diffusion::ImageJob& job) {
    const models::DitInput all = job.next_input();
    const models::DitInput input = entry_of(all, kept_ % all.latents.size(0));
    const models::DitContext context = model_.transformer().context(input);
    const at::Tensor row = dit_rows(model_.transformer().embed(input), context);
    if (!out_.rows.defined()) {
      out_.rows = at::empty({options_.samples, row.size(1), row.size(2)}, row.options());
      out_.rope = {context.rope.cos.clone(), context.rope.sin.clone()};  // tuning keeps no inference tensors
      out_.text_tokens = input.text.size(1);
    }
    out_.rows.select(0, kept_++).copy_(row[0]);
  }

  const diffusion::ImagePipeline& model_;
  const TrajectoryOptions& options_;
  std::vector<std::string> captions_;
  Trajectory out_;
  int64_t kept_ = 0;
};

}  // namespace

Trajectory sample_trajectory(const diffusion::ImagePipeline& model, const TrajectoryOptions& options,
                             ProgressSink& progress) {
  at::NoGradGuard no_gradients;
  return Sampler(model, options).run(progress);
}

}  // namespace quaver::quantize
