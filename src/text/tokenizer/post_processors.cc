// The kinds of post-processor, and the table that makes them.
#include "text/tokenizer/post_processors.h"

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/tokenizer/component_limits.h"
#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"

namespace quaver::text {
namespace {

using Made = std::unique_ptr<PostProcessor>;
using Ids = std::vector<int32_t>;

// What the parts of a post-processor need while they are read.
struct Reader {
  std::string_view what;
  const std::function<bool(int32_t)>& exists;

  int32_t id(const json& value) const {
    const auto number = whole_number(value, INT32_MAX);
    require(number && exists(static_cast<int32_t>(*number)), ErrorKind::kBadFile, what,
            ": the post-processor adds id ", shown(value.dump()), ", which is not in the vocabulary");
    return static_cast<int32_t>(*number);
  }
};

// Ids before and after the text's own.
class Template final : public PostProcessor {
 public:
  struct Piece {
    bool is_text;
    Ids ids;
  };
  explicit Template(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}
  void apply(Ids& ids, bool add_special_tokens) const override {
    Ids out;
    for (const Piece& piece : pieces_) {
      if (!piece.is_text && !add_special_tokens) continue;
      const Ids& source = piece.is_text ? ids : piece.ids;
      out.insert(out.end(), source.begin(), source.end());
    }
    ids = std::move(out);
  }

 private:
  std::vector<Piece> pieces_;
};

class Sequence final : public PostProcessor {
 public:
  explicit Sequence(std::vector<Made> parts) : parts_(std::move(parts)) {}
  void apply(Ids& ids, bool add_special_tokens) const override {
    for (const auto& part : parts_) part->apply(ids, add_special_tokens);
  }

 private:
  std::vector<Made> parts_;
};

std::map<std::string, Ids> read_special_tokens(const json& spec, const Reader& reader) {
  std::map<std::string, Ids> tokens;
  const auto it = spec.find("special_tokens");
  require(it != spec.end() && it->is_object(), ErrorKind::kBadFile, reader.what,
          ": the template has no object 'special_tokens'");
  for (const auto& [name, token] : it->items()) {
    const auto ids = token.is_object() ? token.find("ids") : token.end();
    require(token.is_object() && ids != token.end() && ids->is_array(), ErrorKind::kBadFile, reader.what,
            ": special token '", name, "' of the template has no list 'ids'");
    for (const json& id : *ids) tokens[name].push_back(reader.id(id));
  }
  return tokens;
}

Template::Piece read_piece(const json& piece, const std::map<std::string, Ids>& tokens,
                           std::string_view what) {
  const bool known = piece.is_object() && piece.size() == 1 && piece.begin()->is_object();
  const std::string kind = known ? piece.begin().key() : "";
  require(kind == "Sequence" || kind == "SpecialToken", ErrorKind::kBadFile, what,
          ": a piece of the template is ", shown(piece.dump()), ", expected a Sequence or a SpecialToken");
  const auto id = json_required<std::string>(*piece.begin(), "id", what);
  if (kind == "Sequence") {
    require(id == "A", ErrorKind::kBadFile, what, ": the template for single texts uses sequence '",
            shown(id), "'");
    return {true, {}};
  }
  const auto token = tokens.find(id);
  require(token != tokens.end(), ErrorKind::kBadFile, what, ": the template uses '", shown(id),
          "', which is not among its special tokens");
  return {false, token->second};
}

Made make_template(const json& spec, const Reader& reader, int) {
  const auto tokens = read_special_tokens(spec, reader);
  const auto single = spec.find("single");
  require(single != spec.end() && single->is_array(), ErrorKind::kBadFile, reader.what,
          ": the template has no list 'single'");
  std::vector<Template::Piece> pieces;
  size_t texts = 0;
  for (const json& piece : *single)
    texts += pieces.emplace_back(read_piece(piece, tokens, reader.what)).is_text;
  require(texts == 1, ErrorKind::kBadFile, reader.what, ": the template holds the text ", texts, " times");
  return std::make_unique<Template>(std::move(pieces));
}

// BERT's and RoBERTa's: cls, the text, sep.
Made make_cls_sep(const json& spec, const Reader& reader, int) {
  const auto read = [&](const char* key) {
    const auto it = spec.find(key);
    require(it != spec.end() && it->is_array() && it->size() == 2, ErrorKind::kBadFile, reader.what,
            ": the post-processor's '", key, "' is not a pair of token and id");
    return Template::Piece{false, {reader.id((*it)[1])}};
  };
  return std::make_unique<Template>(std::vector<Template::Piece>{read("cls"), {true, {}}, read("sep")});
}

Made make(const json& spec, const Reader& reader, int depth);

Made make_sequence(const json& spec, const Reader& reader, int depth) {
  const auto it = spec.find("processors");
  require(it != spec.end() && it->is_array(), ErrorKind::kBadFile, reader.what,
          ": the sequence has no list 'processors'");
  std::vector<Made> parts;
  for (const json& part : *it) parts.push_back(make(part, reader, depth + 1));
  return std::make_unique<Sequence>(std::move(parts));
}

// Only trims offsets, which nothing here keeps.
Made make_byte_level(const json&, const Reader&, int) {
  return std::make_unique<Sequence>(std::vector<Made>());
}

struct Row {
  const char* type;
  Made (*make)(const json&, const Reader&, int);
};
constexpr Row kTable[] = {
    {"TemplateProcessing", make_template}, {"ByteLevel", make_byte_level}, {"BertProcessing", make_cls_sep},
    {"RobertaProcessing", make_cls_sep},   {"Sequence", make_sequence},
};

Made make(const json& spec, const Reader& reader, int depth) {
  require(depth <= kMaxSequenceNesting, ErrorKind::kBadFile, reader.what,
          ": post-processors nest too deeply");
  const std::string type = read_type(spec, cat(reader.what, ": a post-processor"));
  for (const Row& row : kTable)
    if (type == row.type) return row.make(spec, reader, depth);
  fail(ErrorKind::kBadFile, reader.what, ": unknown post-processor '", shown(type), "'");
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const json& spec, std::string_view what,
                                                   const std::function<bool(int32_t)>& exists) {
  return make(spec, Reader{what, exists}, 0);
}

}  // namespace quaver::text
