// Files of the source tree laid into the binary, so that they are there wherever the binary is.
#pragma once

// At namespace scope: the bytes of the file `path`, a string literal, lie from `name` to `name`_end, and a
// zero byte behind them. `name` is a C symbol of the whole program. The build must know that the source
// depends on the file.
#define QUAVER_EMBED_FILE(name, path) \
  asm(".section .rodata\n"            \
      ".global " #name                \
      "\n"                            \
      ".global " #name "_end\n" #name \
      ":\n"                           \
      ".incbin \"" path "\"\n" #name  \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".previous\n");                 \
  extern "C" const char name[];       \
  extern "C" const char name##_end[]
