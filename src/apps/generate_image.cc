#include "apps/generate_image.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>

#include "apps/interrupt.h"
#include "apps/lora_flags.h"
#include "apps/model_hash.h"
#include "apps/picture_files.h"
#include "apps/terminal_picture.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/progress.h"
#include "diffusion/image_job.h"
#include "media/decode.h"
#include "media/resize.h"
#include "pipeline/image_check.h"

namespace quaver::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

pipeline::ImageRequest complete_request(const PictureJob& job) {
  pipeline::ImageRequest request = request_of(job.flags);
  request.prompt = job.prompt;
  request.strength = job.strength;
  require(job.seed.value_or(0) >= 0, ErrorKind::kInvalidInput, "--seed is ", job.seed.value_or(0),
          ", expected 0 or more");
  if (job.seed) request.seed = static_cast<uint64_t>(*job.seed);
  if (!job.image.empty())
    request.source = std::make_shared<Image>(decode_image(MappedFile::open(job.image)->bytes(), job.image));
  if (!job.mask_image.empty())
    request.mask =
        std::make_shared<GrayImage>(decode_mask(MappedFile::open(job.mask_image)->bytes(), job.mask_image));
  return request;
}

TextMetadata metadata_of(const diffusion::ImageSpec& spec, const diffusion::ImageFacts& facts,
                         const std::string& name, const std::string& hash) {
  const bool only_true = facts.defaults.guidance_kind == diffusion::GuidanceKind::kTrue;
  TextMetadata text = {{"prompt", spec.prompt}};
  if (!spec.negative_prompt.empty()) text.emplace_back("negative_prompt", spec.negative_prompt);
  text.emplace_back("seed", cat(spec.seed));
  text.emplace_back("num_inference_steps", cat(spec.steps));
  text.emplace_back("guidance_scale", cat(only_true ? spec.guidance.scale : spec.guidance.embedded));
  if (!only_true && spec.guidance.branches() > 1)
    text.emplace_back("true_cfg_scale", cat(spec.guidance.scale));
  if (spec.source) text.emplace_back("strength", cat(spec.strength));
  if (const std::string lora = adapters_text(facts.adapters, spec.adapter_scales); !lora.empty())
    text.emplace_back("lora", lora);
  text.emplace_back("size", cat(spec.width, "x", spec.height));
  text.emplace_back("model", name);
  text.emplace_back("model_hash", hash);
  text.emplace_back("Software", "quaver " QUAVER_VERSION);
  return text;
}

// What a run shows while it goes: the bar, and pictures where the terminal can show them.
class PictureProgress {
 public:
  PictureProgress(int64_t steps, bool quiet) : total_(steps) {
    if (quiet) return;
    bar_ = make_terminal_progress("drawing");
    if (const auto protocol = terminal_pictures()) picture_.emplace(*protocol);
  }

  void stepped(const diffusion::ImageJob& job, double seconds) {
    ++done_;
    spent_ += seconds;
    char note[40];
    std::snprintf(note, sizeof note, "%.2f s/step", spent_ / static_cast<double>(done_));
    if (picture_ && seconds_since(shown_) >= kSecondsBetweenPictures) show(job.preview(0, kSide));
    if (bar_) bar_->update(done_, total_, note);
  }
  void decoded(const Image& image) {
    if (picture_) show(smaller(image));
  }
  void finish(int64_t pictures) {
    if (bar_) bar_->finish(cat(pictures, pictures == 1 ? " picture" : " pictures"));
  }
  void stop(const std::string& note) {
    if (bar_) bar_->finish(note);
  }
  int64_t done() const { return done_; }

 private:
  static constexpr double kSecondsBetweenPictures = 1;
  static constexpr int kSide = 256;

  static Image smaller(const Image& image) {
    const double shrink = std::min(1.0, double(kSide) / std::max(image.width, image.height));
    return resize(image, std::max(1, int(image.width * shrink)), std::max(1, int(image.height * shrink)),
                  Resample::kBox);
  }
  void show(const Image& image) {
    picture_->show(image);
    shown_ = Clock::now();
  }

