// Ctrl-C as a wish to stop at the next good place.
#pragma once

namespace quaver::apps {

// The exit status of what was stopped so, as shells have it: 128 + SIGINT.
constexpr int kInterrupted = 130;

// While one lives, the first Ctrl-C is remembered; the second ends the program at once. At most one at a
// time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const;
};

}  // namespace quaver::apps
