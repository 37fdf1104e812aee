// Text to tune on: reads a dataset, tokenizes it and cuts it into rows of equal length.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quaver::quantize {

struct CalibrationOptions {
  std::string dataset;  // .txt, .json, .jsonl or a folder of them; empty = the built-in text
  int64_t nsamples = 128;
  int64_t seqlen = 2048;
  uint64_t seed = 42;
  bool allow_small = false;  // take less than an eighth of the rows asked for
};

struct CalibrationSet {
  std::vector<int32_t> tokens;  // [num_rows, seqlen]
  int64_t num_rows = 0, seqlen = 0;
  int64_t wanted_rows = 0;
  std::string source;
  std::span<const int32_t> row(int64_t index) const {
    return std::span(tokens).subspan(static_cast<size_t>(index * seqlen), static_cast<size_t>(seqlen));
  }
};

// The documents of a dataset, in file order. A .txt is cut into pieces at blank lines; .json is a list,
// .jsonl one value per line, each a string or an object with a "text" string. Error(kNotFound, kBadFile) name
// file and line: empty, not UTF-8, malformed, no text.
std::vector<std::string> read_documents(const std::string& dataset);

// Rule: documents are shuffled by the seed, tokenized with the tokenizer's special tokens, joined and cut
// into rows of `seqlen`; short documents are joined, never dropped; reading stops at four times the rows
// wanted; rows are drawn from these by the seed. Error(kBadFile) when fewer than an eighth of the wanted rows
// exist (unless allow_small) or none.
CalibrationSet load_calibration(const Tokenizer& tokenizer, const CalibrationOptions& options);

std::string_view builtin_calibration_text();

}  // namespace quaver::quantize
