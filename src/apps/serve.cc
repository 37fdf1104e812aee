// quaver serve: the OpenAI-compatible server. Flags are those of vllm serve; each is also QUAVER_<NAME>.
#include <array>
#include <csignal>
#include <cstdio>
#include <optional>

#include "apps/commands.h"
#include "apps/lora_flags.h"
#include "apps/model_argument.h"
#include "apps/model_kind.h"
#include "apps/picture_flags.h"
#include "apps/ranks.h"
#include "apps/text_flags.h"
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/diffusers_folder.h"
#include "pipeline/open_image_pipeline.h"
#include "server/default_params.h"
#include "server/server.h"

namespace quaver::apps {
namespace {

struct ServeFlags {
  pipeline::TextPipelineOptions model;    // what both kinds of model have stands here
  pipeline::ImagePipelineOptions images;  // what only models of pictures have
  server::ServerOptions server;
  std::string default_sampling_params;
  PictureModelFlags vae;
  RankFlags ranks;
  LoraFlags lora;
  bool omni = false, no_access_log = false;
};

void group_flags(CLI::App& app) {
  group_under(app, kForText,
              {"kv-cache-dtype", "kv-cache-memory", "max-model-len", "tie-embeddings",
               "max-num-batched-tokens", "block-size", "enable-prefix-caching", "enable-chunked-prefill",
               "max-logprobs", "tool-call-parser", "trust-request-chat-template"});
  group_under(app, kForPictures,
              {"cache", "transformer", "vae-use-tiling", "vae-use-slicing", "offload",
               "max-generated-image-size", "lora", "lora-path", "lora-scale", "lora-modules"});
}

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

pipeline::ImagePipelineOptions picture_options(const ServeFlags& flags, Ranks& ranks) {
  pipeline::ImagePipelineOptions options = flags.images;
  options.model = flags.model.model;
  options.device = ranks.device();
  options.ranks = ranks.world();
  options.dtype = flags.model.dtype;
  options.max_num_seqs = flags.model.max_num_seqs;
  options.max_queue = flags.model.max_queue;
  options.strict_activations = flags.model.strict_activations;
  options.quantization = flags.model.quantization;
  options.rounding = flags.model.rounding;
  options.cache = flags.vae.cache;
  options.transformer = flags.vae.transformer;
  options.vae_tiling = flags.vae.vae_tiling;
  options.offload = flags.vae.offload;
  options.memory_limit = flags.model.memory_limit;
  options.tell_memory = true;
  options.adapters = adapters_of(flags.lora);
  return options;
}

// What a client may leave unread: its pictures, all of one request, in base64.
void make_room_for_pictures(server::HttpLimits& limits, int64_t max_pixels) {
  limits.stream_backlog_bytes += static_cast<size_t>(max_pixels) * 3 * 4 / 3;
}

std::string capacity(const pipeline::Pipeline& model, const ServeFlags& flags, bool pictures) {
  return pictures ? cat(flags.images.limits.max_pixels, " pixels")
                  : cat(model.card().max_model_len, " tokens");
}

// A server that has lost a rank can't serve: it tells its requests so and ends.
class LossWatch {
 public:
  LossWatch(std::optional<Ranks>& ranks, server::Server& server) : ranks_(ranks) {
    if (ranks_) ranks_->on_loss([&server] { server.terminate(); });
  }
  ~LossWatch() {
    if (ranks_) ranks_->on_loss({});
  }
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

 private:
  std::optional<Ranks>& ranks_;
};

int run_serve(const CLI::App& app, ServeFlags flags) {
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
  const bool pictures = DiffusersFolder::is(flags.model.model);
  refuse_given(pictures ? kForText : kForPictures, app, flags.model.model);
  server::check_default_params(flags.server.default_sampling_params,
                               pictures ? server::ModelKind::kPictures : server::ModelKind::kText);
  if (flags.omni) log_warning("--omni has no effect: what a model makes is seen from its files");
  tell_of_vae_flags(flags.vae);
  if (pictures) make_room_for_pictures(flags.server.http.limits, flags.images.limits.max_pixels);
  std::optional<Ranks> ranks;
  if (pictures) ranks.emplace(flags.ranks, flags.model.device);
  if (ranks && !ranks->leads()) return follow(picture_options(flags, *ranks));
  server::Server server(flags.server);
  handle_signals(server);
  const LossWatch watch(ranks, server);
  server.start();
  std::printf("listening on http://%s:%d, loading %s\n", flags.server.http.host.c_str(), server.port(),
              flags.model.model.c_str());
  std::fflush(stdout);
  std::unique_ptr<pipeline::Pipeline> model;
  if (pictures)
    model = pipeline::open_image_pipeline(picture_options(flags, *ranks));
  else
    model = pipeline::open_text_pipeline(flags.model);
  server.attach(*model);
  std::printf("ready: http://%s:%d/v1, up to %s per request\n", flags.server.http.host.c_str(), server.port(),
              capacity(*model, flags, pictures).c_str());
  std::fflush(stdout);
  server.wait();
  server.stop();
  g_server = nullptr;
  return ranks && ranks->lost() ? 1 : 0;
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

void add_picture_flags(CLI::App& app, ServeFlags& flags) {
  add_cache_flag(app, "cache", flags.vae.cache);
  add_transformer_flag(app, flags.vae);
  add_vae_flags(app, flags.vae);
  add_offload_flag(app, flags.vae);
  add_rank_flags(app, flags.ranks);
  add_lora_flags(app, flags.lora);
  add_lora_modules_flag(app, flags.lora);
  app.add_option(both_spellings("max-generated-image-size"), flags.images.limits.max_pixels,
                 "most pixels of a request's pictures together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_http_flags(CLI::App& app, ServeFlags& flags) {
  add_flag(app, "host", flags.server.http.host, "address to listen on");
  add_flag(app, "port", flags.server.http.port, "0 = any free one");
  app.add_option("--api-key", flags.server.api_keys,
                 "key that requests must carry; may be given several times");
  app.add_option("--served-model-name", flags.server.served_model_names,
                 "names of the model; default: what MODEL says");
  app.add_option("--allowed-origins", flags.server.allowed_origins, "origins for browsers (CORS); * = any");
  app.add_option("--allowed-media-domains", flags.server.media.domains,
                 "hosts that pictures may be fetched from; default: any with a public address");
  add_flag(app, "allowed-local-media-path", flags.server.media.local_path,
           "folder below which file: URLs of requests are read; default: none");
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
  add_picture_flags(app, *flags);
  add_http_flags(app, *flags);
  group_flags(app);
  name_environment_variables(app);
  return [flags, &app] { return run_serve(app, *flags); };
}

}  // namespace quaver::apps
