// Finds a model's tokenizer and chat template among its files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quaver::models {

// Of a folder: tokenizer.json, else tokenizer.model or spiece.model with add_bos_token and add_eos_token of
// tokenizer_config.json; of a .gguf: its vocabulary. Error(kNotFound) says what was looked for.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& folder_or_file);

// chat_template.jinja, else "chat_template" (a string, or a list of named ones: "default") of
// chat_template.json or else of tokenizer_config.json; of a .gguf: its metadata. Null when the model has
// none.
std::unique_ptr<ChatTemplate> open_chat_template(const std::string& folder_or_file);

// Its text, which may be one that doesn't compile.
std::optional<std::string> chat_template_source(const std::string& folder_or_file);

}  // namespace quaver::models
