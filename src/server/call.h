// What an endpoint gets: the request, the way back, the model that is loaded, and what the operator set.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "server/http_types.h"

namespace quaver::server {

struct ServerOptions;
struct ServedModel;
class Metrics;
class Workers;

// Facts of the running server that endpoints show.
struct ServerState {
  std::atomic<bool> draining{false};
  std::function<int()> live_requests;
  int64_t started_at = 0;  // Unix seconds
};

struct Call {
  HttpRequest request;
  std::shared_ptr<Reply> reply;
  std::shared_ptr<const ServedModel> model;  // null while loading; never null on routes that need it
  const ServerOptions& options;
  ServerState& state;
  Metrics& metrics;
  Workers& workers;
};

// Throws ApiError or Error to refuse; the dispatcher answers.
using Handler = void (*)(Call);

}  // namespace quaver::server
