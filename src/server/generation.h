// The engine's runs behind one HTTP request: started together, heard in one place, ended together.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "llm/request.h"
#include "pipeline/pipeline.h"
#include "server/errors.h"
#include "server/http_types.h"

namespace quaver::server {

// What a route does with the news. All calls come from reply.post(), so they never overlap. An exception from
// on_event ends the request as on_failure does.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  virtual void on_event(size_t index, llm::Event event) = 0;
  virtual void on_all_finished() = 0;
  // At most once, instead of on_all_finished.
  virtual void on_failure(const ApiError& error) = 0;
};

// Kept alive by the engine's sinks. When the client goes away every run is aborted.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(pipeline::TextPipeline& pipeline, std::shared_ptr<Reply> reply,
             std::unique_ptr<GenerationListener> listener);

  // Submits all; when one is refused the others are aborted and the refusal is thrown. Events are heard only
  // after all have been taken, so a refusal can still be an HTTP status.
  void start(std::vector<llm::Request> requests, bool draining);

 private:
  void open();
  void deliver(size_t index, llm::Event event);
  void hear(size_t index, llm::Event event);
  void fail(ApiError error);
  void abort_all();

  pipeline::TextPipeline& pipeline_;
  std::shared_ptr<Reply> reply_;
  std::unique_ptr<GenerationListener> listener_;
  std::vector<std::string> ids_;  // set before the first submit, then constant
  std::atomic<bool> gone_{false};
  bool draining_ = false;

  // On the reply's strand only.
  bool opened_ = false, ended_ = false;
  size_t unfinished_ = 0;
  std::vector<std::pair<size_t, llm::Event>> early_;
};

}  // namespace quaver::server
