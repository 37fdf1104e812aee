#include "server/sse.h"

namespace quaver::server {

std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

HttpResponse json_response(const ordered_json& value) {
  HttpResponse response;
  response.body = json_text(value);
  return response;
}

void EventStream::send(const ordered_json& event) { write(json_text(event)); }

void EventStream::send_named(const ordered_json& event) {
  write(json_text(event), cat("event: ", event.at("type").get_ref<const std::string&>(), "\n"));
}

void EventStream::done() {
  write("[DONE]");
  reply_->end();
}

void EventStream::fail(const ApiError& error) {
  if (!started_) return reply_->send(error_response(error));
  send(error_json(error));
  done();
}

void EventStream::write(const std::string& data, std::string_view before) {
  if (!started_) {
    reply_->add_header("Cache-Control", "no-cache");
    reply_->add_header("X-Accel-Buffering", "no");  // proxies must not collect events
    reply_->start_stream("text/event-stream; charset=utf-8");
    started_ = true;
  }
  reply_->write(cat(before, "data: ", data, "\n\n"));
}

}  // namespace quaver::server
