// POST /v1/chat/completions on a model of pictures: the users' texts are the prompt, a picture among them is
// edited.
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/image_input.h"
#include "server/image_order.h"
#include "server/server.h"

namespace quaver::server {
namespace {

// Reads the messages; what is wrong is noted in the fields.
class PicturePromptReader {
 public:
  explicit PicturePromptReader(Fields& fields) : fields_(fields) {}

  void read() {
    const json* messages = fields_.list("messages");
    if (!messages) {
      if (!fields_.raw("messages")) fields_.missing("messages");
      return;
    }
    if (messages->empty()) fields_.wrong("too_short", "messages", "must have at least 1 message", *messages);
    for (size_t i = 0; i < messages->size(); ++i) read_message((*messages)[i], cat("messages.", i));
  }
  const std::string& prompt() const { return prompt_; }
  // Throws ApiError for URLs that are not taken, and for several pictures.
  std::shared_ptr<const Image> source(const MediaPolicy& policy) const {
    if (urls_.empty()) return nullptr;
    if (urls_.size() > 1)
      throw refused(cat("this model takes one picture, got ", urls_.size()), cat("body.", urls_[1].first));
    return decode_source(picture_of_url(*urls_.front().second, urls_.front().first, policy));
  }

 private:
  void read_message(const json& message, const std::string& path) {
    if (!message.is_object()) return fields_.wrong("dict_type", path, "must be an object", message);
    auto role = message.find("role");
    if (role == message.end()) return fields_.missing(path + ".role");
    if (!role->is_string()) return fields_.wrong("string_type", path + ".role", "must be text", *role);
    if (*role != "user") return;
    auto content = message.find("content");
    if (content == message.end()) return fields_.missing(path + ".content");
    if (content->is_string()) return add_text(*content);
    if (!content->is_array())
      return fields_.wrong("string_type", path + ".content", "must be text or a list of parts", *content);
    for (size_t i = 0; i < content->size(); ++i) read_part((*content)[i], cat(path, ".content.", i));
  }

  void read_part(const json& part, const std::string& path) {
    if (part.is_string()) return add_text(part);
    if (!part.is_object()) return fields_.wrong("dict_type", path, "must be an object", part);
    const json type = part.value("type", json());
    if (type == "text") {
      if (auto text = member(part, "text", path)) add_text(*text);
    } else if (type == "image_url") {
      auto inner = part.find("image_url");
      if (inner == part.end()) return fields_.missing(path + ".image_url");
      const std::string here = path + ".image_url";
      if (inner->is_string())
        urls_.emplace_back(here, inner->get_ptr<const std::string*>());
      else if (!inner->is_object())
        fields_.wrong("dict_type", here, "must be an object with a url", *inner);
      else if (auto url = member(*inner, "url", here))
        urls_.emplace_back(here, url->get_ptr<const std::string*>());
    } else {
      fields_.wrong("literal_error", path + ".type", "must be one of text, image_url for a model of pictures",
                    type);
    }
  }

  // A text member; noted and null when it is none.
  const json* member(const json& object, const char* name, const std::string& path) {
    auto found = object.find(name);
    if (found == object.end()) return fields_.missing(cat(path, ".", name)), nullptr;
    if (found->is_string()) return &*found;
    return fields_.wrong("string_type", cat(path, ".", name), "must be text", *found), nullptr;
  }

  void add_text(const json& text) {
    if (!prompt_.empty()) prompt_ += ' ';
    prompt_ += text.get_ref<const std::string&>();
  }

  Fields& fields_;
  std::string prompt_;
  std::vector<std::pair<std::string, const std::string*>> urls_;  // of the fields' own body
};

void check_picture_modalities(Fields& fields) {
  const json* modalities = fields.list("modalities");
  if (!modalities) return;
  for (size_t i = 0; i < modalities->size(); ++i)
    if ((*modalities)[i] != "image")
      fields.wrong("literal_error", cat("modalities.", i), "must be image for a model of pictures",
                   (*modalities)[i]);
}

// A chat's prompt is spread over messages: what the pipeline says of it is said of them.
void order_from_chat(Call& call, ImageWish wish, std::string name) {
  try {
    order_pictures(call, std::move(wish), ImageRoute::kChat, std::move(name));
  } catch (const Error& e) {
    if (e.field() != "prompt") throw;
    throw Error(e.kind(), e.what(), "messages");
  }
}

}  // namespace

void chat_pictures(Call call) {
  Fields fields(parse_body(call.request), Fields::Twice::kNever);
  std::string name = call.model->check_name(fields);
  PicturePromptReader reader(fields);
  reader.read();
  ImageWish wish = read_image_fields(fields, ImageRoute::kChat);
  check_picture_modalities(fields);
  fields.finish();
  wish.request.prompt = reader.prompt();
  wish.request.source = reader.source(call.options.media);
  order_from_chat(call, std::move(wish), std::move(name));
}

}  // namespace quaver::server
