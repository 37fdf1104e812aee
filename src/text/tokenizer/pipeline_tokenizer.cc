// Encoding and decoding as the sum of the components' work.
#include "text/tokenizer/pipeline_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// Where decoded text ends up.
class Collector final : public DecodeStage {
 public:
  explicit Collector(std::string& out) : out_(out) {}
  void text(std::string_view fragment) override { out_ += fragment; }
  void end_item() override {}
  void finish() override {}

 private:
  std::string& out_;
};

}  // namespace

class PipelineTokenizer::Stream final : public DecodeStream {
 public:
  Stream(const PipelineTokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        first_(tokenizer.parts_.decoder->start(std::make_unique<Collector>(out_))) {}

  std::string push(int32_t id) override {
    add(id);
    return std::exchange(out_, {});
  }
  std::string finish() override {
    first_->finish();
    return std::exchange(out_, {});
  }
  void add(int32_t id) {
    const std::string_view token = tokenizer_.decoded_token(id);
    if (skip_special_tokens_ && tokenizer_.parts_.added->is_special_text(token)) return;
    first_->text(token);
    first_->end_item();
  }

 private:
  const PipelineTokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::string out_;
  std::unique_ptr<DecodeStage> first_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  std::vector<bool> special(static_cast<size_t>(parts_.added->id_bound()));
  for (const AddedToken& token : parts_.added->all()) special[static_cast<size_t>(token.id)] = token.special;
  parts_.model->set_special(std::move(special));
}

void PipelineTokenizer::add_normalized(std::string_view text, size_t origin_bytes, bool parse_special,
                                       Segments& segments) const {
  NormalizedText normal{std::string(text), origin_bytes, segments.limit};
  if (parts_.normalizer) parts_.normalizer->apply(normal);
  const Segment whole{segments.text.size(), segments.text.size() + normal.text.size(), -1,
                      normal.origin_bytes};
  segments.text += normal.text;
  for (const TokenMatch& match : parts_.added->find(normal.text, true, parse_special)) {
    Segment segment = part_of(whole, match.begin, match.end);
    if (match.token) segment.token_id = match.token->id;
    segments.list.push_back(segment);
  }
}

Segments PipelineTokenizer::segment(std::string_view text, bool parse_special) const {
  Segments segments{.limit = growth_limit(text.size())};
  for (const TokenMatch& match : parts_.added->find(text, false, parse_special)) {
    const size_t origin = match.begin == 0 ? utf8_length(text[0]) : 0;
    if (match.token)
      segments.list.push_back({segments.text.size(), segments.text.size(), match.token->id, 0});
    else
      add_normalized(text.substr(match.begin, match.end - match.begin), origin, parse_special, segments);
  }
  if (parts_.pre_tokenizer) parts_.pre_tokenizer->apply(segments);
  return segments;
}

std::vector<int32_t> PipelineTokenizer::encode(std::string_view text, bool add_special_tokens,
                                               bool parse_special) const {
  check_text_size(text.size(), kMaxTextBytes);
  std::string repaired;
  if (!utf8_valid(text)) text = repaired = utf8_repair(text);
  std::vector<int32_t> ids;
  const Segments segments = segment(text, parse_special);
  for (const Segment& segment : segments.list) {
    if (segment.token_id >= 0)
      ids.push_back(segment.token_id);
    else
      parts_.model->encode(segments.view(segment), parse_special, ids);
  }
  if (parts_.post_processor) parts_.post_processor->apply(ids, add_special_tokens);
  return ids;
}

std::string PipelineTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Stream stream(*this, skip_special_tokens);
  for (const int32_t id : ids) stream.add(id);
  return stream.finish();
}

std::unique_ptr<DecodeStream> PipelineTokenizer::decode_stream(bool skip_special_tokens) const {
  return std::make_unique<Stream>(*this, skip_special_tokens);
}

std::string_view PipelineTokenizer::decoded_token(int32_t id) const {
  if (const AddedToken* token = parts_.added->by_id(id)) return token->normal;
  require(parts_.model->vocabulary().contains(id), ErrorKind::kInvalidInput, "token id ", id,
          " is not in the vocabulary of ", vocab_size(), " tokens");
  return parts_.model->vocabulary().token(id);
}

std::string_view PipelineTokenizer::token_text(int32_t id) const {
  const AddedToken* token = parts_.added->by_id(id);
  return token ? std::string_view(token->content) : decoded_token(id);
}

std::optional<int32_t> PipelineTokenizer::token_id(std::string_view token) const {
  const auto added = parts_.added->find_id(token);
  return added ? added : parts_.model->vocabulary().find(token);
}

bool PipelineTokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_.added->by_id(id);
  return token && token->special;
}

int32_t PipelineTokenizer::vocab_size() const {
  return std::max(parts_.model->vocabulary().id_bound(), parts_.added->id_bound());
}

}  // namespace quaver::text
