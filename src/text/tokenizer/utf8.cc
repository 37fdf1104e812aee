// UTF-8 decoding, encoding and repair.
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

// Bounds of the second byte, which alone rule out overlong forms, surrogates and what lies past U+10FFFF.
struct Lead {
  size_t length;
  unsigned char second_min, second_max;
};

Lead classify_lead(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

char32_t utf8_next(std::string_view text, size_t& position) {
  const auto byte = [&](size_t offset) { return static_cast<unsigned char>(text[position + offset]); };
  const size_t length = utf8_length(text[position]);
  char32_t character = byte(0);
  if (length > 1) {
    character &= 0x7Fu >> length;
    for (size_t i = 1; i < length; ++i) character = (character << 6) | (byte(i) & 0x3Fu);
  }
  position += length;
  return character;
}

void utf8_append(std::string& out, char32_t character) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | (character >> 6));
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | (character >> 12));
    put(0x80 | ((character >> 6) & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | (character >> 18));
    put(0x80 | ((character >> 12) & 0x3F));
    put(0x80 | ((character >> 6) & 0x3F));
    put(0x80 | (character & 0x3F));
  }
}

Utf8Scan utf8_scan(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const size_t available = text.size() - position;
  const Lead lead = classify_lead(byte(0));
  if (lead.length == 0) return {Utf8Status::kBroken, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == available) return {Utf8Status::kIncomplete, available};
    const unsigned char low = i == 1 ? lead.second_min : 0x80, high = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Status::kBroken, i};
  }
  return {Utf8Status::kWhole, lead.length};
}

bool utf8_valid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Scan scan = utf8_scan(text, i);
    if (scan.status != Utf8Status::kWhole) return false;
    i += scan.length;
  }
  return true;
}

std::string utf8_repair(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Scan scan = utf8_scan(bytes, i);
    out.append(scan.status == Utf8Status::kWhole ? bytes.substr(i, scan.length) : kReplacementUtf8);
    i += scan.length;
  }
  return out;
}

}  // namespace quaver::text
