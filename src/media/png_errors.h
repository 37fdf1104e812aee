// How libpng's errors become ours: its functions end by longjmp, which here never passes an object with a
// destructor.
#pragma once

#include <png.h>

#include <csetjmp>
#include <cstdio>

namespace quaver::media {

// The error pointer of a png_struct.
struct PngErrors {
  char message[160] = "";

  static void raise(png_structp png, const char* message) {
    auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
    std::snprintf(errors->message, sizeof errors->message, "%s", message);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp, const char*) {}  // warnings
};

// False when libpng gave up inside `body`, which may create nothing that has a destructor.
template <class Body>
[[gnu::noinline]] bool png_succeeds(png_structp png, const Body& body) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  body();
  return true;
}

}  // namespace quaver::media
