// Server-sent events: one JSON object per event, [DONE] at the end, and errors as HTTP while that is still
// possible.
#pragma once

#include <memory>
#include <string>

#include "server/errors.h"
#include "server/http_types.h"
#include "text/chat_template.h"

namespace quaver::server {

// Valid UTF-8 whatever the value holds.
std::string json_text(const ordered_json& value);
HttpResponse json_response(const ordered_json& value);

// The stream of one reply. Nothing is sent before the first event, so that an early failure gets its status.
class EventStream {
 public:
  explicit EventStream(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}
  void send(const ordered_json& event);
  // With an `event:` line of the name that stands in its field "type".
  void send_named(const ordered_json& event);
  void done();
  // An HTTP error when nothing was sent yet, else an error event and [DONE].
  void fail(const ApiError& error);

 private:
  void write(const std::string& data, std::string_view before = {});
  std::shared_ptr<Reply> reply_;
  bool started_ = false;
};

}  // namespace quaver::server
