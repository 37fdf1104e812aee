// GET /metrics: the Prometheus page. Answers while loading, too.
#include "server/endpoints.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace quaver::server {

void metrics(Call call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = call.metrics.page(call.model ? &call.model->pipeline : nullptr,
                                    call.model ? call.model->names.front() : "");
  call.reply->send(std::move(response));
}

}  // namespace quaver::server