  int64_t total_, done_ = 0;
  double spent_ = 0;
  Clock::time_point shown_ = Clock::now();
  std::unique_ptr<ProgressSink> bar_;
  std::optional<TerminalPicture> picture_;
};

class PictureRun {
 public:
  PictureRun(const PictureJob& job, PictureFiles files, const diffusion::ImagePipeline& model,
             std::vector<diffusion::ImageSpec> specs)
      : job_(job),
        files_(std::move(files)),
        model_(model),
        specs_(std::move(specs)),
        hash_(model_hash(pipeline::open_image_folder(job.model))),
        progress_(model.schedule(specs_.front()).steps() * static_cast<int64_t>(specs_.size()), job.quiet) {}

  // Whatever ends the run, files that are there are told.
  ~PictureRun() {
    for (const std::string& line : lines_) std::printf("%s\n", line.c_str());
  }
  PictureRun(const PictureRun&) = delete;
  PictureRun& operator=(const PictureRun&) = delete;

  int run() {
    // One at a time: a step of a batch costs as much as the steps of its pictures.
    for (size_t index = 0; index < specs_.size(); ++index)
      if (!draw(index)) return stopped(index);
    progress_.finish(static_cast<int64_t>(specs_.size()));
    return 0;
  }

 private:
  bool draw(size_t index) {
    diffusion::ImageJob job(model_, {specs_[index]});
    for (const std::string& note : job.notes(0))
      if (told_.insert(note).second) log_warning(note);
    while (job.steps_done() < job.steps()) {
      if (watch_.interrupted()) return false;
      const Clock::time_point start = Clock::now();
      job.step();
      progress_.stepped(job, seconds_since(start));
    }
    if (watch_.interrupted()) return false;
    const Image image = job.decode(0);
    const auto number = static_cast<int64_t>(index);
    files_.write(number, image, metadata_of(specs_[index], model_.facts(), job_.name, hash_));
    progress_.decoded(image);
    const std::string path = files_.path(number).string();
    lines_.push_back(job_.quiet ? path : cat(path, "  seed ", specs_[index].seed));
    return true;
  }

  int stopped(size_t index) {
    const int64_t steps = model_.schedule(specs_.front()).steps();
    progress_.stop(cat("stopped after ", progress_.done() - static_cast<int64_t>(index) * steps, " of ",
                       steps, " steps; ", files_.path(static_cast<int64_t>(index)).string(),
                       " was not written"));
    return kInterrupted;
  }

  const PictureJob& job_;
  PictureFiles files_;
  const diffusion::ImagePipeline& model_;
  std::vector<diffusion::ImageSpec> specs_;
  std::string hash_;
  PictureProgress progress_;
  InterruptWatch watch_;
  std::set<std::string> told_;
  std::vector<std::string> lines_;  // printed at the end, below the bar
};

// With the size that memory is planned for; sizes that can't be are refused with the model at hand.
pipeline::ImagePipelineOptions planned(const PictureJob& job, const pipeline::ImageRequest& request) {
  pipeline::ImagePipelineOptions model = job.model;
  model.tell_memory = !job.quiet;
  constexpr int64_t kLongestSide = 1 << 17;
  const int64_t width = request.width.value_or(request.source ? request.source->width : 0);
  const int64_t height = request.height.value_or(request.source ? request.source->height : 0);
  if (std::min(width, height) < 1 || std::max(width, height) > kLongestSide) return model;
  model.planned_width = width;
  model.planned_height = height;
  return model;
}

}  // namespace

int generate_pictures(const PictureJob& job) {
  const pipeline::ImageRequest request = complete_request(job);
  require(request.count >= 1, ErrorKind::kInvalidInput, "--num-images-per-prompt is ", request.count,
          ", expected 1 or more");
  PictureFiles files(job.output, request.count);
  const std::shared_ptr<const diffusion::ImagePipeline> model =
      pipeline::load_image_model(planned(job, request));
  std::vector<diffusion::ImageSpec> specs =
      pipeline::check_image_request(request, *model, kCommandLineLimits);
  for (const std::string& note : idle_fields(request, model->facts(), specs.front().guidance))
    log_warning(note);
  return PictureRun(job, std::move(files), *model, std::move(specs)).run();
}

}  // namespace quaver::apps
