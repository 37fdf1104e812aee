// Answers requests for a tokenizer on standard input, for compare_tokenizers.py.
//
//     quaver_tokenizer_driver json|sentencepiece|gguf FILE           one JSON request a line, one JSON answer
//     a line quaver_tokenizer_driver json|sentencepiece|gguf FILE export    writes the tokenizer.json
//     quaver_tokenizer_driver json|sentencepiece|gguf FILE speed TEXT
//
// A GGUF's vocabulary is read from a JSON file with GgufVocabulary's names. Requests: {"hex": bytes,
// "special": bool, "parse": bool, "skip": bool} or {"ids": [...], "skip": bool}; answers: {"ids": [...],
// "text": "..."}.
#include <chrono>
#include <iostream>

#include "base/json.h"
#include "base/mapped_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace quaver {
namespace {

constexpr size_t kMaxFile = size_t{1} << 30;

GgufVocabulary read_vocabulary(const json& from) {
  GgufVocabulary vocabulary;
  vocabulary.model = from.at("model");
  vocabulary.pre = from.at("pre");
  vocabulary.tokens = from.at("tokens").get<std::vector<std::string>>();
  vocabulary.scores = from.at("scores").get<std::vector<float>>();
  vocabulary.types = from.at("types").get<std::vector<int32_t>>();
  vocabulary.merges = from.at("merges").get<std::vector<std::string>>();
  const auto id = [&](const char* key) {
    return from.at(key).is_null() ? std::nullopt : std::optional<int32_t>(from.at(key));
  };
  vocabulary.bos = id("bos");
  vocabulary.eos = id("eos");
  vocabulary.unk = id("unk");
  vocabulary.pad = id("pad");
  vocabulary.add_bos = from.at("add_bos");
  vocabulary.add_eos = from.at("add_eos");
  vocabulary.add_space_prefix = from.at("add_space_prefix");
  return vocabulary;
}

std::unique_ptr<Tokenizer> open(const std::string& kind, const std::string& path) {
  const std::string bytes = read_text_file(path, kMaxFile);
  if (kind == "sentencepiece") return tokenizer_from_sentencepiece(std::as_bytes(std::span(bytes)), path);
  if (kind == "gguf") return tokenizer_from_gguf(read_vocabulary(json::parse(bytes)), path);
  return tokenizer_from_json(bytes, path);
}

std::string bytes_of_hex(const std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}

json answer(const Tokenizer& tokenizer, const json& request) {
  const bool skip = request.value("skip", false);
  std::vector<int32_t> ids;
  if (request.contains("ids"))
    ids = request.at("ids").get<std::vector<int32_t>>();
  else
    ids = tokenizer.encode(bytes_of_hex(request.at("hex")), request.value("special", false),
                           request.value("parse", true));
  const std::string text = tokenizer.decode(ids, skip);
  Detokenizer detokenizer(tokenizer, skip);
  std::string streamed;
  for (const int32_t id : ids) streamed += detokenizer.push(id);
  if (streamed + detokenizer.finish() != text) return {{"error", "the stream differs from " + text}};
  return {{"ids", ids}, {"text", text}};
}

void measure(const Tokenizer& tokenizer, const std::string& path) {
  const std::string text = read_text_file(path, kMaxFile);
  const auto start = std::chrono::steady_clock::now();
  const size_t count = tokenizer.encode(text, false).size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << text.size() << " bytes, " << count << " tokens, "
            << static_cast<double>(text.size()) / seconds / 1e6 << " MB/s\n";
}

void serve(const Tokenizer& tokenizer) {
  std::string line;
  while (std::getline(std::cin, line)) {
    json result;
    try {
      result = answer(tokenizer, json::parse(line));
    } catch (const Error& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << "\n";
  }
}

}  // namespace
}  // namespace quaver

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const auto tokenizer = quaver::open(argv[1], argv[2]);
    const std::string job = argc > 3 ? argv[3] : "";
    if (job == "export")
      std::cout << tokenizer->to_tokenizer_json();
    else if (job == "speed" && argc > 4)
      quaver::measure(*tokenizer, argv[4]);
    else
      quaver::serve(*tokenizer);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
