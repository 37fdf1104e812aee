// GET /health, /ping, /version, /load: is the server up, what is it, how busy is it.
#include "server/endpoints.h"
#include "server/served_model.h"
#include "server/server.h"
#include "server/sse.h"

namespace quaver::server {

void health(Call call) {
  bool good = call.model && !call.state.draining && call.model->pipeline.healthy();
  HttpResponse response = json_response({{"status", good ? "healthy" : "unhealthy"}});
  if (!good) {
    response.status = 503;
    response.headers.emplace_back("Retry-After", "1");
  }
  call.reply->send(std::move(response));
}

void version(Call call) { call.reply->send(json_response({{"version", call.options.version}})); }

// The request that asks is not part of the load.
void load(Call call) {
  call.reply->send(json_response({{"server_load", std::max(call.state.live_requests() - 1, 0)}}));
}

}  // namespace quaver::server
