#include "server/connection_reply.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "server/connection.h"

namespace quaver::server {
namespace {

// Everything is handed to the connection's strand. The headers to add are collected under a mutex, because
// they may be set by one thread and sent by another.
class ConnectionReply : public Reply {
 public:
  ConnectionReply(std::shared_ptr<Connection> connection, uint64_t number, HttpShared& shared)
      : connection_(std::move(connection)), number_(number), shared_(shared) {
    std::lock_guard lock(shared_.mutex);
    ++shared_.replies;
  }
  ~ConnectionReply() override {
    // Posted, so that it comes behind an answer that another thread has just handed over.
    boost::asio::post(connection_->executor(), [c = connection_, number = number_] { c->dropped(number); });
    connection_.reset();
    std::lock_guard lock(shared_.mutex);
    --shared_.replies;
    shared_.changed.notify_all();
  }

  void add_header(std::string name, std::string value) override {
    std::lock_guard lock(mutex_);
    extra_.emplace_back(std::move(name), std::move(value));
  }
  void send(HttpResponse response) override {
    on_strand([response = std::move(response), extra = extra()](Connection& c, uint64_t number) mutable {
      c.send(number, std::move(response), extra);
    });
  }
  void start_stream(std::string content_type) override {
    on_strand([type = std::move(content_type), extra = extra()](Connection& c, uint64_t number) {
      c.start_stream(number, type, extra);
    });
  }
  void write(std::string piece) override {
    on_strand([piece = std::move(piece)](Connection& c, uint64_t number) { c.write_piece(number, piece); });
  }
  void end() override {
    on_strand([](Connection& c, uint64_t number) { c.end_stream(number); });
  }
  void on_gone(std::function<void()> callback) override {
    on_strand([callback = std::move(callback)](Connection& c, uint64_t number) mutable {
      c.set_gone(number, std::move(callback));
    });
  }
  void post(std::function<void()> task) override {
    boost::asio::post(connection_->executor(), std::move(task));
  }

 private:
  template <class Call>
  void on_strand(Call call) {
    boost::asio::dispatch(connection_->executor(),
                          [connection = connection_, number = number_, call = std::move(call)]() mutable {
                            call(*connection, number);
                          });
  }
  Headers extra() {
    std::lock_guard lock(mutex_);
    return extra_;
  }

  std::shared_ptr<Connection> connection_;
  const uint64_t number_;
  HttpShared& shared_;
  std::mutex mutex_;
  Headers extra_;
};

}  // namespace

std::shared_ptr<Reply> make_reply(std::shared_ptr<Connection> connection, uint64_t number) {
  HttpShared& shared = connection->shared();
  return std::make_shared<ConnectionReply>(std::move(connection), number, shared);
}

}  // namespace quaver::server
