#include "server/image_answer.h"

#include <algorithm>

#include "base/base64.h"
#include "server/sse.h"
#include "server/zip.h"

namespace quaver::server {
namespace {

using Kind = pipeline::ImageEvent::Kind;

std::string size_text(const Image& image) { return cat(image.width, "x", image.height); }

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

ordered_json durations_json(const pipeline::ImageEvent& done) {
  ordered_json out = ordered_json::object();
  for (const auto& [stage, seconds] : done.stage_s) out[stage] = seconds;
  return out;
}

ordered_json metrics_json(const ImageAnswerHead& head, const pipeline::ImageEvent& done) {
  ordered_json out = {{"stage_durations", durations_json(done)},
                      {"peak_memory_mb", megabytes(done.peak_reserved_bytes)},
                      {"peak_allocated_mb", megabytes(done.peak_allocated_bytes)},
                      {"guidance_scale", done.guidance_scale},
                      {"num_inference_steps", head.steps}};
  if (!done.notes.empty()) out["notes"] = done.notes;
  return out;
}

ordered_json image_usage_json(int64_t prompt_tokens) {
  return {{"input_tokens", prompt_tokens},
          {"output_tokens", 0},
          {"total_tokens", prompt_tokens},
          {"input_tokens_details", {{"text_tokens", prompt_tokens}, {"image_tokens", 0}}}};
}

std::vector<std::byte> encoded(const ImageReplyOptions& options, const Image& image) {
  return options.format->encode(image, {.quality = options.quality});
}

// Takes the request's pictures one by one and answers once with all.
class CollectedPictures : public ImageListener {
 public:
  explicit CollectedPictures(ImageAnswerHead head)
      : head_(std::move(head)), pictures_(static_cast<size_t>(head_.count)) {}

  void on_event(const pipeline::ImageEvent& event) override {
    if (event.kind == Kind::kImage) {
      pictures_.at(static_cast<size_t>(event.index)) = {encoded(head_.options, *event.image), event.seed};
      size_ = size_text(*event.image);
    } else if (event.kind == Kind::kDone) {
      head_.metrics->observe_pictures(event.stage_s, head_.steps * head_.count);
      answer(event);
    }
  }
  void on_failure(const ApiError& error) override { head_.reply->send(error_response(error)); }

 protected:
  struct Picture {
    std::vector<std::byte> bytes;
    uint64_t seed = 0;
  };
  virtual void answer(const pipeline::ImageEvent& done) = 0;

  const ImageAnswerHead head_;
  std::vector<Picture> pictures_;
  std::string size_;
};

class JsonPictures : public CollectedPictures {
 public:
  using CollectedPictures::CollectedPictures;

 private:
  void answer(const pipeline::ImageEvent& done) override {
    ordered_json data = ordered_json::array();
    for (Picture& picture : pictures_) {
      data.push_back({{"b64_json", base64_encode(picture.bytes)},
                      {"url", nullptr},
                      {"revised_prompt", nullptr},
                      {"seed", picture.seed}});
      picture.bytes = {};
    }
    ordered_json usage = image_usage_json(done.prompt_tokens);
    usage["peak_memory_mb"] = megabytes(done.peak_reserved_bytes);
    head_.reply->send(json_response({{"created", head_.created},
                                     {"data", std::move(data)},
                                     {"output_format", head_.options.format->name},
                                     {"size", size_},
                                     {"cot_output", nullptr},
                                     {"metrics", metrics_json(head_, done)},
                                     {"usage", std::move(usage)}}));
  }
};

class PictureFiles : public CollectedPictures {
 public:
  using CollectedPictures::CollectedPictures;

 private:
  void answer(const pipeline::ImageEvent&) override {
    HttpResponse response;
    std::string name = cat("image", head_.options.format->extension);
    if (pictures_.size() == 1) {
      const std::vector<std::byte>& bytes = pictures_.front().bytes;
      response.content_type = head_.options.format->media_type;
      response.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else {
      std::vector<ZipEntry> entries;
      for (size_t i = 0; i < pictures_.size(); ++i)
        entries.push_back({cat("image_", i, head_.options.format->extension), pictures_[i].bytes});
      response.content_type = "application/zip";
      response.body = zip_archive(entries);
      name = "images.zip";
    }
    response.headers.emplace_back("Content-Disposition", cat("attachment; filename=\"", name, "\""));
    response.headers.emplace_back("X-Seed", std::to_string(pictures_.front().seed));
    head_.reply->send(std::move(response));
  }
};

class StreamedPictures : public ImageListener {
 public:
  explicit StreamedPictures(ImageAnswerHead head) : head_(std::move(head)), stream_(head_.reply) {}

