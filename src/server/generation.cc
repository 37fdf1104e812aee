#include "server/generation.h"

#include <exception>

namespace quaver::server {

Generation::Generation(pipeline::TextPipeline& pipeline, std::shared_ptr<Reply> reply,
                       std::unique_ptr<GenerationListener> listener)
    : pipeline_(pipeline), reply_(std::move(reply)), listener_(std::move(listener)) {}

void Generation::start(std::vector<llm::Request> requests, bool draining) {
  draining_ = draining;
  unfinished_ = requests.size();
  for (const llm::Request& request : requests) ids_.push_back(request.id);
  reply_->on_gone([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->abort_all();
  });
  try {
    for (size_t i = 0; i < requests.size() && !gone_; ++i)
      pipeline_.submit(std::move(requests[i]), [self = shared_from_this(), i](llm::Event event) {
        // The hop off the engine's thread; everything else happens behind it.
        self->reply_->post(
            [self, i, event = std::move(event)]() mutable { self->deliver(i, std::move(event)); });
      });
  } catch (...) {
    abort_all();
    throw;
  }
  if (gone_) return abort_all();  // those submitted while the client left
  reply_->post([self = shared_from_this()] { self->open(); });
}

void Generation::open() {
  opened_ = true;
  for (auto& [index, event] : std::exchange(early_, {})) hear(index, std::move(event));
}

void Generation::deliver(size_t index, llm::Event event) {
  if (opened_)
    hear(index, std::move(event));
  else
    early_.emplace_back(index, std::move(event));
}

void Generation::hear(size_t index, llm::Event event) {
  if (ended_ || gone_) return;
  if (event.finish == llm::FinishReason::kError) {
    Error error = event.error.value_or(Error(ErrorKind::kInternal, "the engine failed without saying why"));
    return fail(to_api_error(error, draining_));
  }
  bool last = event.finish != llm::FinishReason::kNone;
  try {
    listener_->on_event(index, std::move(event));
    if (!last || --unfinished_ > 0) return;
    ended_ = true;
    listener_->on_all_finished();
  } catch (...) {
    fail(to_api_error(std::current_exception(), draining_));
  }
}

void Generation::fail(ApiError error) {
  ended_ = true;
  if (error.status >= 500) error.request_id = ids_.front();
  abort_all();
  listener_->on_failure(error);
}

void Generation::abort_all() {
  gone_ = true;
  for (const std::string& id : ids_) pipeline_.abort(id);
}

}  // namespace quaver::server
