// The kinds of decoder, and the table that makes them.
#include "text/tokenizer/decoders.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/decode_stages.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"

namespace quaver::text {
namespace {

using Stage = std::unique_ptr<DecodeStage>;
using Start = std::function<Stage(Stage)>;

class StageDecoder final : public Decoder {
 public:
  explicit StageDecoder(Start start) : start_(std::move(start)) {}
  Stage start(Stage next) const override { return start_(std::move(next)); }

 private:
  Start start_;
};

Start make(const json& spec, std::string_view what, int depth);

Start make_sequence(const json& spec, std::string_view what, int depth) {
  const auto it = spec.find("decoders");
  require(it != spec.end() && it->is_array(), ErrorKind::kBadFile, what,
          ": the sequence has no list 'decoders'");
  std::vector<Start> parts;
  for (const json& part : *it) parts.push_back(make(part, what, depth + 1));
  return [parts](Stage next) {
    for (size_t i = parts.size(); i-- > 0;) next = parts[i](std::move(next));
    return next;
  };
}

Start make_replace(const json& spec, std::string_view what, int) {
  return [pattern = read_pattern(spec, what), content = json_required<std::string>(spec, "content", what)](
             Stage next) { return replace(pattern, content, std::move(next)); };
}

Start make_strip(const json& spec, std::string_view what, int) {
  constexpr size_t kMost = size_t{1} << 20;
  const StripOptions options{read_character(spec, "content", what), read_count(spec, "start", 0, kMost, what),
                             read_count(spec, "stop", 0, kMost, what)};
  return [options](Stage next) { return strip(options, std::move(next)); };
}

Start make_ctc(const json& spec, std::string_view what, int) {
  const CtcOptions options{json_required<std::string>(spec, "pad_token", what),
                           json_required<std::string>(spec, "word_delimiter_token", what),
                           json_required<bool>(spec, "cleanup", what)};
  return [options](Stage next) { return ctc(options, std::move(next)); };
}

struct Row {
  const char* type;
  std::function<Start(const json&, std::string_view, int)> make;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"ByteLevel", [](const auto&...) -> Start { return byte_level; }},
      {"ByteFallback", [](const auto&...) -> Start { return byte_fallback; }},
      {"Fuse", [](const auto&...) -> Start { return fuse; }},
      {"Metaspace",
       [](const json& spec, std::string_view what, int) -> Start {
         return [options = read_metaspace(spec, what)](Stage next) {
           return metaspace(options, std::move(next));
         };
       }},
      {"WordPiece",
       [](const json& spec, std::string_view what, int) -> Start {
         return [prefix = json_required<std::string>(spec, "prefix", what),
                 cleanup = json_required<bool>(spec, "cleanup", what)](Stage next) {
           return word_piece(prefix, cleanup, std::move(next));
         };
       }},
      {"BPEDecoder",
       [](const json& spec, std::string_view what, int) -> Start {
         return [suffix = json_required<std::string>(spec, "suffix", what)](Stage next) {
           return end_of_word(suffix, std::move(next));
         };
       }},
      {"Replace", make_replace},
      {"Strip", make_strip},
      {"CTC", make_ctc},
      {"Sequence", make_sequence},
  };
  return rows;
}

Start make(const json& spec, std::string_view what, int depth) {
  require(depth <= kMaxSequenceNesting, ErrorKind::kBadFile, what, ": decoders nest too deeply");
  const std::string type = read_type(spec, cat(what, ": a decoder"));
  for (const Row& row : table())
    if (type == row.type) return row.make(spec, what, depth);
  fail(ErrorKind::kBadFile, what, ": unknown decoder '", shown(type), "'");
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const json& spec, std::string_view what) {
  return std::make_unique<StageDecoder>(spec.is_null() ? Start(join_with_spaces) : make(spec, what, 0));
}

}  // namespace quaver::text
