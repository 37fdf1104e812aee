// A progress bar for long jobs: one line that redraws on a terminal, sparse plain lines elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace quaver {

// Where progress goes. Libraries take a reference and never print themselves. Called from one thread.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  // `done` of `total` units; `note` is a short remark for the right margin ("loss 1.2e-4 -> 6.0e-5").
  virtual void update(int64_t done, int64_t total, std::string_view note) = 0;
  virtual void finish(std::string_view note) = 0;
};

enum class ProgressUnit { kCount, kBytes };  // bytes are shown as megabytes

// A bar on standard error with the share done, the time left and the note.
std::unique_ptr<ProgressSink> make_terminal_progress(std::string label,
                                                     ProgressUnit unit = ProgressUnit::kCount);

// Swallows everything; for tests and for --quiet.
ProgressSink& null_progress();

}  // namespace quaver
