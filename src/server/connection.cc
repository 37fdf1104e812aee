#include "server/connection.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>

#include "base/log.h"
#include "server/connection_reply.h"
#include "server/errors.h"
#include "server/target.h"

namespace quaver::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// Beast's own string_view is Boost's.
template <class View>
std::string_view view(const View& text) {
  return {text.data(), text.size()};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// What a client wrote must not be able to start a new log line.
std::string for_log(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 200)) out.push_back(c > 0x20 && c < 0x7f ? c : '?');
  return out;
}

std::string client_name(Connection::Socket& socket) {
  error_code error;
  auto endpoint = socket.remote_endpoint(error);
  return error ? "?" : cat(endpoint.address().to_string(), ":", endpoint.port());
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Beast's parse errors, as (status, sentence).
std::pair<int, std::string> explain(error_code error) {
  if (error == http::error::body_limit) return {413, "the request body is larger than this server allows"};
  if (error == http::error::header_limit)
    return {431, "the request header is larger than this server allows"};
  return {400, cat("the request is not valid HTTP: ", error.message())};
}

}  // namespace

Connection::Connection(Socket socket, HttpShared& shared)
    : socket_(std::move(socket)),
      shared_(shared),
      timer_(socket_.get_executor()),
      client_(client_name(socket_)) {
  std::lock_guard lock(shared_.mutex);
  shared_.connections.insert(this);
}

Connection::~Connection() {
  shared_.body_bytes -= accounted_bytes_;
  std::lock_guard lock(shared_.mutex);
  shared_.connections.erase(this);
  shared_.changed.notify_all();
}

void Connection::start() {
  asio::dispatch(executor(), [self = shared_from_this()] {
    error_code ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->arm(self->shared_.limits.idle_s);
    self->read();
  });
}

void Connection::close_soon() {
  asio::post(executor(), [self = shared_from_this()] { self->close(); });
}

void Connection::close_if_idle() {
  asio::post(executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->close();
  });
}

// ---- reading

void Connection::read() {
  if (reading_ || end_of_input_ || phase_ == Phase::kClosed) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code error, size_t bytes) {
    self->on_read(error, bytes);
  });
}

void Connection::on_read(error_code error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error == asio::error::eof) return on_end_of_input();
  if (error) return close();
  if (phase_ != Phase::kLinger) in_.append(chunk_.data(), bytes);
  if (phase_ == Phase::kHandling && in_.size() - in_position_ > shared_.limits.pipelined_bytes)
    return close();
  advance();
  read();
}

// The client has closed its sending side. A generation ends here; an answer that needs no watching is still
// delivered, since tools such as `nc -N` close their side right after the request.
void Connection::on_end_of_input() {
  end_of_input_ = true;
  keep_alive_ = false;
  if (phase_ != Phase::kHandling) return close();
  if (!complete_ && gone_) close();
}

void Connection::advance() {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody) {
    if (in_position_ == in_.size()) break;
    if (phase_ == Phase::kIdle) {
      phase_ = Phase::kHead;
      parser_.emplace();
      parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
      parser_->body_limit(shared_.limits.body_bytes);
      arm(shared_.limits.header_s);
    }
    if (!parse_some()) break;
  }
  if (in_position_ == in_.size()) {
    in_.clear();
    in_position_ = 0;
  } else if (in_position_ > in_.size() / 2) {  // amortised: each byte is moved once
    in_.erase(0, in_position_);
    in_position_ = 0;
  }
}

// False when more input is needed or the connection is done reading.
bool Connection::parse_some() {
  error_code error;
  in_position_ +=
      parser_->put(asio::const_buffer(in_.data() + in_position_, in_.size() - in_position_), error);
  bool starved = error == http::error::need_more;
  if (error && !starved) {
    auto [status, message] = explain(error);
    refuse(status, message);
    return false;
  }
  if (phase_ == Phase::kHead && parser_->is_header_done()) on_header();
  if (phase_ == Phase::kBody && account_body() && parser_->is_done()) dispatch();
  return !starved;
}

