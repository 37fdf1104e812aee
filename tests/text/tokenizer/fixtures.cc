// Reads the stored tokenizers and texts.
#include "text/tokenizer/fixtures.h"

#include "base/mapped_file.h"

namespace quaver::text {
namespace {

constexpr size_t kMaxFile = size_t{64} << 20;

class Fnv {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<uint8_t>(byte)) * 16777619u;
  }
  void add(uint32_t word) {
    for (int i = 0; i < 4; ++i) value_ = (value_ ^ (word >> (8 * i) & 0xFF)) * 16777619u;
  }
  uint32_t value() const { return value_; }

 private:
  uint32_t value_ = 2166136261u;
};

std::string bytes_of_hex(const std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}

std::vector<std::string> read_texts() {
  std::vector<std::string> texts;
  for (const json& row : read_json_file(golden_path("texts.json")))
    texts.push_back(row.is_string() ? row.get<std::string>()
                                    : bytes_of_hex(row.at("hex").get<std::string>()));
  return texts;
}

}  // namespace

std::string golden_path(const std::string& name) {
  return cat(QUAVER_TEST_DATA, "/golden/text/tokenizers/", name);
}

std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& kind) {
  return tokenizer_from_json(read_text_file(golden_path(kind + ".json"), kMaxFile), kind + ".json");
}

std::unique_ptr<Tokenizer> golden_sentencepiece(const std::string& kind) {
  const std::string model = read_text_file(golden_path(kind + ".model"), kMaxFile);
  return tokenizer_from_sentencepiece(std::as_bytes(std::span(model)), kind + ".model");
}

const std::vector<std::string>& golden_texts() {
  static const std::vector<std::string> texts = read_texts();
  return texts;
}

const json& golden_answers() {
  static const json answers = read_json_file(golden_path("expected.json"));
  return answers;
}

uint32_t hash_ids(std::span<const std::vector<int32_t>> lists) {
  Fnv hash;
  for (const auto& ids : lists) {
    for (const int32_t id : ids) hash.add(static_cast<uint32_t>(id));
    hash.add(0xFFFFFFFFu);
  }
  return hash.value();
}

uint32_t hash_texts(std::span<const std::string> texts) {
  Fnv hash;
  for (const std::string& text : texts) {
    hash.add(text);
    hash.add("\xFF");
  }
  return hash.value();
}

uint32_t hash_at(const std::string& digits, size_t n) {
  return static_cast<uint32_t>(std::stoul(digits.substr(8 * n, 8), nullptr, 16));
}

std::vector<std::vector<int32_t>> golden_id_lists(int32_t vocab_size, size_t count) {
  constexpr size_t kLength = 24;
  std::vector<std::vector<int32_t>> lists(count);
  uint64_t state = 1;
  for (auto& ids : lists) {
    for (size_t i = 0; i < kLength; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint64_t draw = state >> 33, size = static_cast<uint64_t>(vocab_size);
      ids.push_back(static_cast<int32_t>(draw % (draw & 256 ? size : std::min<uint64_t>(size, 300))));
    }
  }
  return lists;
}

json minimal_document(const json& members) {
  json document = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", nullptr},
      {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", {{"?", 0}, {"a", 1}, {"b", 2}}}}}};
  document.update(members);
  return document;
}

}  // namespace quaver::text
