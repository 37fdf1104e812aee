// Reads the fields of one protobuf message, every length checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quaver::text {

// Source: the encoding page of the Protocol Buffers documentation. Throws Error(kBadFile) beginning with
// `what` on cut data, varints past 64 bits and groups.
class ProtobufReader {
 public:
  ProtobufReader(std::span<const std::byte> message, std::string_view what) : rest_(message), what_(what) {}

  // Moves to the next field; false at the end. A value that was not read is passed over.
  bool next();
  uint32_t field() const { return field_; }

  // The value of the current field, which must have the type asked for.
  uint64_t varint() const;
  float float32() const;
  std::span<const std::byte> bytes() const;
  std::string text() const;

 private:
  enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint64_t read_varint();
  std::span<const std::byte> take(uint64_t size);
  void expect(Wire wire) const;

  std::span<const std::byte> rest_;
  std::string_view what_;
  uint32_t field_ = 0;
  Wire wire_ = Wire::kVarint;
  uint64_t number_ = 0;
  std::span<const std::byte> bytes_;
};

}  // namespace quaver::text
