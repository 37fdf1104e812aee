// A loaded model as the routes see it: its names, its defaults, and what its chat template can take.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/pipeline.h"
#include "server/special_text.h"
#include "text/tool_calls.h"

namespace quaver::server {

class Fields;
struct ServerOptions;

// How a template wants message contents; found by rendering samples when the model is attached.
struct TemplateTraits {
  bool lists = false;      // contents as lists of parts come out as text
  bool strings = true;     // contents as plain text come out
  bool developer = false;  // knows the role; otherwise it is sent as "system"
  bool tools = false;      // writes tools itself; otherwise they are described in the system message
};

// What the text routes need of a model of text. Immutable and thread safe; borrows the pipeline.
struct ServedText {
  ServedText(pipeline::TextPipeline& pipeline, const ServerOptions& options);

  pipeline::TextPipeline& pipeline;
  SpecialText specials;
  TemplateTraits traits;
  const ToolStyle* tool_style;  // how the model writes calls; null when unknown
};

// Immutable and thread safe; borrows the pipeline.
struct ServedModel {
  ServedModel(pipeline::Pipeline& pipeline, const ServerOptions& options);

  bool can(std::string_view ability) const;
  // For routes whose ability a model of text alone has.
  const ServedText& text() const { return text_.value(); }
  // What picture requests leave open.
  const pipeline::ImageRequest& image_defaults() const { return image_defaults_; }
  // Reads the field `model`; throws ApiError 404 unless it is absent, a served name or the model's path.
  // Returns the name to answer with.
  std::string check_name(Fields& fields) const;

  pipeline::Pipeline& pipeline;
  std::vector<std::string> names;  // first = the one in answers
  json defaults;                   // sampling defaults: the operator's over the checkpoint's

 private:
  std::optional<const ServedText> text_;
  pipeline::ImageRequest image_defaults_;
};

}  // namespace quaver::server
