#include "apps/terminal_picture.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/base64.h"
#include "base/cat.h"
#include "base/env.h"
#include "media/encode.h"

namespace quaver::apps {
namespace {

constexpr int kRows = 12;

// Base64 in pieces of at most 4096 characters, of which m=1 says that more come; q=2 asks for no answer. The
// same i and p replace the picture before. https://sw.kovidgoyal.net/kitty/graphics-protocol
std::string kitty_sequence(const std::string& base64) {
  constexpr size_t kPiece = 4096;
  std::string out;
  for (size_t at = 0; at < base64.size(); at += kPiece) {
    const bool more = at + kPiece < base64.size();
    const std::string head =
        at == 0 ? cat("a=T,f=100,q=2,C=1,i=", ::getpid() & 0xffffff, ",p=1,r=", kRows, ",") : "";
    out += cat("\033_G", head, "m=", more ? 1 : 0, ";", base64.substr(at, kPiece), "\033\\");
  }
  return out;
}

// https://iterm2.com/documentation-images.html
std::string iterm2_sequence(const std::string& base64, size_t bytes) {
  return cat("\033]1337;File=inline=1;size=", bytes, ";height=", kRows, ";preserveAspectRatio=1:", base64,
             "\a");
}

}  // namespace

std::optional<PictureProtocol> terminal_pictures() {
  const std::string term = env_string("TERM").value_or(""), program = env_string("TERM_PROGRAM").value_or("");
  if (::isatty(STDERR_FILENO) != 1 || env_string("TMUX") || term.starts_with("screen") ||
      term.starts_with("tmux"))
    return std::nullopt;
  if (program == "iTerm.app" || program == "WezTerm" || env_string("LC_TERMINAL") == "iTerm2")
    return PictureProtocol::kIterm2;
  if (env_string("KITTY_WINDOW_ID") || term == "xterm-kitty" || term == "xterm-ghostty" ||
      program == "ghostty")
    return PictureProtocol::kKitty;
  return std::nullopt;
}

void TerminalPicture::show(const Image& image) {
  const std::vector<std::byte> png = encode_png(image);
  const std::string base64 = base64_encode(png);
  // Room for it is made once; then the cursor goes up there and back.
  std::string text = placed_ ? "" : "\r\033[K" + std::string(kRows, '\n');
  text += cat("\0337\r\033[", kRows, "A");
  text += protocol_ == PictureProtocol::kKitty ? kitty_sequence(base64) : iterm2_sequence(base64, png.size());
  text += "\0338";
  placed_ = true;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace quaver::apps
