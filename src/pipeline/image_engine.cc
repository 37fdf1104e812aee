#include "pipeline/image_engine.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "diffusion/image_job.h"
#include "nn/step_error.h"
#include "pipeline/peak_memory.h"

namespace quaver::pipeline {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = ImageEvent::Kind;

// A request on its way. The engine's thread owns it but for `aborted`.
struct LiveRequest {
  std::string id;
  ImageSink sink;
  int64_t previews = 0, preview_side = 0;
  std::deque<diffusion::ImageSpec> waiting;  // pictures that no batch has taken
  int64_t taken = 0, finished = 0, total = 0;
  int64_t prompt_tokens = 0;
  double guidance_scale = 0;
  std::vector<std::string> idle, notes;  // fields without effect; what was cut off the prompts
  std::map<std::string, double> stage_s;
  std::atomic<bool> aborted{false};
  bool ended = false;
  int64_t told_position = -1;  // in the queue, as last reported
  Clock::time_point arrived = Clock::now();

  void send(ImageEvent event) const {
    event.request_id = id;
    sink(std::move(event));
  }
};
using LivePtr = std::shared_ptr<LiveRequest>;

// One picture of a batch: whose, and which of its pictures.
struct Seat {
  LivePtr request;
  int64_t index;
};

// The guidance that a reply reports: the number that the request's own field stands for.
double shown_guidance(const diffusion::ImageFacts& facts, const diffusion::Guidance& guidance) {
  return facts.defaults.guidance_kind == diffusion::GuidanceKind::kTrue ? guidance.scale : guidance.embedded;
}

// Adds the time of its life to a stage of everyone's request.
class StageClock {
 public:
  StageClock(const char* stage, std::vector<Seat> seats) : stage_(stage), seats_(std::move(seats)) {}
  ~StageClock() {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const LiveRequest* last = nullptr;  // seats of one request stand together
    for (const Seat& seat : seats_)
      if (std::exchange(last, seat.request.get()) != seat.request.get())
        seat.request->stage_s[stage_] += seconds;
  }

 private:
  const char* stage_;
  const std::vector<Seat> seats_;
  const Clock::time_point start_ = Clock::now();
};

// Previews are spread evenly over the steps: after which step the next one is due; 0 when none is left.
int64_t preview_step(int64_t previews, int64_t made, int64_t steps) {
  return made < previews ? std::max<int64_t>(1, steps * (made + 1) / (previews + 1)) : 0;
}

class ImageEngine : public ImagePipeline {
 public:
  ImageEngine(std::shared_ptr<const diffusion::ImagePipeline> model, ModelCard card,
              const ImageEngineOptions& options)
      : model_(std::move(model)), card_(std::move(card)), options_(options), thread_([this] { run(); }) {}

  ~ImageEngine() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const LivePtr& request : live_) request->aborted = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const ModelCard& card() const override { return card_; }
  const diffusion::ImageFacts& facts() const override { return model_->facts(); }
  bool healthy() const override { return healthy_ && !model_->lost_ranks(); }
  Stats stats() override { return board_.take(); }

  uint64_t submit(ImageRequest request, ImageSink sink) override {
    std::vector<diffusion::ImageSpec> specs = check_image_request(request, *model_, options_.limits);
    auto live = std::make_shared<LiveRequest>();
    live->id = request.id;
    live->sink = std::move(sink);
    live->previews = request.previews;
    live->preview_side = request.preview_side;
    live->total = request.count;
    live->guidance_scale = shown_guidance(model_->facts(), specs.front().guidance);
    live->idle = idle_fields(request, model_->facts(), specs.front().guidance);
    const uint64_t seed = specs.front().seed;
    live->waiting.assign(std::make_move_iterator(specs.begin()), std::make_move_iterator(specs.end()));
    {
      std::lock_guard lock(mutex_);
      require(!stopping_ && !draining_, ErrorKind::kUnavailable, "the server is shutting down");
      require(static_cast<int64_t>(live_.size()) < options_.max_queue, ErrorKind::kUnavailable,
              "the queue is full: ", live_.size(), " requests wait");
      live_.push_back(std::move(live));
    }
    changed_.notify_all();
    return seed;
  }

  void abort(const std::string& id) override {
    std::lock_guard lock(mutex_);
    for (const LivePtr& request : live_)
      if (request->id == id) request->aborted = true;
    changed_.notify_all();
  }

