#include "models/tokenizer_files.h"

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf.h"
#include "models/gguf_keys.h"
#include "models/gguf_special_tokens.h"
#include "models/model_path.h"

namespace quaver::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

// The one that an application without a wish of its own should take.
std::optional<std::string> template_of(const json& value, const std::string& what) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  require(value.is_array(), ErrorKind::kBadFile, what,
          ": chat_template must be a string or a list of named ones");
  for (const json& entry : value)
    if (json_value<std::string>(entry, "name", "", what) == "default")
      return json_required<std::string>(entry, "template", what);
  return std::nullopt;
}

// Null when the folder has no such file.
json object_in(const fs::path& file) {
  if (!fs::exists(file)) return nullptr;
  json document = read_json_file(file.string());
  require(document.is_object(), ErrorKind::kBadFile, file.string(), ": must be a JSON object");
  return document;
}

std::optional<std::string> template_in(const fs::path& file) {
  json document = object_in(file);
  if (document.is_null()) return std::nullopt;
  return template_of(json_value<json>(document, "chat_template", nullptr, file.string()), file.string());
}

// A tokenizer.json says itself what stands around a text; there Transformers doesn't read these keys either.
SentencePieceOptions sentencepiece_options(const fs::path& folder) {
  fs::path file = folder / "tokenizer_config.json";
  json document = object_in(file);
  auto flag = [&](const char* key) -> std::optional<bool> {
    if (!document.contains(key) || document.at(key).is_null()) return std::nullopt;
    return json_required<bool>(document, key, file.string());
  };
  return {.add_bos = flag("add_bos_token"), .add_eos = flag("add_eos_token")};
}

struct FoundTemplate {
  std::string source;
  fs::path file;
};

std::optional<FoundTemplate> find_template(const fs::path& path) {
  if (fs::path gguf = find_gguf(path); !gguf.empty()) {
    const GgufFile file = GgufFile::open(gguf);
    const auto text = file.find_string(gguf_tokenizer_keys::kChatTemplate);
    return text ? std::optional(FoundTemplate{std::string(*text), gguf}) : std::nullopt;
  }
  if (fs::path file = path / "chat_template.jinja"; fs::exists(file))
    return FoundTemplate{read_text_file(file, kMaxTemplateBytes), file};
  for (const char* name : {"chat_template.json", "tokenizer_config.json"})
    if (auto source = template_in(path / name)) return FoundTemplate{*std::move(source), path / name};
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& folder_or_file) {
  fs::path path = folder_or_file;
  if (fs::path gguf = find_gguf(path); !gguf.empty())
    return tokenizer_from_gguf(gguf_vocabulary(GgufFile::open(gguf)), gguf.string());
  if (fs::path file = path / "tokenizer.json"; fs::exists(file))
    return tokenizer_from_json(read_text_file(file, kMaxTokenizerBytes), file.string());
  for (const char* name : {"tokenizer.model", "spiece.model"})
    if (fs::path file = path / name; fs::exists(file))
      return tokenizer_from_sentencepiece(MappedFile::open(file)->bytes(), file.string(),
                                          sentencepiece_options(path));
  fail(ErrorKind::kNotFound, folder_or_file, ": has no tokenizer.json, tokenizer.model or spiece.model");
}

std::unique_ptr<ChatTemplate> open_chat_template(const std::string& folder_or_file) {
  const auto found = find_template(folder_or_file);
  return found ? ChatTemplate::compile(found->source, found->file.string()) : nullptr;
}

std::optional<std::string> chat_template_source(const std::string& folder_or_file) {
  auto found = find_template(folder_or_file);
  return found ? std::optional(std::move(found->source)) : std::nullopt;
}

}  // namespace quaver::models