void Connection::on_header() {
  phase_ = Phase::kBody;
  arm(shared_.limits.body_s);
  parser_->eager(true);
  if (!parser_->is_done() && lower(view(parser_->get()[http::field::expect])) == "100-continue") {
    pending_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
}

// Memory for bodies is bounded over all connections, and charged before it is filled.
bool Connection::account_body() {
  size_t wanted = std::max<size_t>(parser_->get().body().size(), parser_->content_length().value_or(0));
  if (wanted <= accounted_bytes_) return true;
  size_t more = wanted - accounted_bytes_;
  accounted_bytes_ = wanted;
  if ((shared_.body_bytes += more) <= shared_.limits.total_body_bytes) return true;
  refuse(503, "too many request bodies are being received; try again later");
  return false;
}

// From here on exactly one answer is due.
void Connection::begin() {
  phase_ = Phase::kHandling;
  ++number_;
  started_ = std::chrono::steady_clock::now();
  streaming_ = complete_ = false;
  ++shared_.unanswered;
  count_unwritten(1);
}

void Connection::count_unwritten(int change) {
  std::lock_guard lock(shared_.mutex);
  shared_.unwritten += change;
  shared_.changed.notify_all();
}

void Connection::dispatch() {
  disarm();
  auto message = parser_->release();
  HttpRequest request;
  request.method = std::string(view(message.method_string()));
  request.client = client_;
  for (const auto& field : message)
    request.headers.emplace_back(lower(view(field.name_string())), std::string(view(field.value())));
  keep_alive_ = message.keep_alive() && !end_of_input_;
  http10_ = message.version() < 11;
  head_only_ = request.method == "HEAD";
  method_ = for_log(request.method);
  std::optional<Target> target = parse_target(view(message.target()));
  if (!target) return refuse(400, "the request target is not a valid path");
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  request.body = std::move(message.body());
  parser_.reset();
  path_ = for_log(request.path);
  begin();
  shared_.handler(std::move(request), make_reply(shared_from_this(), number_));
}

// An answer to what never became a request.
void Connection::refuse(int status, std::string_view message) {
  disarm();
  begin();
  keep_alive_ = false;
  method_ = path_ = "-";
  send(number_, error_response(http_error(status, message)), {});
}

// ---- answering

void Connection::append_head(int status, const std::string& content_type, const Headers& headers,
                             const std::string& framing) {
  if (shared_.draining) keep_alive_ = false;
  status_ = status;
  if (shared_.on_answer) shared_.on_answer(status);
  pending_ += cat("HTTP/1.1 ", status, " ", reason_phrase(status), "\r\n");
  if (!content_type.empty()) pending_ += cat("Content-Type: ", content_type, "\r\n");
  for (const auto& [name, value] : headers)
    if (!has_control(name) && !has_control(value)) pending_ += cat(name, ": ", value, "\r\n");
  pending_ += framing;
  if (!keep_alive_)
    pending_ += "Connection: close\r\n";
  else if (http10_)
    pending_ += "Connection: keep-alive\r\n";
  pending_ += "\r\n";
}

void Connection::send(uint64_t number, HttpResponse response, const Headers& extra) {
  if (!is_current(number) || streaming_) return;
  Headers headers = extra;
  headers.insert(headers.end(), response.headers.begin(), response.headers.end());
  bool bodiless = response.status == 204 || response.status == 304;
  append_head(response.status, bodiless ? "" : response.content_type, headers,
              bodiless ? "" : cat("Content-Length: ", response.body.size(), "\r\n"));
  body_written_ = response.body.size();
  if (!head_only_ && !bodiless) pending_ += response.body;
  complete();
}

void Connection::start_stream(uint64_t number, const std::string& content_type, const Headers& extra) {
  if (!is_current(number) || streaming_) return;
  streaming_ = true;
  body_written_ = 0;
  if (http10_) keep_alive_ = false;  // the end of the connection ends the body
  append_head(200, content_type, extra, http10_ ? "" : "Transfer-Encoding: chunked\r\n");
  flush();
}

void Connection::write_piece(uint64_t number, std::string_view piece) {
  if (!is_current(number) || !streaming_ || piece.empty() || head_only_) return;
  body_written_ += piece.size();
  if (http10_) {
    pending_ += piece;
  } else {
    char size[20];
    auto end = std::to_chars(size, size + sizeof size, piece.size(), 16).ptr;
    pending_.append(size, end).append("\r\n").append(piece).append("\r\n");
  }
  if (pending_.size() + in_flight_.size() - in_flight_position_ > shared_.limits.stream_backlog_bytes) {
    log_warning(client_, " does not read its stream; closed with ", pending_.size(), " bytes waiting");
    return close();
  }
  flush();
}

void Connection::end_stream(uint64_t number) {
  if (!is_current(number) || !streaming_) return;
  if (!http10_ && !head_only_) pending_ += "0\r\n\r\n";
  complete();
}

// The answer is all there; what is left is to write it.
void Connection::complete() {
  complete_ = true;
  --shared_.unanswered;
  gone_ = nullptr;
  release_request();
  flush();
}

void Connection::set_gone(uint64_t number, std::function<void()> callback) {
  if (phase_ == Phase::kHandling && number == number_ && complete_) return;
  if (!is_current(number)) return callback();
  gone_ = std::move(callback);
  if (end_of_input_) close();
}

void Connection::dropped(uint64_t number) {
  if (!is_current(number)) return;
  if (streaming_) return close();
  send(number, error_response(http_error(500, "the request ended without an answer")), {});
}

void Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed) return;
  if (in_flight_position_ == in_flight_.size()) {
    in_flight_.clear();
    in_flight_position_ = 0;
    in_flight_.swap(pending_);
  }
  if (in_flight_.empty()) {
    if (phase_ == Phase::kHandling && complete_) finish_request();
    return;
  }
  writing_ = true;
  if (phase_ == Phase::kHandling) arm(shared_.limits.write_s);
  socket_.async_write_some(
      asio::buffer(in_flight_.data() + in_flight_position_, in_flight_.size() - in_flight_position_),
      [self = shared_from_this()](error_code error, size_t bytes) { self->on_written(error, bytes); });
}

