// What picture requests are answered with: JSON, the bytes themselves, a stream of events, or a chat message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/image_fields.h"
#include "server/image_run.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace quaver::server {

struct ImageAnswerHead {
  std::string id;  // "img_gen-...", "chatcmpl-..."
  int64_t created = 0;
  std::string model_name;
  std::string event_prefix;  // "image_generation", "image_edit"
  ImageReplyOptions options;
  int64_t count = 1, steps = 0;
  std::shared_ptr<const ServedModel> model;  // kept alive
  std::shared_ptr<Reply> reply;
  Metrics* metrics = nullptr;  // outlives the answer
};

// By the options: JSON, bytes or a stream.
std::unique_ptr<ImageListener> make_image_answer(ImageAnswerHead head);
// A chat.completion, or one chunk of it and [DONE].
std::unique_ptr<ImageListener> make_chat_picture_answer(ImageAnswerHead head);

}  // namespace quaver::server
