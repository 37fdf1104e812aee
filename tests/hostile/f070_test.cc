// F070: pictures that expand. Width and height are refused from the header, nothing is inflated that is not
// looked at, and memory follows the data, not what a header claims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "hostile/allocation_guard.h"
#include "media/chunks.h"
#include "media/decode.h"
#include "media/golden.h"
#include "media/jpeg_errors.h"
#include "media/png_text.h"

namespace quaver {
namespace {

using testing::bytes_in;
using ::testing::HasSubstr;
using testing::picture_file;
using testing::png_chunk;
using testing::png_header;
using testing::refusal;

constexpr size_t kAllowedRise = size_t{50} << 20;

// What the kernel says of this process: "VmRSS" now, "VmHWM" at its highest.
size_t process_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1)) << 10;
  ADD_FAILURE() << "no " << field;
  return 0;
}

// By how much memory rose at most while `action` ran, everything counted: the libraries' own allocations too.
// 0 under a sanitizer, whose own memory would count.
template <class Action>
size_t memory_rise(Action&& action) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the highest is the present from here on
  const size_t before = process_bytes("VmRSS:");
  action();
  const size_t peak = process_bytes("VmHWM:");
  return peak > before && testing::allocations_are_counted() ? peak - before : 0;
}

std::string patched(std::string file, size_t at, std::string_view bytes) {
  return file.replace(at, bytes.size(), bytes);
}

// Both sides of a JPEG's frame header; `marker` opens it.
std::string jpeg_of_size(std::string_view name, std::string_view marker, std::string_view height_and_width) {
  const std::string file = picture_file(name);
  return patched(file, file.find(marker) + 5, height_and_width);
}

std::string with_100_bytes(const std::string& header) {
  return header + png_chunk("IDAT", std::string(100, 'x')) + png_chunk("IEND", "");
}

struct Expanding {
  const char* name;
  std::string bytes;
  const char* expected;
};

std::vector<Expanding> too_large() {
  const std::string gif = picture_file("plain.gif");
  const size_t frame = gif.find(std::string("\x2C\0\0\0\0\x18\0\x10\0", 9)) + 5;
  return {
      {"PNG 20000", with_100_bytes(png_header(20000, 20000)),
       "is 20000 x 20000 pixels, more than the 67108864 allowed"},
      {"PNG 65535", with_100_bytes(png_header(65535, 65535)), "is 65535 x 65535 pixels"},
      {"PNG 2^31-1", with_100_bytes(png_header(0x7FFFFFFF, 0x7FFFFFFF)), "is 2147483647 x 2147483647 pixels"},
      {"PNG 2^32-1", with_100_bytes(png_header(0xFFFFFFFF, 0xFFFFFFFF)), "the PNG is damaged: "},
      {"JPEG baseline", jpeg_of_size("444.jpg", "\xFF\xC0", "\xFF\xDC\xFF\xDC"), "is 65500 x 65500 pixels"},
      {"JPEG progressive", jpeg_of_size("progressive.jpg", "\xFF\xC2", "\xFF\xDC\xFF\xDC"),
       "is 65500 x 65500 pixels"},
      {"GIF screen", patched(gif, 6, "\xFF\xFF\xFF\xFF"), "is 65535 x 65535 pixels"},
      {"GIF frame", patched(gif, frame, "\xFF\xFF\xFF\xFF"), "its first frame is 65535 x 65535"},
      {"WebP lossy", patched(picture_file("lossy.webp"), 26, "\xFF\x3F\xFF\x3F"), "is 16383 x 16383 pixels"},
      {"WebP lossless", patched(picture_file("lossless.webp"), 21, "\xFF\xFF\xFF\x0F"),
       "is 16384 x 16384 pixels"},
      {"WebP canvas", patched(picture_file("animated.webp"), 24, std::string("\xFF\x3F\0\xFF\x3F\0", 6)),
       "is 16384 x 16384 pixels"},
  };
}

TEST(F070, SizesAreRefusedFromTheHeader) {
  for (const Expanding& picture : too_large()) {
    testing::reset_peak_allocated_bytes();
    EXPECT_THAT(refusal(picture.bytes), HasSubstr(picture.expected)) << picture.name;
    EXPECT_LE(testing::peak_allocated_bytes(), size_t{1} << 20) << picture.name;
  }
}

// Allowed sizes with hardly any data behind them.
std::vector<Expanding> lying() {
  return {{"PNG", with_100_bytes(png_header(8000, 8000)), "the PNG is damaged: "},
          {"PNG of one zero row",
           png_header(8000, 8000) + png_chunk("IDAT", std::string("\x78\x01\x01\x04\0\xFB\xFF\0\0\0\0", 11)),
           "the PNG is damaged: "},
          {"JPEG", jpeg_of_size("444.jpg", "\xFF\xC0", "\x1F\x40\x1F\x40"), "the JPEG is damaged: "},
          {"progressive JPEG", jpeg_of_size("progressive.jpg", "\xFF\xC2", "\x1F\x40\x1F\x40"),
           "the JPEG is damaged: "}};
}