void Connection::on_written(error_code error, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  in_flight_position_ += bytes;
  if (phase_ == Phase::kHandling) disarm();
  flush();
}

void Connection::finish_request() {
  count_unwritten(-1);
  if (shared_.access_log) {
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    log_info(client_, " ", method_, " ", path_, " ", status_, " ", body_written_, " B ",
             static_cast<int64_t>(seconds * 1000), " ms");
  }
  if (!keep_alive_) return linger();
  phase_ = Phase::kIdle;
  arm(shared_.limits.idle_s);
  // Posted, not called: a row of pipelined requests must not become a row of nested calls.
  asio::post(executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->advance();
  });
}

// Closing with unread input would make the system send a reset, which can overtake the answer.
void Connection::linger() {
  phase_ = Phase::kLinger;
  if (end_of_input_) return close();
  in_.clear();
  in_position_ = 0;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  arm(2);
  read();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  bool unwritten = phase_ == Phase::kHandling, unanswered = unwritten && !complete_;
  phase_ = Phase::kClosed;
  if (unwritten) count_unwritten(-1);
  if (unanswered) --shared_.unanswered;
  error_code ignored;
  socket_.close(ignored);
  disarm();
  release_request();
  if (unanswered) {
    if (shared_.access_log)
      log_info(client_, " ", method_, " ", path_, " closed before the answer was complete");
    fire_gone();
  }
}

void Connection::fire_gone() {
  if (auto callback = std::exchange(gone_, nullptr)) callback();
}

void Connection::release_request() {
  shared_.body_bytes -= std::exchange(accounted_bytes_, 0);
  parser_.reset();
}

// ---- time

void Connection::arm(double seconds) {
  uint64_t turn = ++timer_turn_;
  timer_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  timer_.async_wait([self = shared_from_this(), turn](error_code error) {
    if (!error && turn == self->timer_turn_) self->on_deadline();
  });
}

void Connection::disarm() {
  ++timer_turn_;
  timer_.cancel();
}

void Connection::on_deadline() {
  if (phase_ != Phase::kHead && phase_ != Phase::kBody) return close();
  refuse(408, "the request did not arrive in time");
}

}  // namespace quaver::server
