// Base64: the vectors of RFC 4648, every length, and what is not base64.
#include "base/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quaver {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) { return std::as_bytes(std::span(text)); }

std::optional<std::string> decoded_text(std::string_view text) {
  const auto bytes = base64_decode(text);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

TEST(Base64, HasTheVectorsOfTheStandard) {
  const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(base64_encode(bytes_in(plain)), encoded);
    EXPECT_EQ(decoded_text(encoded), plain);
  }
}

TEST(Base64, EveryByteInEveryPlaceComesBack) {
  for (size_t length = 1; length <= 6; ++length)
    for (int value = 0; value < 256; ++value) {
      std::string plain(length, static_cast<char>(value));
      plain[0] = static_cast<char>(255 - value);
      EXPECT_EQ(decoded_text(base64_encode(bytes_in(plain))), plain);
    }
}

TEST(Base64, WhatIsNotBase64IsNothing) {
  for (const std::string_view text :
       {"Z", "Zg", "Zg=", "Zm9vYg", "Zg===", "=", "====", "=Zg=", "Z===", "Zg==Zg==", "Zm8=Zm9v", "Zm9v\n",
        "Zm 9v", "Zm-_", "Zm9!", "Zh==", "Zm9=", "\xC3\xA9Zg"})
    EXPECT_EQ(decoded_text(text), std::nullopt) << text;
  for (const size_t length : {1, 2, 3, 5, 6, 7})  // nothing behind the end is read
    EXPECT_EQ(decoded_text(std::string_view("Zm9vYmFy").substr(0, length)), std::nullopt) << length;
}

}  // namespace
}  // namespace quaver
