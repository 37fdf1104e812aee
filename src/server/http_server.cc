#include "server/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/connection.h"
#include "server/errors.h"

namespace quaver::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// What a client over the limit gets: written by hand, since no connection object is made for it.
std::string full_house() {
  HttpResponse response =
      error_response(http_error(503, "the server has no free connection; try again later"));
  return cat(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: ",
      "close\r\nContent-Length: ", response.body.size(), "\r\n\r\n", response.body);
}

}  // namespace

struct HttpServer::Impl {
  Impl(HttpOptions o, HttpHandler handler)
      : options(std::move(o)),
        work(asio::make_work_guard(io)),
        strand(asio::make_strand(io)),
        acceptor(strand),
        retry(strand) {
    shared.limits = options.limits;
    shared.handler = std::move(handler);
    shared.access_log = options.access_log;
    shared.on_answer = options.on_answer;
    listen();
  }

  void listen() {
    std::string where = cat(options.host, ":", options.port);
    error_code error;
    auto found =
        tcp::resolver(io).resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    require(!error && !found.empty(), ErrorKind::kUnavailable, "cannot listen on ", where, ": ",
            error.message());
    tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    require(!error, ErrorKind::kUnavailable, "cannot listen on ", where, ": ", error.message());
    port = acceptor.local_endpoint().port();
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || stopping) return;
      if (error) return accept_later(error);
      admit(std::move(socket));
      accept();
    });
  }

  // Out of file descriptors, usually: trying at once would spin.
  void accept_later(error_code error) {
    log_warning("cannot accept a connection: ", error.message());
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([this](error_code stopped) {
      if (!stopped && !stopping) accept();
    });
  }

  void admit(tcp::socket socket) {
    size_t open;
    {
      std::lock_guard lock(shared.mutex);
      open = shared.connections.size();
    }
    if (open < static_cast<size_t>(options.limits.connections))
      return std::make_shared<Connection>(std::move(socket), shared)->start();
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(full_house()), ignored);
    socket.shutdown(tcp::socket::shutdown_both, ignored);
  }

  // A connection in the set cannot be destroyed while the mutex is held, but may be on its way there. The
  // references are given up outside of the mutex, which a connection's end takes.
  std::vector<std::shared_ptr<Connection>> connections() {
    std::vector<std::shared_ptr<Connection>> out;
    std::lock_guard lock(shared.mutex);
    for (Connection* connection : shared.connections)
      if (auto alive = connection->weak_from_this().lock()) out.push_back(std::move(alive));
    return out;
  }

  void tick(size_t index) {
    Periodic& p = periodic[index];
    p.timer.expires_after(std::chrono::milliseconds(static_cast<int64_t>(p.seconds * 1000)));
    p.timer.async_wait([this, index](error_code error) {
      if (error || stopping) return;
      periodic[index].task();
      tick(index);
    });
  }

  // False when requests hold on to the server still.
  bool stop() {
    if (stopping.exchange(true)) return true;
    asio::post(strand, [this] {  // where connections are admitted: none comes after this
      error_code ignored;
      acceptor.close(ignored);
      retry.cancel();
      for (Periodic& p : periodic) p.timer.cancel();
      for (const auto& connection : connections()) connection->close_soon();
    });
    bool clean = threads.empty() || wait(10, [this] { return shared.replies == 0; });
    work.reset();  // only now: what the engine still has to say needs a thread to run on
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    return clean;
  }

  template <class Condition>
  bool wait(double seconds, Condition condition) {
    std::unique_lock lock(shared.mutex);
    return shared.changed.wait_for(lock, std::chrono::duration<double>(seconds), condition);
  }

  struct Periodic {
    asio::steady_timer timer;
    double seconds;
    std::function<void()> task;
  };

  HttpOptions options;
  HttpShared shared;  // before io: connections die with io's pending operations and still use it
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::strand<asio::io_context::executor_type> strand;  // of the acceptor and the timers
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  std::deque<Periodic> periodic;
  std::vector<std::thread> threads;
  std::atomic<bool> stopping{false};
  uint16_t port = 0;
};

HttpServer::HttpServer(HttpOptions options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() { stop(); }

// An engine that hangs still holds replies, which point into the server: then it must outlive them.
void HttpServer::stop() {
  if (!impl_ || impl_->stop()) return;
  log_error("requests are still under way 10 s after the server was told to stop");
  static_cast<void>(impl_.release());
}

uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::start() {
  asio::post(impl_->strand, [impl = impl_.get()] { impl->accept(); });
  for (size_t i = 0; i < impl_->periodic.size(); ++i) impl_->tick(i);
  for (int i = 0; i < impl_->options.io_threads; ++i)
    impl_->threads.emplace_back([this] { impl_->io.run(); });
}

void HttpServer::drain() {
  impl_->shared.draining = true;
  for (const auto& connection : impl_->connections()) connection->close_if_idle();
}

int HttpServer::live_requests() const { return impl_->shared.unanswered; }

bool HttpServer::wait_until_idle(double seconds) {
  return impl_->wait(seconds, [this] { return impl_->shared.replies == 0 && impl_->shared.unwritten == 0; });
}

void HttpServer::every(double seconds, std::function<void()> task) {
  impl_->periodic.push_back({asio::steady_timer(impl_->strand), seconds, std::move(task)});
}

}  // namespace quaver::server
