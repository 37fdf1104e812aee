// A tokenizer put together from the components of a tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoders.h"
#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/post_processors.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/token_model.h"

namespace quaver::text {

struct TokenizerParts {
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;  // may be null
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<AddedTokens> added;
  // Makes the tokenizer.json on demand: it would take more memory than all else.
  std::function<std::string()> document;
};

// From a parsed tokenizer.json. Throws Error(kBadFile) beginning with `what` on anything unknown or
// inconsistent.
std::unique_ptr<Tokenizer> make_pipeline_tokenizer(const json& document, std::function<std::string()> text,
                                                   std::string_view what);

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                              bool parse_special) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::unique_ptr<DecodeStream> decode_stream(bool skip_special_tokens) const override;
  std::string_view token_text(int32_t id) const override;
  std::optional<int32_t> token_id(std::string_view token) const override;
  bool is_special(int32_t id) const override;
  int32_t vocab_size() const override;
  std::string to_tokenizer_json() const override { return parts_.document(); }

 private:
  class Stream;
  Segments segment(std::string_view text, bool parse_special) const;
  void add_normalized(std::string_view text, size_t origin_bytes, bool parse_special,
                      Segments& segments) const;
  // The text that a token brings to decoding; throws Error(kInvalidInput) when there is no such id.
  std::string_view decoded_token(int32_t id) const;

  TokenizerParts parts_;
};

}  // namespace quaver::text
