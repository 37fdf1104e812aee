// The engine's thread-safe side: checks, queueing, drain and shutdown.
#include "llm/engine.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "llm/engine_loop.h"
#include "llm/inbox.h"

namespace quaver::llm {
namespace {

constexpr int64_t kMaxPromptLogprobs = int64_t{1} << 24;

uint64_t random_seed() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

void check_option(bool good, const char* field, std::string_view message) {
  if (!good) throw Error(ErrorKind::kInvalidInput, cat(field, " ", message), field);
}

const EngineOptions& checked(const EngineOptions& options) {
  check_option(options.block_size >= 1, "block_size", "must be at least 1");
  check_option(options.num_blocks >= 1, "num_blocks", "must be at least 1");
  check_option(options.max_queue >= 1, "max_queue", "must be at least 1");
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(EngineModel engine_model, const EngineOptions& options)
      : model(std::move(engine_model)),
        inbox(options.max_queue),
        loop(model, checked(options), inbox, board) {
    thread = std::thread([this] { loop.run(); });
  }
  ~Impl() {
    inbox.stop();
    thread.join();
  }

  int32_t vocab_size() const { return static_cast<int32_t>(model.model->info().vocab_size); }
  void check(const Request& request) const;
  void check_ends(const SamplingParams& params) const;
  void check_scores(const Request& request) const;

  EngineModel model;
  Inbox inbox;
  StatsBoard board;
  EngineLoop loop;
  std::thread thread;
};

void Engine::Impl::check(const Request& request) const {
  for (int32_t token : request.prompt)
    if (token < 0 || token >= vocab_size())
      throw Error(ErrorKind::kInvalidInput,
                  cat("prompt has token id ", token, ", outside the vocabulary of ", vocab_size()), "prompt");
  validate_sampling(request.sampling, vocab_size());
  check_ends(request.sampling);
  check_scores(request);
  loop.check(static_cast<int32_t>(std::min<size_t>(request.prompt.size(), INT32_MAX)),
             request.sampling.max_tokens);
}

void Engine::Impl::check_ends(const SamplingParams& params) const {
  auto ends = [&](int32_t token) {
    return std::ranges::find(model.end_tokens, token) != model.end_tokens.end() ||
           std::ranges::find(params.stop_token_ids, token) != params.stop_token_ids.end();
  };
  bool only_ends = !params.allowed_token_ids.empty() && std::ranges::all_of(params.allowed_token_ids, ends);
  if (only_ends && params.min_tokens > 0)
    throw Error(ErrorKind::kInvalidInput,
                "allowed_token_ids holds only tokens that end the answer, which min_tokens forbids",
                "allowed_token_ids");
}

// They are all kept until the prompt is computed.
void Engine::Impl::check_scores(const Request& request) const {
  int64_t count = request.sampling.prompt_logprobs.value_or(0);
  int64_t entries = static_cast<int64_t>(request.prompt.size()) * (count < 0 ? vocab_size() : count);
  if (entries > kMaxPromptLogprobs)
    throw Error(ErrorKind::kInvalidInput,
                cat("prompt_logprobs of this prompt would be ", entries, " numbers; at most ",
                    kMaxPromptLogprobs, " are kept"),
                "prompt_logprobs");
}

Engine::Engine(EngineModel model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Engine::~Engine() = default;

void Engine::submit(Request request, EventSink sink) {
  impl_->check(request);
  LiveRequest::Setup setup{impl_->model.tokenizer.get(), impl_->model.end_tokens, random_seed()};
  impl_->inbox.submit(std::make_unique<LiveRequest>(std::move(request), std::move(sink), setup));
}

void Engine::abort(const std::string& id) { impl_->inbox.abort(id); }

Stats Engine::stats() {
  Stats stats = impl_->board.take();
  stats.waiting += impl_->inbox.num_queued();
  return stats;
}

bool Engine::healthy() const { return impl_->loop.healthy(); }

void Engine::drain(double seconds) {
  impl_->inbox.close();
  if (impl_->inbox.wait_until_idle(seconds)) return;
  impl_->inbox.abort_all();
  impl_->inbox.wait_until_idle(60);  // one step
}

}  // namespace quaver::llm
