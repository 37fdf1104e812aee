// quaver serve: the OpenAI-compatible server. Flags are those of vllm serve; each is also QUAVER_<NAME>.
#include <csignal>
#include <cstdio>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "server/server.h"

namespace quaver::apps {
namespace {

struct ServeFlags {
  pipeline::TextPipelineOptions model;
  server::ServerOptions server;
  std::string default_sampling_params;
  bool omni = false, no_access_log = false;
};

server::Server* g_server = nullptr;

void on_signal(int) {
  if (g_server != nullptr) g_server->terminate();
}

void handle_signals(server::Server& server) {
  g_server = &server;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

int run_serve(ServeFlags flags) {
  if (flags.server.served_model_names.empty() && is_repository(flags.model.model))
    flags.server.served_model_names.push_back(flags.model.model);
  flags.model.model = resolve_model(flags.model.model);
  flags.server.version = QUAVER_VERSION;
  flags.server.http.access_log = !flags.no_access_log;
  if (!flags.default_sampling_params.empty())
    flags.server.default_sampling_params =
        parse_json(flags.default_sampling_params, "--default-sampling-params");
  if (flags.server.api_keys.empty())
    if (auto key = env_string("VLLM_API_KEY")) flags.server.api_keys.push_back(*key);
  if (flags.omni) log_warning("--omni has no effect: this build serves text models only");
  server::Server server(flags.server);
  handle_signals(server);
  server.start();
  std::printf("listening on http://%s:%d, loading %s\n", flags.server.http.host.c_str(), server.port(),
              flags.model.model.c_str());
  std::fflush(stdout);
  std::unique_ptr<pipeline::Pipeline> model = pipeline::open_text_pipeline(flags.model);
  server.attach(*model);
  std::printf("ready: http://%s:%d/v1, up to %ld tokens per request\n", flags.server.http.host.c_str(),
              server.port(), model->card().max_model_len);
  std::fflush(stdout);
  server.wait();
  server.stop();
  g_server = nullptr;
  return 0;
}

void add_engine_flags(CLI::App& app, ServeFlags& flags) {
  add_flag(app, "max-num-seqs", flags.model.max_num_seqs,
           "requests computed together; 0 = chosen by the device");
  add_flag(app, "max-num-batched-tokens", flags.model.max_num_batched_tokens,
           "tokens of one step; 0 = chosen by the device");
  add_flag(app, "block-size", flags.model.block_size, "tokens per block of the cache");
  add_flag(app, "max-queue", flags.model.max_queue, "requests that may wait; more get 429");
  add_on_off(app, "enable-prefix-caching", flags.model.enable_prefix_caching,
             "compute equal prompt beginnings once");
  add_on_off(app, "enable-chunked-prefill", flags.model.enable_chunked_prefill,
             "compute long prompts in several steps");
}

void add_http_flags(CLI::App& app, ServeFlags& flags) {
  add_flag(app, "host", flags.server.http.host, "address to listen on");
  add_flag(app, "port", flags.server.http.port, "0 = any free one");
  app.add_option("--api-key", flags.server.api_keys,
                 "key that requests must carry; may be given several times");
  app.add_option("--served-model-name", flags.server.served_model_names,
                 "names of the model; default: what MODEL says");
  app.add_option("--allowed-origins", flags.server.allowed_origins, "origins for browsers (CORS); * = any");
  add_flag(app, "default-sampling-params", flags.default_sampling_params,
           "JSON: values where a request gives none");
  add_flag(app, "max-logprobs", flags.server.max_logprobs,
           "alternatives per token that a request may ask for");
  add_flag(app, "tool-call-parser", flags.server.tool_call_parser, "default: found from the chat template");
  add_on_off(app, "trust-request-chat-template", flags.server.trust_request_chat_template,
             "let requests bring their own template");
  add_switch(app, "disable-access-log", flags.no_access_log, "no line per request");
  add_switch(app, "omni", flags.omni, "accepted for compatibility");
}

}  // namespace

std::function<int()> add_serve(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  add_text_model_flags(app, flags->model);
  add_engine_flags(app, *flags);
  add_http_flags(app, *flags);
  name_environment_variables(app);
  return [flags] { return run_serve(*flags); };
}

}  // namespace quaver::apps
