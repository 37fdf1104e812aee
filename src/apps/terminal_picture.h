// Pictures in the terminal itself, for terminals that can show them.
#pragma once

#include <optional>

#include "media/image.h"

namespace quaver::apps {

// kitty's graphics protocol (kitty, Ghostty) and iTerm2's inline images (iTerm2, WezTerm).
enum class PictureProtocol { kKitty, kIterm2 };

// What the terminal behind standard error understands, by TERM, TERM_PROGRAM, LC_TERMINAL and
// KITTY_WINDOW_ID; none where it is no terminal, nor inside tmux and screen, which swallow pictures.
std::optional<PictureProtocol> terminal_pictures();

// One place above the line where the cursor stands, in which every picture replaces the last.
class TerminalPicture {
 public:
  explicit TerminalPicture(PictureProtocol protocol) : protocol_(protocol) {}
  void show(const Image& image);

 private:
  PictureProtocol protocol_;
  bool placed_ = false;
};

}  // namespace quaver::apps
