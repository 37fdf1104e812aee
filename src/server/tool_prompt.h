// Tools for models whose chat template knows none: described in the system message, calls and results as
// text.
#pragma once

#include "text/chat_template.h"

namespace quaver::server {

// True when the template writes tools itself.
bool template_takes_tools(std::string_view source);

// Rewrites the messages so that a template of plain messages carries everything: `tools` (null = none) go
// into the system message, calls of the assistant into its text, results of tools into user messages. Calls
// are asked for, and written, in the "hermes" style. Contents must be text.
void write_tools_as_text(ordered_json& messages, const ordered_json& tools);

}  // namespace quaver::server