TEST(F070, MemoryFollowsTheDataNotTheHeader) {
  for (const Expanding& picture : lying()) {
    const size_t rise = memory_rise(
        [&] { EXPECT_THAT(refusal(picture.bytes), HasSubstr(picture.expected)) << picture.name; });
    EXPECT_LT(rise, kAllowedRise) << picture.name;
  }
}

TEST(F070, SixtyFourAtOnceDoNoHarm) {
  std::vector<Expanding> pictures = too_large();
  for (Expanding& picture : lying()) pictures.push_back(std::move(picture));
  const size_t rise = memory_rise([&] {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 64; ++i)
      threads.emplace_back([&, i] { EXPECT_NE(refusal(pictures[i % pictures.size()].bytes), ""); });
  });
  EXPECT_LT(rise, kAllowedRise);
}

// A zlib stream of 1 GiB of 'a' in about a megabyte, made of one piece again and again: after a full flush
// nothing refers to what came before.
std::string deflated_gibibyte() {
  constexpr int kPieces = 1024;
  const std::string mebibyte(size_t{1} << 20, 'a');
  std::string piece(8192, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit(&stream, Z_BEST_COMPRESSION), Z_OK);
  const auto deflate_all = [&](int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(mebibyte.data()));
    stream.avail_in = static_cast<uInt>(mebibyte.size());
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    deflate(&stream, flush);
    return piece.substr(0, piece.size() - stream.avail_out);
  };
  std::string out = deflate_all(Z_FULL_FLUSH);  // with the header
  const std::string again = deflate_all(Z_FULL_FLUSH);
  for (int i = 2; i < kPieces; ++i) out += again;
  out += deflate_all(Z_FINISH);
  deflateEnd(&stream);
  uLong checksum = adler32(0, nullptr, 0);
  const uLong of_piece =
      adler32(checksum, reinterpret_cast<const Bytef*>(mebibyte.data()), static_cast<uInt>(mebibyte.size()));
  for (int i = 0; i < kPieces; ++i)
    checksum = adler32_combine(checksum, of_piece, static_cast<z_off_t>(mebibyte.size()));
  return out.replace(out.size() - 4, 4, testing::big_endian(static_cast<uint32_t>(checksum)));
}

TEST(F070, TextAndProfilesAreNotInflated) {
  const std::string picture = picture_file("rgb.png"), bomb = deflated_gibibyte();
  const Image image = decode_image(bytes_in(picture), "x");
  const std::pair<const char*, std::string> places[] = {{"zTXt", std::string("Comment\0\0", 9)},
                                                        {"iTXt", std::string("Comment\0\1\0\0\0", 12)},
                                                        {"iCCP", std::string("profile\0\0", 9)}};
  for (const auto& [kind, prefix] : places) {
    std::string file = picture;
    file.insert(33, png_chunk(kind, prefix + bomb));  // behind the header
    const size_t rise = memory_rise([&] {
      EXPECT_TRUE(decode_image(bytes_in(file), "x") == image) << kind;
      if (kind[1] != 'T') return;
      EXPECT_THAT(testing::catch_error([&] { read_png_text(bytes_in(file), "x"); }).message,
                  HasSubstr("the PNG is damaged: "))
          << kind;
    });
    EXPECT_LT(rise, kAllowedRise) << kind;
  }
}

// One block of 8 x 8 in a scan for each coefficient, and one more for its last bit: 127 of them.
std::string jpeg_of_many_scans() {
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 0}};
  for (const auto& [high, low] : {std::pair(0, 1), {1, 0}})
    for (int k = 1; k < 64; ++k) scans.push_back({1, {0}, k, k, high, low});
  media::JpegErrors errors;
  jpeg_compress_struct jpeg{};
  jpeg.err = &errors.manager;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  std::vector<uint8_t> samples = {0, 50, 100, 150, 200, 250, 30, 90};
  EXPECT_TRUE(media::jpeg_succeeds(errors, [&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = jpeg.image_height = 8;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
    jpeg_start_compress(&jpeg, TRUE);
    JSAMPROW row = samples.data();
    while (jpeg.next_scanline < 8) jpeg_write_scanlines(&jpeg, &row, 1);
    jpeg_finish_compress(&jpeg);
  })) << errors.message;
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return file;
}

// A few bytes can ask for one more walk over the whole picture, so the walks are counted.
TEST(F070, ScansOfAJpegAreCounted) {
  EXPECT_EQ(refusal(jpeg_of_many_scans()), "body.image: the JPEG is damaged: it has more than 100 scans");
  const std::string file = picture_file("progressive.jpg");
  const size_t last = file.rfind("\xFF\xDA");
  const std::string scan = file.substr(last, file.size() - 2 - last);
  EXPECT_THAT(refusal(std::string(file).insert(last, scan)), HasSubstr("Inconsistent progression sequence"));
}

}  // namespace
}  // namespace quaver
