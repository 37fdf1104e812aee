#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/cat.h"

namespace quaver {
namespace {

using Clock = std::chrono::steady_clock;

std::string clock_text(double seconds) {
  auto whole = static_cast<int64_t>(seconds);
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%02ld:%02ld", whole / 60, whole % 60);
  return text;
}

class TerminalProgress : public ProgressSink {
 public:
  TerminalProgress(std::string label, ProgressUnit unit) : label_(std::move(label)), unit_(unit) {}

  void update(int64_t done, int64_t total, std::string_view note) override {
    auto now = Clock::now();
    if (done < total && now - last_ < (tty_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10)))
      return;
    last_ = now;
    double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0;
    double spent = std::chrono::duration<double>(now - start_).count();
    std::string left = share > 0 ? clock_text(spent / share - spent) : "--:--";
    std::string bar(20, '.');
    std::fill_n(bar.begin(), std::min<size_t>(20, static_cast<size_t>(share * 20)), '#');
    write(cat(label_, " [", bar, "] ", amount(done, total), "  ", clock_text(spent), " spent, ", left,
              " left  ", note));
  }

  void finish(std::string_view note) override {
    double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    write(cat(label_, ": ", note, " (", clock_text(spent), ")"));
    if (tty_) std::fputc('\n', stderr);
  }

 private:
  std::string amount(int64_t done, int64_t total) const {
    if (unit_ == ProgressUnit::kCount) return cat(done, "/", total);
    char text[64];
    std::snprintf(text, sizeof text, "%.1f/%.1f MB", static_cast<double>(done) / 1e6,
                  static_cast<double>(total) / 1e6);
    return text;
  }
  void write(const std::string& line) const {
    std::fprintf(stderr, tty_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
  }
  std::string label_;
  ProgressUnit unit_;
  bool tty_ = ::isatty(STDERR_FILENO) == 1;
  Clock::time_point start_ = Clock::now(), last_{};
};

class NullProgress : public ProgressSink {
 public:
  void update(int64_t, int64_t, std::string_view) override {}
  void finish(std::string_view) override {}
};

}  // namespace

std::unique_ptr<ProgressSink> make_terminal_progress(std::string label, ProgressUnit unit) {
  return std::make_unique<TerminalProgress>(std::move(label), unit);
}

ProgressSink& null_progress() {
  static NullProgress sink;
  return sink;
}

}  // namespace quaver
