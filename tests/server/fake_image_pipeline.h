// A picture pipeline that paints each picture in the colour of its seed, a step at a time, many requests at
// once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/pipeline.h"

namespace quaver::server::testing {

inline Image painted(int64_t width, int64_t height, uint64_t seed) {
  Image image{static_cast<int>(width), static_cast<int>(height), {}};
  for (int64_t i = 0; i < width * height; ++i)
    for (int channel = 0; channel < 3; ++channel)
      image.rgb.push_back(static_cast<uint8_t>(seed >> (8 * channel)));
  return image;
}

class FakeImagePipeline : public pipeline::ImagePipeline {
 public:
  FakeImagePipeline() {
    card_.path = "/models/painter";
    card_.capabilities = {"image_generation", "image_edit"};
    card_.quantization = {{"transformer", "none"}};
    card_.generation_defaults = json::object();
    facts_ = {.family = "fake",
              .defaults = {.steps = 4,
                           .text_tokens = 512,
                           .guidance_kind = diffusion::GuidanceKind::kDistilled,
                           .guidance_scale = 3.5},
              .unit = 16,
              .default_width = 32,
              .default_height = 32,
              .adapters = {{.name = "style", .path = "/loras/style.safetensors", .scale = 0.5}}};
    thread_ = std::thread([this] { work(); });
  }
  ~FakeImagePipeline() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Set before requests come.
  int64_t max_pixels = 512 * 512;
  std::chrono::milliseconds step{0};
  size_t queue_limit = 1000;
  std::optional<Error> failure;  // ends every request at its second step

  const pipeline::ModelCard& card() const override { return card_; }
  const diffusion::ImageFacts& facts() const override { return facts_; }

