// How libjpeg's errors become ours: it ends by longjmp, which here never passes an object with a destructor.
#pragma once

#include <csetjmp>
// Each needs those before it; how jerror.h numbers its messages depends on what jpeglib.h defines.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace quaver::media {

// The error manager of a compressor or decompressor.
struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that libjpeg's pointer to it is one to all of this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";

  JpegErrors() {
    jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr jpeg) { raise(jpeg); };
    manager.emit_message = [](j_common_ptr jpeg, int level) {
      if (level == -1 && !harmless(manager_of(jpeg).msg_code)) raise(jpeg);
    };
    manager.output_message = [](j_common_ptr) {};
  }
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  [[noreturn]] static void raise(j_common_ptr jpeg, const char* message) {
    auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
    std::snprintf(errors->message, sizeof errors->message, "%s", message);
    std::longjmp(errors->jump, 1);
  }

 private:
  static jpeg_error_mgr& manager_of(j_common_ptr jpeg) { return *jpeg->err; }

  [[noreturn]] static void raise(j_common_ptr jpeg) {
    char message[JMSG_LENGTH_MAX];
    manager_of(jpeg).format_message(jpeg, message);
    raise(jpeg, message);
  }

  // Of libjpeg's warnings, those that whole pictures from cameras and odd encoders bring. After the others
  // data is missing or broken, and it paints on in grey.
  static bool harmless(int warning) {
    return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_TOO_MUCH_DATA ||
           warning == JWRN_NOT_SEQUENTIAL || warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR;
  }
};

// False when libjpeg gave up inside `body`, which may create nothing that has a destructor.
template <class Body>
[[gnu::noinline]] bool jpeg_succeeds(JpegErrors& errors, const Body& body) {
  if (setjmp(errors.jump) != 0) return false;
  body();
  return true;
}

}  // namespace quaver::media
