#include "server/dispatcher.h"

#include <algorithm>
#include <exception>

#include "server/access.h"
#include "server/errors.h"
#include "server/ids.h"

namespace quaver::server {
namespace {

// The client's own name for its request when it is harmless, else a random one.
std::string request_name(const HttpRequest& request) {
  const std::string* given = request.header("x-request-id");
  auto harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  };
  bool good =
      given && !given->empty() && given->size() <= 128 && std::all_of(given->begin(), given->end(), harmless);
  return good ? *given : random_hex(32);
}

void answer_preflight(const HttpRequest& request, Reply& reply) {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                      {"Access-Control-Max-Age", "600"}};
  const std::string* headers = request.header("access-control-request-headers");
  response.headers.emplace_back("Access-Control-Allow-Headers", headers && headers->size() <= 1024
                                                                    ? *headers
                                                                    : "Authorization, Content-Type");
  reply.send(std::move(response));
}

ApiError method_error(const HttpRequest& request, const std::string& allowed) {
  if (allowed.empty())
    return ApiError(404, "Not Found", cat("there is no route '", request.path.substr(0, 200), "' here"));
  return http_error(405,
                    cat("the method ", request.method, " is not allowed on this route; allowed: ", allowed));
}

}  // namespace

void Dispatcher::attach(std::shared_ptr<const ServedModel> model) {
  std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<const ServedModel> Dispatcher::model() const {
  std::lock_guard lock(mutex_);
  return model_;
}

void Dispatcher::operator()(HttpRequest request, std::shared_ptr<Reply> reply) {
  reply->add_header("X-Request-Id", request_name(request));
  for (auto& [name, value] : cors_headers(request, options_.allowed_origins)) reply->add_header(name, value);
  try {
    handle(std::move(request), reply);
  } catch (...) {
    reply->send(error_response(to_api_error(std::current_exception(), state_.draining)));
  }
}

void Dispatcher::handle(HttpRequest request, const std::shared_ptr<Reply>& reply) {
  if (is_preflight(request, options_.allowed_origins)) return answer_preflight(request, *reply);
  Match match = find_route(all_routes(), request.method, request.path);
  bool open = !match.rows.empty() && match.rows.front().open;
  if (!open && !is_authorized(request, options_.api_keys))
    throw http_error(401, "this route needs a valid API key: Authorization: Bearer KEY");
  if (match.rows.empty() && !match.allowed.empty()) reply->add_header("Allow", match.allowed + ", OPTIONS");
  if (match.rows.empty() && request.method == "OPTIONS" && !match.allowed.empty())
    return reply->send({.status = 204, .body = ""});
  if (match.rows.empty()) throw method_error(request, match.allowed);
  request.captures = std::move(match.captures);
  const Route& route = choose(match.rows);
  if (std::shared_ptr<Reply> kept = answers_->admit(request, reply))
    run(route, {std::move(request), std::move(kept), model(), options_, state_, metrics_, workers_});
}

const Route& Dispatcher::choose(std::span<const Route> rows) const {
  if (rows.front().ability.empty()) return rows.front();
  std::shared_ptr<const ServedModel> served = model();
  if (!served) throw http_error(503, "the model is still being loaded");
  if (rows.front().ability == "model") return rows.front();
  auto row = std::ranges::find_if(rows, [&](const Route& r) { return r.handler && served->can(r.ability); });
  if (row == rows.end()) refuse_route(rows.front());
  if (state_.draining) throw http_error(503, "the server is shutting down");
  return *row;
}

void Dispatcher::refuse_route(const Route& route) const {
  if (route.ability == "chat" && model()->can("completions"))
    throw refused("this model has no chat template; /v1/completions works without one");
  std::string abilities;
  for (const std::string& ability : model()->pipeline.card().capabilities)
    abilities += cat(abilities.empty() ? "" : ", ", ability);
  throw ApiError(404, "NotFoundError",
                 cat("this server cannot serve ", route.path, ": the model has no ", route.ability,
                     " ability; it has: ", abilities));
}

void Dispatcher::run(const Route& route, Call call) {
  if (route.run_on == RunOn::kIoThread) return route.handler(std::move(call));
  auto shared = std::make_shared<Call>(std::move(call));  // a std::function must be copyable
  Workers& workers = route.run_on == RunOn::kMedia ? media_workers_ : workers_;
  workers.run([handler = route.handler, shared, this] {
    std::shared_ptr<Reply> reply = shared->reply;
    try {
      handler(std::move(*shared));
    } catch (...) {
      reply->send(error_response(to_api_error(std::current_exception(), state_.draining)));
    }
  });
}

}  // namespace quaver::server
