#include "diffusion/image_job.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nan_to_num.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "diffusion/latents.h"
#include "diffusion/pixels.h"
#include "nn/low_rank.h"

namespace quaver::diffusion {

namespace {

at::Tensor repeated(const at::Tensor& x, int64_t times) {  // along the batch
  return times == 1 ? x : at::cat(std::vector<at::Tensor>(static_cast<size_t>(times), x));
}

}  // namespace

ImageJob::ImageJob(const ImagePipeline& pipeline, std::vector<ImageSpec> specs)
    : pipeline_(pipeline),
      specs_(std::move(specs)),
      schedule_(pipeline.schedule(specs_.front())),
      rows_(specs_.front().height / pipeline.facts().unit),
      cols_(specs_.front().width / pipeline.facts().unit),
      cache_(pipeline.options().cache) {
  c10::InferenceMode no_gradients;
  const nn::LowRankScope adapters(specs_.front().adapter_scales);
  positive_ = encode([](const ImageSpec& spec) { return std::string_view(spec.prompt); });
  if (specs_.front().guidance.branches() > 1)
    negative_ = encode([](const ImageSpec& spec) { return std::string_view(spec.negative_prompt); });
  fix_input();
  start();
}

void ImageJob::fix_input() {
  const Guidance& guidance = specs_.front().guidance;
  const int64_t branches = guidance.branches();
  auto both = [&](const at::Tensor& a, const at::Tensor& b) {
    return branches > 1 && a.defined() ? at::cat({a, b}) : a;
  };
  input_.text = both(positive_.text, negative_.text);
  input_.pooled = both(positive_.pooled, negative_.pooled);
  input_.rope = pipeline_.transformer().rope(input_.text.size(1), rows_, cols_);
  const at::TensorOptions number = at::TensorOptions().dtype(at::kFloat).device(input_.text.device());
  if (pipeline_.transformer().info().takes_guidance)
    input_.guidance = at::full({input_.text.size(0)}, guidance.embedded, number);
}

ImageJob::Branch ImageJob::encode(const std::function<std::string_view(const ImageSpec&)>& prompt_of) {
  std::vector<at::Tensor> text, pooled;
  const bool first = !positive_.text.defined();
  notes_.resize(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) {
    PromptRows rows = pipeline_.prompts().encode(prompt_of(specs_[i]), specs_[i].text_tokens);
    text.push_back(rows.text);
    if (rows.pooled.defined()) pooled.push_back(rows.pooled);
    if (first) prompt_tokens_.push_back(rows.tokens);
    std::ranges::move(rows.notes, std::back_inserter(notes_[i]));
  }
  return {at::cat(text), pooled.empty() ? at::Tensor() : at::cat(pooled)};
}

void ImageJob::start() {
  const int64_t scale = pipeline_.facts().unit / 2, channels = pipeline_.vae().info().latent_channels;
  const std::vector<int64_t> shape = {1, channels, 2 * rows_, 2 * cols_};
  const at::Device device = pipeline_.options().load.device;
  std::vector<at::Tensor> noise, source, mask;
  for (const ImageSpec& spec : specs_) {
    SeededNoise random(spec.seed);
    if (spec.source) {
      const models::LatentDistribution encoded =
          pipeline_.vae().encode(pixels_of(*spec.source), pipeline_.options().vae);
      check_finite(encoded.mean, "vae", "for the source picture");
      source.push_back(pack(encoded.sample(random.draw(shape).to(device)).to(at::kFloat)));
    }
    noise.push_back((spec.noise.defined() ? spec.noise : pack(random.draw(shape))).to(device));
    if (spec.mask) {
      // The nearest pixel of each latent's square is its first.
      const at::Tensor coarse = mask_of(*spec.mask).slice(2, 0, {}, scale).slice(3, 0, {}, scale);
      mask.push_back(pack(coarse.expand(shape)).to(device));
    }
  }
  noise_ = at::cat(noise);
  latents_ = noise_;
  if (source.empty()) return;
  source_ = at::cat(source);
  if (!mask.empty()) mask_ = at::cat(mask);
  latents_ = noised(source_, noise_, schedule_.sigmas.front());
}

models::DitInput ImageJob::next_input() const {
  const int64_t branches = specs_.front().guidance.branches();
  models::DitInput input = input_;
  input.latents = repeated(latents_, branches);
  input.sigma = at::full({branches * latents_.size(0)}, schedule_.sigmas.at(static_cast<size_t>(done_)),
                         latents_.options());
  return input;
}

at::Tensor ImageJob::velocity() {
  const Guidance& guidance = specs_.front().guidance;
  const int64_t batch = latents_.size(0);
  const at::Tensor out = pipeline_.velocity(cache_, next_input());
  check_finite(out, "transformer", cat("at step ", done_ + 1, " of ", steps()));
  if (guidance.branches() == 1) return out.to(at::kFloat);
  return guided(guidance, out.narrow(0, 0, batch), out.narrow(0, batch, batch));
}

void ImageJob::step() {
  c10::InferenceMode no_gradients;
  const nn::LowRankScope adapters(specs_.front().adapter_scales);
  const double sigma = schedule_.sigmas.at(static_cast<size_t>(done_));
  const double next = schedule_.sigmas.at(static_cast<size_t>(done_) + 1);
  last_velocity_ = velocity();
  latents_ = euler_step(latents_, last_velocity_, sigma, next);
  if (mask_.defined()) latents_ = (1 - mask_) * noised(source_, noise_, next) + mask_ * latents_;
  ++done_;
}

at::Tensor ImageJob::unpacked(const at::Tensor& tokens, size_t index) const {
  return unpack(tokens.narrow(0, static_cast<int64_t>(index), 1), rows_, cols_);
}

Image ImageJob::preview(size_t index, int64_t side) const {
  c10::InferenceMode no_gradients;
  const double sigma = schedule_.sigmas.at(static_cast<size_t>(done_));
  at::Tensor guess = last_velocity_.defined() ? latents_ - sigma * last_velocity_ : latents_;
  guess = unpacked(guess, index);
  const int64_t scale = pipeline_.facts().unit / 2;
  const double shrink = std::min(
      1.0, static_cast<double>(side) / static_cast<double>(scale * std::max(guess.size(2), guess.size(3))));
  auto smaller = [&](int64_t size) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * shrink));
  };
  if (shrink < 1) guess = at::adaptive_avg_pool2d(guess, {smaller(guess.size(2)), smaller(guess.size(3))});
  return image_of(pipeline_.vae().decode(guess)[0].nan_to_num(0));
}

Image ImageJob::decode(size_t index) const {
  c10::InferenceMode no_gradients;
  const at::Tensor pixels = pipeline_.vae().decode(unpacked(latents_, index), pipeline_.options().vae)[0];
  check_finite(pixels, "vae", "for the finished latents");
  Image image = image_of(pixels);
  require(!is_constant(image), ErrorKind::kNonFinite,
          "vae gave a picture of one flat colour; the latents or its weights are damaged");
  return image;
}

}  // namespace quaver::diffusion
