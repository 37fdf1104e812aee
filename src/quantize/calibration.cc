#include "quantize/calibration.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/embedded_file.h"
#include "base/json.h"
#include "base/mapped_file.h"

QUAVER_EMBED_FILE(quaver_calibration_text, QUAVER_CALIBRATION_TEXT);

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxDatasetBytes = size_t{1} << 30;
constexpr size_t kPieceBytes =
    16384;  // about 4,000 tokens: several rows share a document, many documents mix
constexpr int64_t kRowsPerWanted = 4;

void require_utf8(std::string_view text, std::string_view what) {
  // nlohmann's serialiser is the strict UTF-8 check at hand: it throws on the first broken byte.
  try {
    (void)json(std::string(text)).dump();
  } catch (const json::exception&) {
    fail(ErrorKind::kBadFile, what, ": is not valid UTF-8");
  }
}

void add_pieces(std::string_view text, std::vector<std::string>& documents) {
  while (!text.empty()) {
    size_t cut = text.size() <= kPieceBytes ? text.size() : text.find("\n\n", kPieceBytes);
    if (cut == std::string_view::npos) cut = text.size();
    documents.emplace_back(text.substr(0, cut));
    text.remove_prefix(std::min(text.size(), cut + 2));
  }
}

std::string text_of(const json& value, std::string_view what) {
  if (value.is_string()) return value.get<std::string>();
  require(value.is_object() && value.contains("text"), ErrorKind::kBadFile, what,
          ": expected a string or an object with a \"text\" string");
  return json_required<std::string>(value, "text", what);
}

void read_jsonl(const std::string& text, const std::string& name, std::vector<std::string>& documents) {
  size_t line_number = 0;
  for (size_t at = 0; at < text.size(); ++line_number) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string what = cat(name, ", line ", line_number + 1);
    documents.push_back(text_of(parse_json(line, what), what));
  }
}

void read_json_list(const std::string& text, const std::string& name, std::vector<std::string>& documents) {
  json all = parse_json(text, name);
  require(all.is_array(), ErrorKind::kBadFile, name, ": expected a list of texts");
  for (size_t i = 0; i < all.size(); ++i) documents.push_back(text_of(all[i], cat(name, ", entry ", i)));
}

bool is_dataset_file(const fs::path& path) {
  return path.extension() == ".txt" || path.extension() == ".json" || path.extension() == ".jsonl";
}

void read_file(const fs::path& path, std::vector<std::string>& documents) {
  std::string name = path.string();
  require(is_dataset_file(path), ErrorKind::kInvalidInput, name,
          ": a dataset is .txt, .json, .jsonl or a folder");
  std::string text = read_text_file(path, kMaxDatasetBytes);
  require_utf8(text, name);
  if (path.extension() == ".jsonl")
    read_jsonl(text, name, documents);
  else if (path.extension() == ".json")
    read_json_list(text, name, documents);
  else
    add_pieces(text, documents);
}

std::vector<fs::path> files_of(const std::string& dataset) {
  require(fs::exists(dataset), ErrorKind::kNotFound, "dataset ", dataset, " does not exist");
  if (!fs::is_directory(dataset)) return {dataset};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dataset))
    if (entry.is_regular_file() && is_dataset_file(entry.path())) files.push_back(entry.path());
  require(!files.empty(), ErrorKind::kNotFound, "dataset ", dataset, ": holds no .txt, .json or .jsonl file");
  std::sort(files.begin(), files.end());
  return files;
}

// Fisher-Yates with our own draw: std::shuffle differs between standard libraries, and runs must repeat
// anywhere.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

std::vector<int32_t> tokenize(const Tokenizer& tokenizer, const std::vector<std::string>& documents,
                              int64_t enough) {
  std::vector<int32_t> tokens;
  for (const std::string& document : documents) {
    std::vector<int32_t> ids = tokenizer.encode(document, true, false);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    if (static_cast<int64_t>(tokens.size()) >= enough) break;
  }
  return tokens;
}

}  // namespace

std::string_view builtin_calibration_text() {
  return {quaver_calibration_text,
          static_cast<size_t>(quaver_calibration_text_end - quaver_calibration_text)};
}

std::vector<std::string> read_documents(const std::string& dataset) {
  std::vector<std::string> documents;
  if (dataset.empty())
    add_pieces(builtin_calibration_text(), documents);
  else
    for (const fs::path& file : files_of(dataset)) read_file(file, documents);
  std::erase_if(documents,
                [](const std::string& d) { return d.find_first_not_of(" \t\r\n") == std::string::npos; });
  require(!documents.empty(), ErrorKind::kBadFile, "dataset ", dataset, ": holds no text");
  return documents;
}

CalibrationSet load_calibration(const Tokenizer& tokenizer, const CalibrationOptions& options) {
  require(options.nsamples >= 1, ErrorKind::kInvalidInput, "nsamples must be at least 1, got ",
          options.nsamples);
  require(options.seqlen >= 8, ErrorKind::kInvalidInput, "seqlen must be at least 8, got ", options.seqlen);
  std::vector<std::string> documents = read_documents(options.dataset);
  std::mt19937_64 random(options.seed);
  shuffle(documents, random);
  std::vector<int32_t> tokens =
      tokenize(tokenizer, documents, options.nsamples * options.seqlen * kRowsPerWanted);

  std::string source = options.dataset.empty() ? "the built-in text" : options.dataset;
  int64_t available = static_cast<int64_t>(tokens.size()) / options.seqlen;
  int64_t used = std::min(available, options.nsamples);
  int64_t floor = options.allow_small ? 1 : std::max<int64_t>(1, options.nsamples / 8);
  require(used >= floor, ErrorKind::kBadFile, "dataset ", source, ": ", tokens.size(), " tokens make ",
          available, " rows of ", options.seqlen, ", too few for the ", options.nsamples,
          " wanted; give more text, a smaller seqlen or nsamples, or allow a small dataset");

  std::vector<int64_t> rows(static_cast<size_t>(available));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  shuffle(rows, random);
  CalibrationSet set{
      .num_rows = used, .seqlen = options.seqlen, .wanted_rows = options.nsamples, .source = source};
  for (int64_t i = 0; i < used; ++i) {
    auto begin = tokens.begin() + rows[static_cast<size_t>(i)] * options.seqlen;
    set.tokens.insert(set.tokens.end(), begin, begin + options.seqlen);
  }
  return set;
}

}  // namespace quaver::quantize
