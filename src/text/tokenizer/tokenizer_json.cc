// Reads a tokenizer.json.
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer/pipeline_tokenizer.h"

namespace quaver {
namespace {

const json& part(const json& document, const char* key) {
  static const json null;
  const auto it = document.find(key);
  return it == document.end() ? null : *it;
}

}  // namespace

// The keys "truncation" and "padding" shape batches for training; a server cuts and pads itself, as
// Transformers does.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view document, std::string_view what) {
  const json parsed = parse_json(document, what);
  require(parsed.is_object() && parsed.contains("model"), ErrorKind::kBadFile, what,
          ": a tokenizer needs the key 'model'");
  const auto version = json_value<std::string>(parsed, "version", "1.0", what);
  require(version == "1.0", ErrorKind::kBadFile, what, ": version is '", version, "', expected '1.0'");
  text::TokenizerParts parts;
  parts.document = document;
  if (const json& spec = part(parsed, "normalizer"); !spec.is_null())
    parts.normalizer = text::make_normalizer(spec, what);
  if (const json& spec = part(parsed, "pre_tokenizer"); !spec.is_null())
    parts.pre_tokenizer = text::make_pre_tokenizer(spec, what);
  parts.model = text::make_token_model(part(parsed, "model"), what);
  parts.added = std::make_unique<text::AddedTokens>(part(parsed, "added_tokens"), *parts.model,
                                                    parts.normalizer.get(), what);
  parts.decoder = text::make_decoder(part(parsed, "decoder"), what);
  if (const json& spec = part(parsed, "post_processor"); !spec.is_null()) {
    parts.post_processor = text::make_post_processor(spec, what, [&](int32_t id) {
      return parts.model->vocabulary().contains(id) || parts.added->by_id(id);
    });
  }
  return std::make_unique<text::PipelineTokenizer>(std::move(parts));
}

}  // namespace quaver
