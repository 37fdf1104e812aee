#include "server/image_run.h"

#include <exception>

namespace quaver::server {

using Kind = pipeline::ImageEvent::Kind;

ImageRun::ImageRun(pipeline::ImagePipeline& pipeline, Workers& workers, std::shared_ptr<Reply> reply,
                   std::unique_ptr<ImageListener> listener)
    : pipeline_(pipeline), workers_(workers), reply_(std::move(reply)), listener_(std::move(listener)) {}

void ImageRun::start(pipeline::ImageRequest request) {
  id_ = request.id;
  pipeline_.submit(std::move(request),
                   [self = shared_from_this()](pipeline::ImageEvent event) { self->take(std::move(event)); });
  // After the request is there to be aborted: the client may have gone already.
  reply_->on_gone([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->leave();
  });
}

// On the engine's thread.
void ImageRun::take(pipeline::ImageEvent event) {
  {
    std::lock_guard lock(mutex_);
    if (over_) return;
    events_.push_back(std::move(event));
    if (std::exchange(working_, true)) return;
  }
  work_later();
}

void ImageRun::work_later() {
  workers_.run([self = shared_from_this()] { self->work(); });
}

// One event a turn, so that others get theirs.
void ImageRun::work() {
  pipeline::ImageEvent event;
  {
    std::lock_guard lock(mutex_);
    working_ = !events_.empty();
    if (!working_) return;
    event = std::move(events_.front());
    events_.pop_front();
  }
  hear(event);
  work_later();
}

void ImageRun::hear(const pipeline::ImageEvent& event) {
  try {
    if (event.kind == Kind::kAborted) return fail(http_error(503, "the server is shutting down"));
    if (event.kind == Kind::kFailed)
      return fail(to_api_error(
          event.error.value_or(Error(ErrorKind::kInternal, "the engine failed without saying why")), false));
    listener_->on_event(event);
  } catch (...) {
    fail(to_api_error(std::current_exception(), false));
  }
}

void ImageRun::fail(ApiError error) {
  if (error.status >= 500) error.request_id = id_;
  leave();
  listener_->on_failure(error);
}

void ImageRun::leave() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    events_.clear();
  }
  pipeline_.abort(id_);
}

}  // namespace quaver::server