  void on_event(const pipeline::ImageEvent& event) override {
    switch (event.kind) {
      case Kind::kQueued:
      case Kind::kProgress:
        return stream_.send_named({{"type", named("progress")},
                                   {"step", event.step},
                                   {"steps", event.kind == Kind::kQueued ? head_.steps : event.steps},
                                   {"queue_position", event.queue_position}});
      case Kind::kPreview: {
        ordered_json preview = picture("partial_image", event);
        preview["partial_image_index"] = event.preview_index;
        return stream_.send_named(preview);
      }
      case Kind::kImage: {
        ordered_json completed = picture("completed", event);
        completed["seed"] = event.seed;
        completed["usage"] = image_usage_json(event.prompt_tokens);
        return stream_.send_named(completed);
      }
      case Kind::kDone:
        head_.metrics->observe_pictures(event.stage_s, head_.steps * head_.count);
        return stream_.done();
      case Kind::kAborted:
      case Kind::kFailed:
        return;
    }
  }
  void on_failure(const ApiError& error) override { stream_.fail(error); }

 private:
  std::string named(const char* what) const { return cat(head_.event_prefix, ".", what); }
  ordered_json picture(const char* what, const pipeline::ImageEvent& event) const {
    return {{"type", named(what)},
            {"b64_json", base64_encode(encoded(head_.options, *event.image))},
            {"index", event.index},
            {"created_at", head_.created},
            {"size", size_text(*event.image)},
            {"output_format", head_.options.format->name}};
  }

  const ImageAnswerHead head_;
  EventStream stream_;
};

class ChatPictures : public CollectedPictures {
 public:
  using CollectedPictures::CollectedPictures;

 private:
  void answer(const pipeline::ImageEvent& done) override {
    const ordered_json message = {{"role", "assistant"}, {"content", content(done)}};
    ordered_json out = {{"id", head_.id},
                        {"object", head_.options.stream ? "chat.completion.chunk" : "chat.completion"},
                        {"created", head_.created},
                        {"model", head_.model_name}};
    if (head_.options.stream) out["modality"] = "image";
    out["choices"] = ordered_json::array({{{"index", 0},
                                           {head_.options.stream ? "delta" : "message", message},
                                           {"logprobs", nullptr},
                                           {"finish_reason", "stop"},
                                           {"stop_reason", nullptr}}});
    out["usage"] = {{"prompt_tokens", done.prompt_tokens},
                    {"completion_tokens", 0},
                    {"total_tokens", done.prompt_tokens}};
    out["metrics"] = metrics_json(head_, done);
    if (!head_.options.stream) return head_.reply->send(json_response(out));
    EventStream stream(head_.reply);
    stream.send(out);
    stream.done();
  }

  ordered_json content(const pipeline::ImageEvent& done) {
    ordered_json out = ordered_json::array();
    for (Picture& picture : pictures_) {
      const std::string url =
          cat("data:", head_.options.format->media_type, ";base64,", base64_encode(picture.bytes));
      picture.bytes = {};
      out.push_back({{"type", "image_url"},
                     {"image_url", {{"url", url}}},
                     {"seed", picture.seed},
                     {"stage_durations", durations_json(done)},
                     {"peak_memory_mb", megabytes(done.peak_reserved_bytes)}});
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<ImageListener> make_image_answer(ImageAnswerHead head) {
  if (head.options.stream) return std::make_unique<StreamedPictures>(std::move(head));
  if (head.options.as_file) return std::make_unique<PictureFiles>(std::move(head));
  return std::make_unique<JsonPictures>(std::move(head));
}

std::unique_ptr<ImageListener> make_chat_picture_answer(ImageAnswerHead head) {
  return std::make_unique<ChatPictures>(std::move(head));
}

}  // namespace quaver::server
