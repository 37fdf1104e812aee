// Where the script of a text changes.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/regex.h"

namespace quaver::text {

// Immutable and thread safe. Kana and the prolonged sound mark count as Han; spaces and characters of scripts
// that the `tokenizers` library does not list belong to whatever precedes them.
class UnicodeScripts {
 public:
  UnicodeScripts();
  // Beginnings of the runs of one script. Characters before the first, if they have no script, are in no run.
  std::vector<size_t> run_starts(std::string_view text) const;

 private:
  bool same_script(std::string_view a, std::string_view b) const;
  Regex run_;  // matches a run of one script
};

}  // namespace quaver::text
