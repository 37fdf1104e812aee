#include "server/server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "server/default_params.h"
#include "server/dispatcher.h"

namespace quaver::server {
namespace {

void check(const ServerOptions& options) {
  auto wrong = [](const char* flag, const char* what) {
    throw Error(ErrorKind::kInvalidInput, cat(flag, " ", what), flag);
  };
  if (options.http.io_threads < 1 || options.worker_threads < 1) wrong("threads", "must be at least 1");
  for (const std::string& key : options.api_keys)
    if (key.empty()) wrong("api-key", "must not be empty");
  for (const std::string& name : options.served_model_names)
    if (name.empty()) wrong("served-model-name", "must not be empty");
  if (options.max_logprobs < 0) wrong("max-logprobs", "must be at least 0");
  check_default_params(options.default_sampling_params);
}

}  // namespace

struct Server::Impl {
  // The end of a pipe that a signal handler may write to.
  class Wakeup {
   public:
    Wakeup() {
      require(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) == 0, ErrorKind::kInternal, "cannot make a pipe");
    }
    ~Wakeup() {
      ::close(ends_[0]);
      ::close(ends_[1]);
    }
    void signal() noexcept {
      char byte = 1;
      [[maybe_unused]] ssize_t written = ::write(ends_[1], &byte, 1);
    }
    // Waits up to `milliseconds` (-1 = for ever); true when signalled.
    bool wait(int milliseconds) {
      pollfd entry{ends_[0], POLLIN, 0};
      char byte;
      return ::poll(&entry, 1, milliseconds) > 0 && ::read(ends_[0], &byte, 1) == 1;
    }

   private:
    std::array<int, 2> ends_{};
  };

  explicit Impl(ServerOptions o)
      : options((check(o), std::move(o))),
        dispatcher(options, state),
        http(http_options(), [this](HttpRequest request, std::shared_ptr<Reply> reply) {
          dispatcher(std::move(request), std::move(reply));
        }) {
    state.started_at = static_cast<int64_t>(std::time(nullptr));
    state.live_requests = [this] { return http.live_requests(); };
    http.every(5, [this] {
      if (auto model = dispatcher.model()) dispatcher.metrics().collect(model->pipeline);
    });
  }

  HttpOptions http_options() {
    HttpOptions out = options.http;
    out.on_answer = [this](int status) { dispatcher.metrics().count_response(status); };
    return out;
  }

  void drain() {
    state.draining = true;
    http.drain();
    log_info("draining: ", http.live_requests(), " requests under way");
    // On a thread of its own, since a second signal must be heard meanwhile.
    auto model = dispatcher.model();
    drainer = std::thread([this, model] {
      if (model) model->pipeline.drain(options.drain_timeout_s);
      http.wait_until_idle(5);  // the last answers leave
      wakeup.signal();
    });
  }

  void stop() {
    std::call_once(stopped, [this] {
      dispatcher.stop_media();  // or they would ask a model that may be gone after this
      http.stop();
      done = true;
      wakeup.signal();
    });
  }

  ServerOptions options;
  ServerState state;
  Dispatcher dispatcher;
  HttpServer http;
  Wakeup wakeup;
  std::atomic<int> signals{0};
  std::atomic<bool> done{false};
  std::once_flag stopped;
  std::thread drainer;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() {
  stop();
  if (impl_->drainer.joinable()) impl_->drainer.join();
}

uint16_t Server::port() const { return impl_->http.port(); }

void Server::start() { impl_->http.start(); }

void Server::attach(pipeline::Pipeline& pipeline) {
  impl_->dispatcher.attach(std::make_shared<const ServedModel>(pipeline, impl_->options));
}

void Server::terminate() noexcept {
  ++impl_->signals;
  impl_->wakeup.signal();
}

void Server::wait() {
  bool draining = false;
  while (!impl_->done) {
    if (!impl_->wakeup.wait(-1)) continue;
    int signals = impl_->signals;
    bool first = signals > 0 && !draining;
    if (first) {
      draining = true;
      impl_->drain();
    }
    // Not the first signal: the second one, or the news that the drain is over.
    if (draining && (!first || signals > 1)) break;
  }
  stop();
}

void Server::stop() { impl_->stop(); }

}  // namespace quaver::server
