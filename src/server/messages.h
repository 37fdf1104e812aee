// Checks the messages and tools of a chat request and puts them into the form that templates read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/fields.h"
#include "server/served_model.h"
#include "text/chat_template.h"

namespace quaver::server {

// The members of a body whose key order matters to templates: messages, tools, documents,
// chat_template_kwargs. Looks into extra_body too. The body has been parsed before, so this cannot fail on
// syntax. Throws ApiError 400 when one object among them has more than 1,000 keys.
ordered_json ordered_members(Fields& fields, const std::string& body);

// Notes problems in `fields` under "messages.N...."; returns the messages as the template wants them. Parts
// other than text throw ApiError 400 that names the missing ability.
ordered_json read_messages(Fields& fields, const ordered_json& members, const ServedModel& model);

// Checked tools, null when there are none.
ordered_json read_tools(Fields& fields, const ordered_json& members);

struct ToolChoice {
  enum class Kind { kNone, kAuto, kRequired, kNamed } kind = Kind::kNone;
  std::string name;  // with kNamed
};
ToolChoice read_tool_choice(Fields& fields, const ordered_json& tools);

}  // namespace quaver::server