  void drain(double seconds) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    const auto all_gone = [&] { return live_.empty(); };
    if (drained_.wait_for(lock, std::chrono::duration<double>(seconds), all_gone)) return;
    for (const LivePtr& request : live_) request->aborted = true;
    changed_.notify_all();
    drained_.wait(lock, all_gone);
  }

 private:
  void run() {
    c10::InferenceMode no_gradients;
    while (wait_for_work()) {
      std::vector<Seat> seats;
      tell_positions();  // those that start at once hear so, too
      std::vector<diffusion::ImageSpec> specs = next_batch(seats);
      look_around();
      if (!specs.empty()) run_batch(specs, seats);
      look_around();
    }
    healthy_ = false;
  }

  bool wait_for_work() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || !live_.empty(); });
    return !stopping_ || !live_.empty();
  }

  std::vector<LivePtr> live() {
    std::lock_guard lock(mutex_);
    return {live_.begin(), live_.end()};
  }

  // To those that wait, where it has changed.
  void tell_positions() {
    int64_t position = 0;
    for (const LivePtr& request : live()) {
      if (request->taken == 0 && std::exchange(request->told_position, position) != position) {
        ImageEvent event{.kind = Kind::kQueued};
        event.queue_position = position;
        request->send(std::move(event));
      }
      ++position;
    }
  }

  // The oldest picture that waits and all that may go with it, in order of arrival.
  std::vector<diffusion::ImageSpec> next_batch(std::vector<Seat>& seats) {
    std::vector<diffusion::ImageSpec> specs;
    for (const LivePtr& request : live()) {
      while (!request->waiting.empty() && static_cast<int64_t>(specs.size()) < options_.max_batch) {
        if (!specs.empty() && !diffusion::may_share_batch(specs.front(), request->waiting.front())) break;
        specs.push_back(std::move(request->waiting.front()));
        request->waiting.pop_front();
        seats.push_back({request, request->taken++});
      }
    }
    return specs;
  }

  static bool all_gone(const std::vector<Seat>& seats) {
    return std::ranges::all_of(seats, [](const Seat& seat) { return seat.request->aborted.load(); });
  }

  // A batch that fails is made picture by picture, so that only those at fault end with the error.
  void run_batch(const std::vector<diffusion::ImageSpec>& specs, const std::vector<Seat>& seats) {
    try {
      run_job(specs, seats);
    } catch (...) {
      const Error error = nn::step_error(std::current_exception());
      if (seats.size() == 1) return fail(*seats.front().request, error);
      log_warning("a batch of ", seats.size(), " pictures is made one by one: ", error.what());
      for (size_t i = 0; i < seats.size(); ++i)
        if (!seats[i].request->aborted && !seats[i].request->ended) run_batch({specs[i]}, {seats[i]});
    }
  }

  void run_job(const std::vector<diffusion::ImageSpec>& specs, const std::vector<Seat>& seats) {
    const auto timed = [&](const char* stage, auto work) {
      StageClock clock(stage, seats);
      return work();
    };
    auto job = timed("text_encode", [&] { return diffusion::ImageJob(*model_, specs); });
    while (job.steps_done() < job.steps() && !all_gone(seats)) {
      timed("denoise", [&] { job.step(); });
      tell_progress(job, seats);
      look_around();
    }
    for (size_t i = 0; i < seats.size() && !all_gone(seats); ++i) finish(job, seats[i], i);
  }

  // Every seat's request once, though it may hold several.
  static std::vector<Seat> first_seats(const std::vector<Seat>& seats) {
    std::vector<Seat> first;
    for (const Seat& seat : seats)
      if (first.empty() || first.back().request != seat.request) first.push_back(seat);
    return first;
  }

  void tell_progress(const diffusion::ImageJob& job, const std::vector<Seat>& seats) {
    for (const Seat& seat : first_seats(seats)) {
      if (seat.request->aborted) continue;
      ImageEvent event{.kind = Kind::kProgress};
      event.step = job.steps_done(), event.steps = job.steps();
      seat.request->send(std::move(event));
    }
    for (size_t i = 0; i < seats.size(); ++i) preview(job, seats[i], i);
  }

  void preview(const diffusion::ImageJob& job, const Seat& seat, size_t place) {
    const LiveRequest& request = *seat.request;
    if (request.aborted || job.steps_done() == job.steps()) return;
    for (int64_t made = 0; made < request.previews; ++made) {
      if (preview_step(request.previews, made, job.steps()) != job.steps_done()) continue;
      ImageEvent event{.kind = Kind::kPreview};
      event.step = job.steps_done(), event.steps = job.steps();
      event.index = seat.index, event.preview_index = made;
      event.image = std::make_shared<const Image>(job.preview(place, request.preview_side));
      request.send(std::move(event));
    }
  }

  // Does not throw: pictures that others have by now must not be made again.
  void finish(const diffusion::ImageJob& job, const Seat& seat, size_t place) {
    LiveRequest& request = *seat.request;
    if (request.aborted || request.ended) return;
    ImageEvent event{.kind = Kind::kImage};
    event.step = event.steps = job.steps();
    event.index = seat.index;
    event.seed = job.specs()[place].seed;
    try {
      StageClock clock("decode", {seat});
      event.image = std::make_shared<const Image>(job.decode(place));
    } catch (...) {
      return fail(request, nn::step_error(std::current_exception()));
    }
    request.prompt_tokens = event.prompt_tokens = job.prompt_tokens(place);
    request.notes = job.notes(place);
    request.send(std::move(event));
    if (++request.finished == request.total) succeed(request);
  }

  void succeed(LiveRequest& request) {
    consecutive_failures_ = 0;
    ImageEvent event{.kind = Kind::kDone};
    event.prompt_tokens = request.prompt_tokens;
    event.guidance_scale = request.guidance_scale;
    event.notes = request.idle;
    event.notes.insert(event.notes.end(), request.notes.begin(), request.notes.end());
    event.stage_s = request.stage_s;
    const PeakMemory peak = peak_memory(model_->options().load.device);
    event.peak_allocated_bytes = peak.allocated;
    event.peak_reserved_bytes = peak.reserved;
    end(request, std::move(event));
  }

  void fail(LiveRequest& request, const Error& error) {
    log_warning("pictures were not made: ", error.what());
    ImageEvent event{.kind = Kind::kFailed};
    event.error = error;
    end(request, std::move(event));
    constexpr int kTolerated = 8;
    if (error.kind() == ErrorKind::kInternal && ++consecutive_failures_ >= kTolerated) healthy_ = false;
  }

  void end(LiveRequest& request, ImageEvent event) {
    if (std::exchange(request.ended, true)) return;
    Stats step = counts_;
    switch (event.kind) {
      case Kind::kDone:
        step.finished_stop = 1;
        break;
      case Kind::kAborted:
        step.finished_abort = 1;
        break;
      default:
        step.finished_error = 1;
    }
    if (event.error && event.error->kind() == ErrorKind::kNonFinite) step.non_finite = 1;
    step.e2e_s.push_back(std::chrono::duration<double>(Clock::now() - request.arrived).count());
    request.waiting.clear();
    board_.add(step);
    request.send(std::move(event));
  }

  // Between steps: ends what was aborted, forgets what has ended, tells the rest where it stands.
  void look_around() {
    for (const LivePtr& request : live())
      if (request->aborted) end(*request, {.kind = Kind::kAborted});
    {
      std::lock_guard lock(mutex_);
      std::erase_if(live_, [](const LivePtr& request) { return request->ended; });
      counts_ = {};
      for (const LivePtr& request : live_) ++(request->taken > 0 ? counts_.running : counts_.waiting);
      if (live_.empty()) drained_.notify_all();
    }
    board_.add(counts_);
    tell_positions();
  }

  const std::shared_ptr<const diffusion::ImagePipeline> model_;
  const ModelCard card_;
  const ImageEngineOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_, drained_;
  std::list<LivePtr> live_;  // in order of arrival
  bool stopping_ = false, draining_ = false;
  std::atomic<bool> healthy_{true};
  int consecutive_failures_ = 0;
  Stats counts_;  // gauges alone
  llm::StatsBoard board_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<ImagePipeline> start_image_engine(std::shared_ptr<const diffusion::ImagePipeline> model,
                                                  ModelCard card, const ImageEngineOptions& options) {
  return std::make_unique<ImageEngine>(std::move(model), std::move(card), options);
}

}  // namespace quaver::pipeline
