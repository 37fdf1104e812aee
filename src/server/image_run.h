// One request in a picture model's engine: heard on worker threads, one event after the other, aborted when
// its client goes away.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "pipeline/pipeline.h"
#include "server/errors.h"
#include "server/http_types.h"
#include "server/workers.h"

namespace quaver::server {

// What a route does with the news. Calls never overlap. They may take their time (encoding a picture does),
// as they come from worker threads. An exception from on_event ends the request as on_failure does.
class ImageListener {
 public:
  virtual ~ImageListener() = default;
  virtual void on_event(const pipeline::ImageEvent& event) = 0;
  // At most once; nothing follows it.
  virtual void on_failure(const ApiError& error) = 0;
};

// Kept alive by the engine's sink.
class ImageRun : public std::enable_shared_from_this<ImageRun> {
 public:
  ImageRun(pipeline::ImagePipeline& pipeline, Workers& workers, std::shared_ptr<Reply> reply,
           std::unique_ptr<ImageListener> listener);

  // Queues the request; throws what the pipeline refuses.
  void start(pipeline::ImageRequest request);

 private:
  void take(pipeline::ImageEvent event);
  void work_later();
  void work();
  void hear(const pipeline::ImageEvent& event);
  void fail(ApiError error);
  void leave();

  pipeline::ImagePipeline& pipeline_;
  Workers& workers_;
  std::shared_ptr<Reply> reply_;
  std::unique_ptr<ImageListener> listener_;
  std::string id_;  // set by start, then constant

  std::mutex mutex_;  // guards the rest
  std::deque<pipeline::ImageEvent> events_;
  bool working_ = false;  // a task is on its way
  bool over_ = false;     // the client has gone or the answer is complete
};

}  // namespace quaver::server
