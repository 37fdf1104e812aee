// Reads a tokenizer.json.
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer/pipeline_tokenizer.h"
#include "text/tokenizer/shown.h"

namespace quaver {
namespace text {
namespace {

const json& part(const json& document, const char* key) {
  static const json null;
  const auto it = document.find(key);
  return it == document.end() ? null : *it;
}

}  // namespace

// The keys "truncation" and "padding" shape batches for training; a server cuts and pads itself, as
// Transformers does.
std::unique_ptr<Tokenizer> make_pipeline_tokenizer(const json& document, std::function<std::string()> text,
                                                   std::string_view what) {
  require(document.is_object() && document.contains("model"), ErrorKind::kBadFile, what,
          ": a tokenizer needs the key 'model'");
  const auto version = json_value<std::string>(document, "version", "1.0", what);
  require(version == "1.0", ErrorKind::kBadFile, what, ": version is '", shown(version), "', expected '1.0'");
  TokenizerParts parts;
  parts.document = std::move(text);
  if (const json& spec = part(document, "normalizer"); !spec.is_null())
    parts.normalizer = make_normalizer(spec, what);
  if (const json& spec = part(document, "pre_tokenizer"); !spec.is_null())
    parts.pre_tokenizer = make_pre_tokenizer(spec, what);
  parts.model = make_token_model(part(document, "model"), what);
  parts.added = std::make_unique<AddedTokens>(part(document, "added_tokens"), *parts.model,
                                              parts.normalizer.get(), what);
  parts.decoder = make_decoder(part(document, "decoder"), what);
  if (const json& spec = part(document, "post_processor"); !spec.is_null()) {
    parts.post_processor = make_post_processor(spec, what, [&](int32_t id) {
      return parts.model->vocabulary().contains(id) || parts.added->by_id(id);
    });
  }
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace text

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view document, std::string_view what) {
  auto text = [kept = std::string(document)] { return kept; };
  return text::make_pipeline_tokenizer(parse_json(document, what), std::move(text), what);
}

}  // namespace quaver
