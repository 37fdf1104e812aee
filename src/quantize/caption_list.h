// Captions that a picture model is calibrated on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quaver::quantize {

// Of a file: .txt with one caption a line, .tsv whose first line names a column "caption", or what
// read_documents() reads of .json and .jsonl. Empty: the built-in ones. Blank ones are left out. `count` of
// them, drawn by the seed; fewer where there are fewer. Error(kNotFound, kBadFile) name file and line.
std::vector<std::string> load_captions(const std::string& dataset, int64_t count, uint64_t seed);

}  // namespace quaver::quantize
