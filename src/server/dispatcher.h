// What happens to every request before and around its handler: name, key, CORS, route, readiness, errors.
#pragma once

#include <memory>
#include <mutex>

#include "server/call.h"
#include "server/idempotency.h"
#include "server/metrics.h"
#include "server/router.h"
#include "server/served_model.h"
#include "server/server.h"
#include "server/workers.h"

namespace quaver::server {

// Thread safe. Borrows the options and the state.
class Dispatcher {
 public:
  Dispatcher(const ServerOptions& options, ServerState& state)
      : options_(options),
        state_(state),
        workers_(options.worker_threads),
        media_workers_(options.media_threads) {}

  void operator()(HttpRequest request, std::shared_ptr<Reply> reply);
  void attach(std::shared_ptr<const ServedModel> model);
  std::shared_ptr<const ServedModel> model() const;
  Metrics& metrics() { return metrics_; }
  // Waits for those who fetch media, for as long as that may take; the requests behind them are dropped.
  void stop_media() { media_workers_.stop(); }

 private:
  void handle(HttpRequest request, const std::shared_ptr<Reply>& reply);
  // The row that serves now; throws when there is none.
  const Route& choose(std::span<const Route> rows) const;
  void run(const Route& route, Call call);
  [[noreturn]] void refuse_route(const Route& route) const;

  const ServerOptions& options_;
  ServerState& state_;
  Metrics metrics_;
  const std::shared_ptr<IdempotentAnswers> answers_ =
      std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{});
  mutable std::mutex mutex_;
  std::shared_ptr<const ServedModel> model_;
  Workers workers_, media_workers_;  // last: their tasks use the rest, those of the media the other ones
};

}  // namespace quaver::server
