// Protobuf's wire format.
#include "text/tokenizer/protobuf_reader.h"

#include <cstring>

#include "base/error.h"

namespace quaver::text {

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    require(!rest_.empty(), ErrorKind::kBadFile, what_, ": ends inside a number");
    const auto byte = std::to_integer<uint64_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    require(shift < 63 || byte <= 1, ErrorKind::kBadFile, what_, ": a number has more than 64 bits");
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail(ErrorKind::kBadFile, what_, ": a number has more than 64 bits");
}

std::span<const std::byte> ProtobufReader::take(uint64_t size) {
  require(size <= rest_.size(), ErrorKind::kBadFile, what_, ": a field claims ", size, " bytes where ",
          rest_.size(), " are left");
  const auto taken = rest_.first(static_cast<size_t>(size));
  rest_ = rest_.subspan(static_cast<size_t>(size));
  return taken;
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = read_varint();
  const uint64_t field = tag >> 3, wire = tag & 7;
  require(field > 0 && field < (uint64_t{1} << 29) && (wire <= 2 || wire == 5), ErrorKind::kBadFile, what_,
          ": not a protobuf message (tag ", tag, ")");
  field_ = static_cast<uint32_t>(field);
  wire_ = static_cast<Wire>(wire);
  if (wire_ == Wire::kVarint)
    number_ = read_varint();
  else
    bytes_ = take(wire_ == Wire::kFixed32 ? 4 : wire_ == Wire::kFixed64 ? 8 : read_varint());
  return true;
}

void ProtobufReader::expect(Wire wire) const {
  require(wire_ == wire, ErrorKind::kBadFile, what_, ": field ", field_, " has wire type ",
          static_cast<int>(wire_), ", expected ", static_cast<int>(wire));
}

uint64_t ProtobufReader::varint() const {
  expect(Wire::kVarint);
  return number_;
}

float ProtobufReader::float32() const {
  expect(Wire::kFixed32);
  float value = 0;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::span<const std::byte> ProtobufReader::bytes() const {
  expect(Wire::kBytes);
  return bytes_;
}

std::string ProtobufReader::text() const {
  const auto data = bytes();
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace quaver::text
