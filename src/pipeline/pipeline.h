// What a server or a command sees of a loaded model: requests go in, events come out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "diffusion/image_facts.h"
#include "llm/request.h"
#include "llm/stats.h"
#include "pipeline/image_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quaver::pipeline {

// Facts about the loaded model; fixed after start.
struct ModelCard {
  std::string path;
  std::vector<std::string> capabilities;  // "chat", "completions", "image_generation", "image_edit"
  json quantization;                      // format name per component
  int64_t max_model_len = 0;
  int64_t weight_bytes = 0;  // of the checkpoint's tensors, as they lie in its files
  int64_t num_parameters = 0;
  json generation_defaults;          // the checkpoint's generation_config.json, {} when absent
  std::string bos_token, eos_token;  // as text, "" when the model has none
  bool reasoning = false;            // the template can open a thinking section
};

using Stats = llm::Stats;

class TextPipeline;
class ImagePipeline;

// Thread safe. One engine thread owns the model; these calls only queue.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual const ModelCard& card() const = 0;
  // The request ends within one step, aborted; unknown ids are ignored.
  virtual void abort(const std::string& request_id) = 0;
  virtual Stats stats() = 0;
  virtual bool healthy() const = 0;
  // Stops taking requests; returns when the live ones have ended or `deadline_s` has passed (the rest is
  // aborted).
  virtual void drain(double deadline_s) = 0;

  // What the model makes; null: not that.
  virtual TextPipeline* text() { return nullptr; }
  virtual ImagePipeline* images() { return nullptr; }
};

class TextPipeline : public Pipeline {
 public:
  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ChatTemplate* chat_template() const = 0;  // null when the checkpoint has none
  // Checks the request completely and queues it, or throws Error(kInvalidInput) (field named), or
  // Error(kUnavailable) when the queue is full or the pipeline is draining.
  virtual void submit(llm::Request request, llm::EventSink sink) = 0;
  TextPipeline* text() override { return this; }
};

class ImagePipeline : public Pipeline {
 public:
  virtual const diffusion::ImageFacts& facts() const = 0;
  // As TextPipeline::submit. Returns the seed of the first picture.
  virtual uint64_t submit(ImageRequest request, ImageSink sink) = 0;
  ImagePipeline* images() override { return this; }
};

}  // namespace quaver::pipeline
