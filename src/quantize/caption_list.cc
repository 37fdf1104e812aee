#include "quantize/caption_list.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <string_view>

#include "base/embedded_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "quantize/calibration.h"

QUAVER_EMBED_FILE(quaver_captions, QUAVER_CAPTIONS);

namespace quaver::quantize {

namespace {

constexpr size_t kMaxCaptionFileBytes = size_t{256} << 20;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find('\t', at), line.size());
    columns.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return columns;
}

// The column that the first line calls "caption".
std::vector<std::string> captions_of_table(std::string_view text, const std::string& file) {
  const std::vector<std::string_view> lines = lines_of(text);
  const std::vector<std::string_view> head = lines.empty() ? lines : columns_of(lines.front());
  const auto column = static_cast<size_t>(std::ranges::find(head, "caption") - head.begin());
  require(column < head.size(), ErrorKind::kBadFile, file, ": its first line names no column 'caption'");
  std::vector<std::string> captions;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string_view> columns = columns_of(lines[i]);
    require(column < columns.size(), ErrorKind::kBadFile, file, ", line ", i + 1, ": has ", columns.size(),
            " columns, expected at least ", column + 1);
    captions.emplace_back(columns[column]);
  }
  return captions;
}

std::vector<std::string> read_captions(const std::string& dataset) {
  const std::filesystem::path path = dataset;
  if (dataset.empty()) {
    const std::vector<std::string_view> lines =
        lines_of({quaver_captions, static_cast<size_t>(quaver_captions_end - quaver_captions)});
    return {lines.begin(), lines.end()};
  }
  if (path.extension() != ".txt" && path.extension() != ".tsv") return read_documents(dataset);
  require(std::filesystem::exists(path), ErrorKind::kNotFound, "dataset ", dataset, " does not exist");
  const std::string text = read_text_file(path, kMaxCaptionFileBytes);
  if (path.extension() == ".tsv") return captions_of_table(text, dataset);
  const std::vector<std::string_view> lines = lines_of(text);
  return {lines.begin(), lines.end()};
}

}  // namespace

std::vector<std::string> load_captions(const std::string& dataset, int64_t count, uint64_t seed) {
  std::vector<std::string> captions = read_captions(dataset);
  std::erase_if(captions, [](const std::string& caption) {
    return caption.find_first_not_of(" \t\r\n") == std::string::npos;
  });
  require(!captions.empty(), ErrorKind::kBadFile, "dataset ", dataset, ": holds no captions");
  require(count >= 1, ErrorKind::kInvalidInput, "--nsamples must be at least 1, got ", count);
  // The first `count` of a shuffle of our own, which is the same with every standard library.
  std::mt19937_64 random(seed);
  const size_t kept = std::min(captions.size(), static_cast<size_t>(count));
  for (size_t i = 0; i < kept; ++i) std::swap(captions[i], captions[i + random() % (captions.size() - i)]);
  captions.resize(kept);
  return captions;
}

}  // namespace quaver::quantize
