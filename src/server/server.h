// The OpenAI-compatible server: options, start, drain, stop. The way in for applications.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "pipeline/pipeline.h"
#include "server/http_server.h"
#include "server/media_fetch.h"

namespace quaver::server {

struct ServerOptions {
  HttpOptions http;
  std::string version = "0.0.0";                  // for /version
  std::vector<std::string> api_keys;              // empty = no key is asked for
  std::vector<std::string> served_model_names;    // empty = the model's path
  json default_sampling_params = json::object();  // over the checkpoint's generation config
  bool trust_request_chat_template = false;
  int max_logprobs = 20;  // alternatives per token a request may ask for; -1 (all) is allowed within limits
  std::string tool_call_parser;              // "" = found from the chat template
  bool parse_reasoning = true;               // false: thinking stays in the content
  std::vector<std::string> allowed_origins;  // CORS; empty = none, "*" = any
  MediaPolicy media;                         // what URLs in requests may point at
  int worker_threads = 2;                    // rendering and tokenizing, off the I/O threads
  int media_threads = 8;                     // for requests whose media may have to be fetched first
  double drain_timeout_s = 30;               // after the first signal; what is left then is aborted
};

// Life: construct (binds) - start() (answers 503) - attach() when the model is ready - wait(). Thread safe.
// The pipeline must outlive the server.
class Server {
 public:
  // Throws Error(kUnavailable) when the address cannot be bound, Error(kInvalidInput) on impossible options.
  explicit Server(ServerOptions options);
  ~Server();  // stops

  uint16_t port() const;
  void start();
  // Throws Error(kInvalidInput) on options that do not fit the model. May be called again for another model.
  void attach(pipeline::Pipeline& pipeline);

  // The first call drains: new requests get 503, live ones finish. The second stops at once. May be called
  // from a signal handler.
  void terminate() noexcept;
  // Returns when a drain has ended or stop() was called.
  void wait();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quaver::server
