// A server on a free port of the loopback address, with a scripted pipeline behind it.
#pragma once

#include <string>

#include "base/log.h"
#include "server/fake_pipeline.h"
#include "server/http_client.h"
#include "server/server.h"

namespace quaver::server::testing {

inline ServerOptions test_options() {
  set_log_level(LogLevel::kOff);
  ServerOptions options;
  options.http.port = 0;
  options.http.limits.body_bytes = 1 << 20;
  options.served_model_names = {"fake", "alias"};
  options.version = "1.2.3";
  return options;
}

struct TestServer {
  explicit TestServer(ServerOptions options = test_options()) : server(std::move(options)) {
    server.start();
    server.attach(pipeline);
  }

  Answer request(std::string_view method, std::string_view path, std::string_view body = "",
                 std::string_view headers = "") {
    return HttpClient(server.port()).request(method, path, body, headers);
  }
  Answer post(std::string_view path, const json& body, std::string_view headers = "") {
    return request("POST", path, body.dump(), headers);
  }
  Answer chat(json extra = json::object()) {
    json body = {{"model", "fake"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    body.update(extra);
    return post("/v1/chat/completions", body);
  }
  Answer complete(json extra = json::object()) {
    json body = {{"model", "fake"}, {"prompt", "hi"}, {"max_tokens", 100}};
    body.update(extra);
    return post("/v1/completions", body);
  }

  FakePipeline pipeline;  // before the server: it must outlive it
  Server server;
};

}  // namespace quaver::server::testing
