#include "server/image_order.h"

#include <ctime>

#include "server/ids.h"

namespace quaver::server {

void order_pictures(Call& call, ImageWish wish, ImageRoute route, std::string model_name) {
  pipeline::ImagePipeline& pipeline = *call.model->pipeline.images();
  const bool chat = route == ImageRoute::kChat;
  pipeline::ImageRequest& request = wish.request;
  fill_in(request, call.model->image_defaults());
  request.id = cat(chat                          ? "chatcmpl-"
                   : route == ImageRoute::kEdits ? "img_edit-"
                                                 : "img_gen-",
                   random_hex(32));
  ImageAnswerHead head{.id = request.id,
                       .created = static_cast<int64_t>(std::time(nullptr)),
                       .model_name = std::move(model_name),
                       .event_prefix = route == ImageRoute::kEdits ? "image_edit" : "image_generation",
                       .options = wish.reply,
                       .count = request.count,
                       .steps = request.steps.value_or(pipeline.facts().defaults.steps),
                       .model = call.model,
                       .reply = call.reply,
                       .metrics = &call.metrics};
  auto listener = chat ? make_chat_picture_answer(std::move(head)) : make_image_answer(std::move(head));
  std::make_shared<ImageRun>(pipeline, call.workers, call.reply, std::move(listener))
      ->start(std::move(request));
}

}  // namespace quaver::server