  uint64_t submit(pipeline::ImageRequest request, pipeline::ImageSink sink) override {
    check(request);
    std::lock_guard lock(mutex_);
    require(live_.size() < queue_limit && !draining_, ErrorKind::kUnavailable, "the queue is full");
    seen_.push_back(request);
    const uint64_t seed = request.seed.value_or(seen_.size() + 1000);
    live_.push_back({std::move(request), std::move(sink), seed});
    changed_.notify_all();
    return seed;
  }
  void abort(const std::string& id) override {
    std::lock_guard lock(mutex_);
    for (const Live& live : live_)
      if (live.request.id == id) aborting_.insert(id);
    changed_.notify_all();
  }
  pipeline::Stats stats() override {
    std::lock_guard lock(mutex_);
    pipeline::Stats out;
    out.running = static_cast<int64_t>(live_.size());
    out.finished_abort = aborted_;
    return out;
  }
  bool healthy() const override { return true; }
  void drain(double seconds) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return live_.empty(); }))
      return;
    for (const Live& live : live_) aborting_.insert(live.request.id);
    changed_.notify_all();
    changed_.wait(lock, [&] { return live_.empty(); });
  }

  std::vector<pipeline::ImageRequest> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  size_t live() {
    std::lock_guard lock(mutex_);
    return live_.size();
  }
  bool wait_for_live(size_t count, double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [&] { return live_.size() == count; });
  }
  int64_t aborted() {
    std::lock_guard lock(mutex_);
    return aborted_;
  }

 private:
  struct Live {
    pipeline::ImageRequest request;
    pipeline::ImageSink sink;
    uint64_t seed;
    int64_t step = 0;
  };

  int64_t side(const std::optional<int64_t>& wanted, const pipeline::ImageRequest& request,
               bool width) const {
    if (wanted) return *wanted;
    if (request.source) return width ? request.source->width : request.source->height;
    return width ? facts_.default_width : facts_.default_height;
  }

  // What the real check refuses and no server can know.
  void check(const pipeline::ImageRequest& request) const {
    const auto refuse_if = [](bool wrong, const char* field) {
      if (wrong) throw Error(ErrorKind::kInvalidInput, std::string(field) + " is out of range", field);
    };
    const int64_t width = side(request.width, request, true), height = side(request.height, request, false);
    refuse_if(request.prompt.find_first_not_of(" \t\n") == std::string::npos || request.prompt.size() > 65536,
              "prompt");
    refuse_if(width < 1 || height < 1 || width > 65536 || height > 65536, "size");
    refuse_if(width % facts_.unit != 0 || height % facts_.unit != 0, "size");
    refuse_if(width * height * request.count > max_pixels, "size");
    refuse_if(request.adapter && request.adapter->name != facts_.adapters.front().name &&
                  request.adapter->path != facts_.adapters.front().path,
              "lora");
    refuse_if(request.strength && (!request.source || *request.strength <= 0 || *request.strength > 1),
              "strength");
    refuse_if(request.text_tokens && (*request.text_tokens < 1 || *request.text_tokens > 512),
              "max_sequence_length");
    refuse_if(request.mask && !request.source, "mask_image");
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !live_.empty(); });
      if (live_.empty()) return;
      for (auto it = live_.begin(); it != live_.end();) {
        Live& live = *it;
        const bool abort = stopping_ || aborting_.erase(live.request.id) > 0;
        lock.unlock();
        const bool over = advance(live, abort);
        lock.lock();
        if (abort) ++aborted_;
        it = over ? live_.erase(it) : std::next(it);
      }
      changed_.notify_all();
      lock.unlock();
      step.count() ? std::this_thread::sleep_for(step) : std::this_thread::yield();
      lock.lock();
    }
  }

  // One step of one request; true when that was its last event.
  bool advance(Live& live, bool abort) {
    using Kind = pipeline::ImageEvent::Kind;
    const int64_t steps = live.request.steps.value_or(facts_.defaults.steps);
    const auto tell = [&](Kind kind, auto change) {
      pipeline::ImageEvent event;
      event.kind = kind;
      event.request_id = live.request.id;
      event.step = live.step, event.steps = steps;
      change(event);
      live.sink(std::move(event));
    };
    const auto nothing = [](pipeline::ImageEvent&) {};
    if (abort) return tell(Kind::kAborted, nothing), true;
    if (live.step == 0) tell(Kind::kQueued, [](auto& event) { event.queue_position = 2, event.step = 0; });
    if (++live.step == 2 && failure)
      return tell(Kind::kFailed, [&](auto& event) { event.error = failure; }), true;
    tell(Kind::kProgress, nothing);
    const int64_t width = side(live.request.width, live.request, true),
                  height = side(live.request.height, live.request, false);
    if (live.step <= live.request.previews)
      tell(Kind::kPreview, [&](auto& event) {
        event.preview_index = live.step - 1;
        event.image = std::make_shared<const Image>(painted(8, 8, live.seed));
      });
    if (live.step < steps) return false;
    for (int64_t i = 0; i < live.request.count; ++i)
      tell(Kind::kImage, [&](auto& event) {
        event.index = i;
        event.seed = live.seed + static_cast<uint64_t>(i);
        event.image = std::make_shared<const Image>(painted(width, height, event.seed));
        event.prompt_tokens = 9;
      });
    tell(Kind::kDone, [&](auto& event) {
      event.prompt_tokens = 9;
      event.guidance_scale = live.request.guidance_scale.value_or(facts_.defaults.guidance_scale);
      event.stage_s = {{"text_encode", 0.25}, {"denoise", 2}, {"decode", 0.5}};
      event.peak_allocated_bytes = 1 << 20;
      event.peak_reserved_bytes = 2 << 20;
    });
    return true;
  }

  pipeline::ModelCard card_;
  diffusion::ImageFacts facts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Live> live_;
  std::set<std::string> aborting_;
  std::vector<pipeline::ImageRequest> seen_;
  int64_t aborted_ = 0;
  bool stopping_ = false, draining_ = false;
  std::thread thread_;
};

}  // namespace quaver::server::testing
