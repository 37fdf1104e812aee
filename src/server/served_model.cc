#include "server/served_model.h"

#include <algorithm>

#include "base/log.h"
#include "server/default_params.h"
#include "server/errors.h"
#include "server/fields.h"
#include "server/server.h"
#include "server/tool_prompt.h"

namespace quaver::server {
namespace {

constexpr const char* kSample = "quaver sample";

// What a template makes of one message of `role`, in a conversation that templates accept; "" when it
// refuses.
std::string render_sample(const pipeline::TextPipeline& pipeline, const std::string& role,
                          const ordered_json& content) {
  ChatTemplateInput input;
  input.bos_token = pipeline.card().bos_token;
  input.eos_token = pipeline.card().eos_token;
  input.messages.push_back({{"role", role}, {"content", content}});
  if (role != "user") input.messages.push_back({{"role", "user"}, {"content", "hello"}});
  try {
    return pipeline.chat_template()->render(input);
  } catch (const Error&) {
    return "";
  }
}

TemplateTraits find_traits(const pipeline::TextPipeline& pipeline) {
  TemplateTraits traits;
  if (!pipeline.chat_template()) return traits;
  auto shown = [](const std::string& text) { return text.find(kSample) != std::string::npos; };
  ordered_json parts = ordered_json::array({{{"type", "text"}, {"text", kSample}}});
  std::string as_list = render_sample(pipeline, "user", parts);
  traits.strings = shown(render_sample(pipeline, "user", kSample));
  // A template that does not know lists prints them, keys and all.
  traits.lists = shown(as_list) && as_list.find("type") == std::string::npos;
  traits.strings = traits.strings || !traits.lists;
  traits.tools = template_takes_tools(pipeline.chat_template()->source());
  traits.developer = shown(render_sample(pipeline, "developer", kSample));
  return traits;
}

const ToolStyle* find_tool_style(const pipeline::TextPipeline& pipeline, const ServerOptions& options,
                                 const TemplateTraits& traits) {
  if (!options.tool_call_parser.empty()) return &quaver::tool_style(options.tool_call_parser);
  if (!pipeline.chat_template()) return nullptr;
  return traits.tools ? detect_tool_style(pipeline.chat_template()->source()) : &quaver::tool_style("hermes");
}

json merged_defaults(const pipeline::Pipeline& pipeline, const ServerOptions& options) {
  json out =
      pipeline.card().generation_defaults.is_object() ? pipeline.card().generation_defaults : json::object();
  for (const auto& [name, value] : options.default_sampling_params.items()) out[name] = value;
  return out;
}

}  // namespace

ServedText::ServedText(pipeline::TextPipeline& p, const ServerOptions& options)
    : pipeline(p),
      specials(p.tokenizer()),
      traits(find_traits(p)),
      tool_style(find_tool_style(p, options, traits)) {}

ServedModel::ServedModel(pipeline::Pipeline& p, const ServerOptions& options)
    : pipeline(p), names(options.served_model_names), defaults(merged_defaults(p, options)) {
  check_default_params(options.default_sampling_params, p.images() ? ModelKind::kPictures : ModelKind::kText);
  if (pipeline::TextPipeline* text = p.text()) text_.emplace(*text, options);
  if (p.images()) image_defaults_ = image_defaults_of(defaults);
  if (names.empty()) names.push_back(p.card().path);
}

bool ServedModel::can(std::string_view ability) const {
  const auto& list = pipeline.card().capabilities;
  return std::find(list.begin(), list.end(), ability) != list.end();
}

std::string ServedModel::check_name(Fields& fields) const {
  const json* name = fields.raw("model");
  if (!name) return names.front();
  if (!name->is_string()) {
    fields.wrong("string_type", "model", "must be text", *name);
    return names.front();
  }
  const auto& text = name->get_ref<const std::string&>();
  if (std::find(names.begin(), names.end(), text) != names.end()) return text;
  if (text == pipeline.card().path) return names.front();
  throw ApiError(404, "NotFoundError",
                 cat("model_not_found: the model '", text.substr(0, 200),
                     "' does not exist here; served is '", names.front(), "'"),
                 "model");
}

}  // namespace quaver::server
