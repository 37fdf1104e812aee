// One client's connection: reads requests one after the other, writes their answers, notices when it has
// gone.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "server/http_server.h"
#include "server/http_types.h"

namespace quaver::server {

class Connection;

// What all connections of a server share; outlives them.
struct HttpShared {
  HttpLimits limits;
  HttpHandler handler;
  bool access_log = true;
  std::function<void(int status)> on_answer;
  std::atomic<bool> draining{false};
  std::atomic<size_t> body_bytes{0};

  std::atomic<int> unanswered{0};  // requests whose answer is not complete

  std::mutex mutex;  // guards the rest
  std::unordered_set<Connection*> connections;
  int replies = 0;    // objects, which point into the server
  int unwritten = 0;  // requests whose answer is not written to the end
  std::condition_variable changed;
};

// Every member function runs on the connection's strand, except those marked "any thread". One read is always
// under way, also while an answer is produced: that is how a client that left is noticed.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;  // its executor is the strand

  Connection(Socket socket, HttpShared& shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();                                                               // any thread
  void close_soon();                                                          // any thread
  void close_if_idle();                                                       // any thread
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }  // any thread
  HttpShared& shared() { return shared_; }                                    // any thread

  // The calls of a Reply; `number` says which request they answer, stale ones are ignored.
  void send(uint64_t number, HttpResponse response, const Headers& extra);
  void start_stream(uint64_t number, const std::string& content_type, const Headers& extra);
  void write_piece(uint64_t number, std::string_view piece);
  void end_stream(uint64_t number);
  void set_gone(uint64_t number, std::function<void()> callback);
  void dropped(uint64_t number);

 private:
  enum class Phase { kIdle, kHead, kBody, kHandling, kLinger, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read();
  void on_read(boost::system::error_code error, size_t bytes);
  void on_end_of_input();
  void advance();
  bool parse_some();
  void on_header();
  bool account_body();
  void begin();
  void dispatch();
  void refuse(int status, std::string_view message);

  void append_head(int status, const std::string& content_type, const Headers& headers,
                   const std::string& framing);
  void complete();
  void flush();
  void on_written(boost::system::error_code error, size_t bytes);
  void finish_request();
  void linger();
  void close();
  void fire_gone();
  void release_request();
  void count_unwritten(int change);

  void arm(double seconds);
  void disarm();
  void on_deadline();
  bool is_current(uint64_t number) const {
    return phase_ == Phase::kHandling && number == number_ && !complete_;
  }

  Socket socket_;
  HttpShared& shared_;
  boost::asio::steady_timer timer_;
  uint64_t timer_turn_ = 0;
  Phase phase_ = Phase::kIdle;
  std::string client_;

  bool reading_ = false, end_of_input_ = false;
  std::array<char, 16384> chunk_;
  std::string in_;
  size_t in_position_ = 0;
  std::optional<Parser> parser_;
  size_t accounted_bytes_ = 0;

  uint64_t number_ = 0;  // of the request being handled
  bool keep_alive_ = true, head_only_ = false, http10_ = false;
  bool streaming_ = false, complete_ = false;
  std::function<void()> gone_;
  std::string method_, path_;
  int status_ = 0;
  size_t body_written_ = 0;
  std::chrono::steady_clock::time_point started_;

  bool writing_ = false;
  std::string pending_, in_flight_;
  size_t in_flight_position_ = 0;
};

}  // namespace quaver::server
