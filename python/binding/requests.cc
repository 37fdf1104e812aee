// Requests and events of both kinds of model, as Python fills them in and reads them.
#include <pybind11/stl.h>

#include "binding/bindings.h"
#include "binding/mailbox.h"
#include "llm/request.h"
#include "pipeline/image_request.h"

namespace quaver::python {

namespace py = pybind11;

namespace {

using pipeline::ImageEvent;
using pipeline::ImageRequest;

const char* kind_name(ImageEvent::Kind kind) {
  switch (kind) {
    case ImageEvent::Kind::kQueued:
      return "queued";
    case ImageEvent::Kind::kProgress:
      return "progress";
    case ImageEvent::Kind::kPreview:
      return "preview";
    case ImageEvent::Kind::kImage:
      return "image";
    case ImageEvent::Kind::kDone:
      return "done";
    case ImageEvent::Kind::kAborted:
      return "aborted";
    case ImageEvent::Kind::kFailed:
      break;
  }
  return "failed";
}

const char* reason_name(llm::FinishReason reason) {
  switch (reason) {
    case llm::FinishReason::kNone:
      return "";
    case llm::FinishReason::kStop:
      return "stop";
    case llm::FinishReason::kLength:
      return "length";
    case llm::FinishReason::kAbort:
      return "abort";
    case llm::FinishReason::kError:
      break;
  }
  return "error";
}

py::object exception_or_none(const std::optional<Error>& error) {
  return error ? exception_of(*error) : py::none();
}

std::optional<Picture> picture_or_none(const ImageEvent& event) {
  return event.image ? std::optional(Picture{event.image}) : std::nullopt;
}

// Seeds that are no seed must come as far as the check that names them.
void set_seed(ImageRequest& request, int64_t seed) {
  if (seed < 0)
    throw Error(ErrorKind::kInvalidInput, cat("seed is ", seed, ", expected 0 to 9223372036854775807"),
                "seed");
  request.seed = static_cast<uint64_t>(seed);
}

void bind_image_request(py::module_& module) {
  py::class_<ImageRequest>(module, "ImageRequest")
      .def(py::init<>())
      .def_readwrite("id", &ImageRequest::id)
      .def_readwrite("prompt", &ImageRequest::prompt)
      .def_readwrite("negative_prompt", &ImageRequest::negative_prompt)
      .def_readwrite("count", &ImageRequest::count)
      .def_readwrite("width", &ImageRequest::width)
      .def_readwrite("height", &ImageRequest::height)
      .def_readwrite("steps", &ImageRequest::steps)
      .def_readwrite("text_tokens", &ImageRequest::text_tokens)
      .def_readwrite("guidance_scale", &ImageRequest::guidance_scale)
      .def_readwrite("true_cfg_scale", &ImageRequest::true_cfg_scale)
      .def_readwrite("strength", &ImageRequest::strength)
      .def("set_seed", &set_seed, py::arg("seed"))
      .def(
          "set_adapter",
          [](ImageRequest& self, std::string name, std::string path, std::optional<double> scale) {
            self.adapter = {std::move(name), std::move(path), scale};
          },
          py::arg("name"), py::arg("path"), py::arg("scale"))
      .def(
          "set_source", [](ImageRequest& self, const Picture& picture) { self.source = picture.image; },
          py::arg("picture"))
      .def(
          "set_mask", [](ImageRequest& self, const Mask& mask) { self.mask = mask.image; }, py::arg("mask"));
}

void bind_image_event(py::module_& module) {
  py::class_<ImageEvent>(module, "ImageEvent")
      .def_property_readonly("kind", [](const ImageEvent& self) { return kind_name(self.kind); })
      .def_readonly("request_id", &ImageEvent::request_id)
      .def_readonly("queue_position", &ImageEvent::queue_position)
      .def_readonly("step", &ImageEvent::step)
      .def_readonly("steps", &ImageEvent::steps)
      .def_readonly("index", &ImageEvent::index)
      .def_property_readonly("image", &picture_or_none)
      .def_readonly("seed", &ImageEvent::seed)
      .def_readonly("prompt_tokens", &ImageEvent::prompt_tokens)
      .def_readonly("guidance_scale", &ImageEvent::guidance_scale)
      .def_readonly("stage_s", &ImageEvent::stage_s)
      .def_readonly("peak_allocated_bytes", &ImageEvent::peak_allocated_bytes)
      .def_readonly("peak_reserved_bytes", &ImageEvent::peak_reserved_bytes)
      .def_readonly("notes", &ImageEvent::notes)
      .def_property_readonly("error", [](const ImageEvent& self) { return exception_or_none(self.error); });
}

void bind_text_request(py::module_& module) {
  using llm::SamplingParams;
  py::class_<SamplingParams>(module, "Sampling")
      .def_readwrite("temperature", &SamplingParams::temperature)
      .def_readwrite("top_p", &SamplingParams::top_p)
      .def_readwrite("top_k", &SamplingParams::top_k)
      .def_readwrite("min_p", &SamplingParams::min_p)
      .def_readwrite("repetition_penalty", &SamplingParams::repetition_penalty)
      .def_readwrite("frequency_penalty", &SamplingParams::frequency_penalty)
      .def_readwrite("presence_penalty", &SamplingParams::presence_penalty)
      .def_readwrite("seed", &SamplingParams::seed)
      .def_readwrite("max_tokens", &SamplingParams::max_tokens)
      .def_readwrite("min_tokens", &SamplingParams::min_tokens)
      .def_readwrite("stop", &SamplingParams::stop)
      .def_readwrite("stop_token_ids", &SamplingParams::stop_token_ids)
      .def_readwrite("include_stop_str_in_output", &SamplingParams::include_stop_str_in_output)
      .def_readwrite("ignore_eos", &SamplingParams::ignore_eos)
      .def_readwrite("logit_bias", &SamplingParams::logit_bias)
      .def_readwrite("allowed_token_ids", &SamplingParams::allowed_token_ids)
      .def_readwrite("logprobs", &SamplingParams::logprobs)
      .def_readwrite("prompt_logprobs", &SamplingParams::prompt_logprobs)
      .def_readwrite("skip_special_tokens", &SamplingParams::skip_special_tokens);
  py::class_<llm::Request>(module, "TextRequest")
      .def(py::init<>())
      .def_readwrite("id", &llm::Request::id)
      .def_readwrite("prompt", &llm::Request::prompt)
      .def_readonly("sampling", &llm::Request::sampling);
}

void bind_text_event(py::module_& module) {
  py::class_<llm::Logprob>(module, "TokenLogprob")
      .def_readonly("token", &llm::Logprob::token)
      .def_readonly("logprob", &llm::Logprob::logprob)
      .def_readonly("rank", &llm::Logprob::rank);
  py::class_<llm::Event>(module, "TextEvent")
      .def_readonly("request_id", &llm::Event::request_id)
      .def_readonly("tokens", &llm::Event::tokens)
      .def_readonly("text", &llm::Event::text)
      .def_readonly("logprobs", &llm::Event::logprobs)
      .def_readonly("prompt_logprobs", &llm::Event::prompt_logprobs)
      .def_property_readonly("finish_reason", [](const llm::Event& self) { return reason_name(self.finish); })
      .def_readonly("stop_text", &llm::Event::stop_text)
      .def_readonly("stop_token", &llm::Event::stop_token)
      .def_property_readonly("cached_tokens", [](const llm::Event& self) { return self.usage.cached_tokens; })
      .def_property_readonly("error", [](const llm::Event& self) { return exception_or_none(self.error); });
}

template <class Event>
void bind_mailbox(py::module_& module, const char* name) {
  using Box = Mailbox<Event>;
  py::class_<Box, std::shared_ptr<Box>>(module, name)
      .def(py::init<>())
      .def("fileno", &Box::fileno)
      .def("take", &Box::take);
}

}  // namespace

void bind_requests(py::module_& module) {
  bind_image_request(module);
  bind_image_event(module);
  bind_text_request(module);
  bind_text_event(module);
  bind_mailbox<ImageEvent>(module, "ImageMailbox");
  bind_mailbox<llm::Event>(module, "TextMailbox");
}

}  // namespace quaver::python
