#include "models/gguf_write_tokenizer.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "models/gguf_keys.h"
#include "models/gguf_special_tokens.h"
#include "models/tokenizer_files.h"
#include "text/gguf_vocabulary.h"

namespace quaver::models {
namespace {

// Spaces, digits, letters of several scripts, contractions and lines: what pre-tokenizers cut differently.
constexpr std::string_view kSample =
    "Hello  world! It's 12345 o'clock, isn't it?\n\n\tif (x >= 10) { return \"na\u00efve\"; }   "
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u65e5\u672c\u8a9e \U0001F600 2\u00b2 a_b e-mail: a@b.c\r\n";

// "bos_token": text, or an object that holds it as "content".
std::optional<int32_t> named_token(const json& config, const char* key, const Tokenizer& tokenizer) {
  if (!config.is_object() || !config.contains(key)) return std::nullopt;
  const json& value = config.at(key);
  const json& text = value.is_object() && value.contains("content") ? value.at("content") : value;
  return text.is_string() ? tokenizer.token_id(text.get<std::string>()) : std::nullopt;
}

// "eos_token_id": a number or a list of them.
std::vector<int32_t> ids_in(const json& config, const char* key) {
  std::vector<int32_t> ids;
  if (!config.is_object() || !config.contains(key)) return ids;
  const json& value = config.at(key);
  for (const json& id : value.is_array() ? value : json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  return ids;
}

class SpecialTokens {
 public:
  SpecialTokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer, int32_t rows)
      : tokenizer_(tokenizer),
        rows_(rows),
        tokenizer_config_(checkpoint.sidecar("tokenizer_config.json")),
        generation_(checkpoint.sidecar("generation_config.json")),
        config_(checkpoint.config()) {}

  std::optional<int32_t> one(const char* name, const char* id_key) const {
    std::optional<int32_t> id = named_token(tokenizer_config_, name, tokenizer_);
    const std::vector<int32_t> ids = all(id_key);
    if (!id && !ids.empty()) id = ids.front();
    return id && *id >= 0 && *id < rows_ ? id : std::nullopt;
  }
  std::vector<int32_t> all(const char* id_key) const {
    std::vector<int32_t> ids = ids_in(generation_, id_key);
    return ids.empty() ? ids_in(config_, id_key) : ids;
  }

 private:
  const Tokenizer& tokenizer_;
  int32_t rows_;
  json tokenizer_config_, generation_, config_;
};

// What the post-processor puts around a text, told by what it does to one.
void read_ends(const Tokenizer& tokenizer, std::string_view what, GgufVocabulary& vocabulary) {
  std::vector<int32_t> around = tokenizer.encode("a", true);
  const std::vector<int32_t> bare = tokenizer.encode("a", false);
  if (around == bare) return;
  vocabulary.add_bos = vocabulary.bos && !around.empty() && around.front() == *vocabulary.bos;
  if (vocabulary.add_bos) around.erase(around.begin());
  vocabulary.add_eos =
      around != bare && vocabulary.eos && !around.empty() && around.back() == *vocabulary.eos;
  if (vocabulary.add_eos) around.pop_back();
  require(around == bare, ErrorKind::kUnsupported, what,
          ": the tokenizer puts other tokens around a text than bos and eos, which can't be told in a GGUF");
}

void compare_tokenizers(const Tokenizer& ours, const GgufVocabulary& vocabulary, std::string_view what) {
  const std::unique_ptr<Tokenizer> stored = tokenizer_from_gguf(vocabulary, what);
  require(ours.encode(kSample, true) == stored->encode(kSample, true), ErrorKind::kUnsupported, what,
          ": the tokenizer would cut texts differently from a GGUF");
}

}  // namespace

WrittenVocabulary gguf_vocabulary_for(const Checkpoint& checkpoint, const std::string& folder, int64_t rows) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder);
  const auto size = static_cast<int32_t>(rows);
  WrittenVocabulary written;
  GgufVocabulary& vocabulary = written.vocabulary;
  vocabulary = gguf_vocabulary_of(tokenizer->to_tokenizer_json(), size, folder);
  const SpecialTokens special(checkpoint, *tokenizer, size);
  vocabulary.bos = special.one("bos_token", "bos_token_id");
  vocabulary.eos = special.one("eos_token", "eos_token_id");
  vocabulary.unk = special.one("unk_token", "unk_token_id");
  vocabulary.pad = special.one("pad_token", "pad_token_id");
  read_ends(*tokenizer, folder, vocabulary);
  for (int32_t id : special.all("eos_token_id"))
    if (id >= 0 && id < size && vocabulary.eos != id) written.more_ends.push_back(id);
  compare_tokenizers(*tokenizer, vocabulary, folder);
  written.chat_template = chat_template_source(folder);
  return written;
}

void add_gguf_vocabulary(const WrittenVocabulary& written, std::string_view what, GgufMetadata& metadata) {
  namespace k = gguf_tokenizer_keys;
  const GgufVocabulary& vocabulary = written.vocabulary;
  metadata.add_string(k::kModel, vocabulary.model);
  metadata.add_string(k::kPre, vocabulary.pre);
  metadata.add_strings(k::kTokens, vocabulary.tokens);
  if (!vocabulary.scores.empty()) metadata.add_f32s(k::kScores, vocabulary.scores);
  metadata.add_i32s(k::kTypes, vocabulary.types);
  metadata.add_strings(k::kMerges, vocabulary.merges);
  auto add_id = [&](const char* key, std::optional<int32_t> id) {
    if (id) metadata.add_u32(key, static_cast<uint32_t>(*id));
  };
  add_id(k::kBos, vocabulary.bos);
  add_id(k::kEos, vocabulary.eos);
  add_id(k::kUnknown, vocabulary.unk);
  add_id(k::kPad, vocabulary.pad);
  // Ends of a turn that readers know by their spelling need no key; two more have one.
  std::vector<int32_t> ends = written.more_ends;
  std::erase_if(ends, [&](int32_t id) { return is_turn_end(vocabulary.tokens[static_cast<size_t>(id)]); });
  std::ranges::sort(ends, std::greater());
  if (!ends.empty()) add_id(k::kEom, ends[0]);
  if (ends.size() > 1) add_id(k::kEot, ends[1]);
  if (ends.size() > 2)
    log_warning(what, ": token ", ends[2], " and ", ends.size() - 3,
                " more end a reply, which can't be told in a GGUF");
  metadata.add_bool(k::kAddBos, vocabulary.add_bos);
  metadata.add_bool(k::kAddEos, vocabulary.add_eos);
  if (vocabulary.model == "llama") metadata.add_bool(k::kAddSpace, vocabulary.add_space_prefix);
  if (written.chat_template) metadata.add_string(k::kChatTemplate, *written.chat_template);
}

}  // namespace quaver::models
