#include "server/logprobs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace quaver::server {
namespace {

constexpr double kFloor = -9999.0;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

// Byte-level vocabularies spell each byte as one printable character: the printable bytes of Latin-1 as
// themselves, the other 68 as U+0100 and on, in order.
std::array<int, 0x144> make_byte_of_character() {
  std::array<int, 0x144> table;
  table.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    table[static_cast<size_t>(printable ? byte : next++)] = byte;
  }
  return table;
}

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  static const std::array<int, 0x144> table = make_byte_of_character();
  std::string out;
  for (size_t i = 0; i < spelling.size(); ++i) {
    unsigned c = static_cast<unsigned char>(spelling[i]);
    if (c >= 0xc2 && c <= 0xc5 && i + 1 < spelling.size())
      c = (c & 0x1f) << 6 | (static_cast<unsigned char>(spelling[++i]) & 0x3f);
    else if (c >= 0x80)
      return std::nullopt;
    if (c >= table.size() || table[c] < 0) return std::nullopt;
    out.push_back(static_cast<char>(table[c]));
  }
  return out;
}

// "<0x0A>"
std::optional<std::string> hex_token_byte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  int value = 0;
  auto [end, error] = std::from_chars(spelling.data() + 3, spelling.data() + 5, value, 16);
  if (error != std::errc() || end != spelling.data() + 5) return std::nullopt;
  return std::string(1, static_cast<char>(value));
}

ordered_json bytes_json(const std::string& bytes) {
  ordered_json out = ordered_json::array();
  for (unsigned char byte : bytes) out.push_back(static_cast<int>(byte));
  return out;
}

ordered_json entry(const Tokenizer& tokenizer, const llm::Logprob& item, bool as_id) {
  return {{"token", token_string(tokenizer, item.token, as_id)},
          {"logprob", json_logprob(item.logprob)},
          {"bytes", bytes_json(token_bytes(tokenizer, item.token))}};
}

}  // namespace

// Decoding the token twice and dropping the first copy shows it as it stands inside a text: some decoders
// strip the space of the first token.
std::string token_string(const Tokenizer& tokenizer, int32_t id, bool as_id) {
  if (as_id) return cat("token_id:", id);
  if (id >= tokenizer.vocab_size()) return "";
  const std::array twice = {id, id};
  std::string once = tokenizer.decode(std::span(twice).first(1), false);
  std::string both = tokenizer.decode(twice, false);
  bool clean = both.starts_with(once) && once.find(kReplacement) == std::string::npos;
  return clean ? both.substr(once.size()) : once;
}

std::string token_bytes(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocab_size()) return "";
  std::string text = token_string(tokenizer, id, false);
  std::string_view spelling = tokenizer.token_text(id);
  if (auto byte = hex_token_byte(spelling)) return *byte;
  if (text.find(kReplacement) == std::string::npos) return text;
  return byte_level_bytes(spelling).value_or(text);
}

double json_logprob(float logprob) {
  require(!std::isnan(logprob) && logprob < HUGE_VALF, ErrorKind::kNonFinite,
          "a log-probability came out as ", logprob, " where a number was due");
  return std::max(static_cast<double>(logprob), kFloor);
}

ordered_json chat_logprob(const Tokenizer& tokenizer, const llm::PositionLogprobs& position, int32_t top,
                          bool as_id) {
  ordered_json out = entry(tokenizer, position.front(), as_id);
  ordered_json alternatives = ordered_json::array();
  size_t most = top < 0 ? position.size() - 1 : std::min(position.size() - 1, static_cast<size_t>(top));
  for (size_t i = 0; i < most; ++i) alternatives.push_back(entry(tokenizer, position[i + 1], as_id));
  out["top_logprobs"] = std::move(alternatives);
  return out;
}

ordered_json prompt_logprobs_json(const Tokenizer& tokenizer,
                                  const std::vector<llm::PositionLogprobs>& positions) {
  ordered_json out = ordered_json::array();
  for (const llm::PositionLogprobs& position : positions) {
    ordered_json tokens;
    for (const llm::Logprob& item : position)
      tokens[std::to_string(item.token)] = {{"logprob", json_logprob(item.logprob)},
                                            {"rank", item.rank},
                                            {"decoded_token", token_string(tokenizer, item.token, false)}};
    out.push_back(std::move(tokens));
  }
  return out;
}

void CompletionLogprobs::add(const llm::PositionLogprobs& position) {
  const llm::Logprob& chosen = position.front();
  add_bare(chosen.token);
  logprobs_.back() = json_logprob(chosen.logprob);
  ordered_json alternatives = ordered_json::object();
  alternatives[token_string(tokenizer_, chosen.token, as_ids_)] = json_logprob(chosen.logprob);
  size_t most = top_ < 0 ? position.size() - 1 : std::min(position.size() - 1, static_cast<size_t>(top_));
  for (size_t i = 1; i <= most; ++i)
    alternatives[token_string(tokenizer_, position[i].token, as_ids_)] = json_logprob(position[i].logprob);
  tops_.back() = std::move(alternatives);
}

void CompletionLogprobs::add_bare(int32_t token) {
  offsets_.push_back(offset_);
  offset_ += count_characters(token_string(tokenizer_, token, false));
  tokens_.push_back(token_string(tokenizer_, token, as_ids_));
  logprobs_.push_back(nullptr);
  tops_.push_back(nullptr);
}

ordered_json CompletionLogprobs::take() {
  ordered_json out = {{"text_offset", std::move(offsets_)},
                      {"token_logprobs", std::move(logprobs_)},
                      {"tokens", std::move(tokens_)},
                      {"top_logprobs", std::move(tops_)}};
  offsets_ = logprobs_ = tokens_ = tops_ = ordered_json::array();
  return out;
}

}  // namespace quaver::server
