// The safetensors header: what is taken, and each lie that is refused with the tensor's name.
#include "checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::safetensors_bytes;

SafetensorsHeader parse_header(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), "x.safetensors");
}
std::string header_error(std::string_view header, std::string_view data = {}) {
  auto caught = catch_error([&] { parse_header(safetensors_bytes(header, data)); });
  EXPECT_TRUE(caught.message.empty() || caught.kind == ErrorKind::kBadFile);
  EXPECT_EQ(caught.message.find('\n'), std::string::npos);
  return caught.message;
}

TEST(SafetensorsHeader, SortsByNameAndKeepsOffsets) {
  auto header = parse_header(safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("a":{"shape":[2,1],"data_offsets":[3,7],"dtype":"BF16"},"c":{"dtype":"F32","shape":[0,9],"data_offsets":[3,3]}}  )",
      "1234567"));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].info.name, "a");
  EXPECT_EQ(header.entries[0].info.dtype, DType::kBF16);
  EXPECT_EQ(header.entries[0].info.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(header.entries[0].offset, header.entries[1].offset + 3);
  EXPECT_EQ(header.entries[2].info.size_bytes, 0u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, ScalarsHaveNoExtents) {
  auto header =
      parse_header(safetensors_bytes(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", "01234567"));
  EXPECT_TRUE(header.entries[0].info.shape.empty());
}

struct Lie {
  const char* header;
  const char* data;
  const char* expected;
};

class LyingHeader : public ::testing::TestWithParam<Lie> {};

TEST_P(LyingHeader, IsRefused) {
  EXPECT_THAT(header_error(GetParam().header, GetParam().data), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeader, LyingHeader,
    ::testing::Values(
        Lie{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "0123",
            "'a': ends at byte 8 of the data"},
        Lie{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "01234567", "run backwards"},
        Lie{R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "01234567",
            "span 8 bytes, but F32 [3] takes 12"},
        Lie{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "01234567", "4 bytes at the end"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
            "012", "1 bytes before tensor 'b' belong to no tensor"},
        Lie{R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            "012", "'b' overlaps"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
            "01", "'a' stands twice"},
        Lie{R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "overflows"},
        Lie{R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", "",
            "overflows"},
        Lie{R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", "", "overflows"},
        Lie{R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "0", "no whole byte"},
        Lie{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", "",
            "'shape' holds a negative number"},
        Lie{R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "0123",
            "'shape' holds a fraction"},
        Lie{R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "0123",
            "too large"},
        Lie{R"({"a":{"dtype":"F32","shape":[1e2],"data_offsets":[0,4]}})", "0123",
            "'shape' holds a fraction"},
        Lie{R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "0123", "dtype 'F31' is unknown"},
        Lie{R"({"a":{"dtype":"","shape":[1],"data_offsets":[0,4]}})", "0123", "dtype '' is unknown"},
        Lie{R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "0123", "'a': 'dtype' holds a number"},
        Lie{R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "0", "'shape' holds an array"},
        Lie{R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "0", "'shape' holds a number"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", "0", "more than two"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "0", "must hold two"},
        Lie{R"({"a":{"dtype":"U8","shape":[1]}})", "0", "must hold two"},
        Lie{R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "0", "'dtype' is missing"},
        Lie{R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "0", "'shape' is missing"},
        Lie{R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "0",
            "'dtype' stands twice"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1}})", "0",
            "'extra' does not belong"},
        Lie{R"({"a":null})", "", "'a' is null, expected an object"},
        Lie{R"({"a":{}})", "", "'dtype' is missing"},
        Lie{R"({"__metadata__":{"k":1}})", "", "'__metadata__' key 'k' is a number"},
        Lie{R"({"__metadata__":{"k":"1","k":"2"}})", "", "'k' stands twice"},
        Lie{R"({"__metadata__":{},"__metadata__":{}})", "", "'__metadata__' stands twice"},
        Lie{R"({"__metadata__":{}})", "", "holds no tensors"},
        Lie{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} x)", "0", "not valid JSON"},
        Lie{R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "0", "does not begin with '{'"}));

TEST(SafetensorsHeader, RefusesBytesBehindAZero) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_EQ(header_error(header, "0"), "");
  EXPECT_THAT(header_error(header + std::string(1, '\0') + "}}", "0"), HasSubstr("zero byte"));
}

TEST(SafetensorsHeader, RefusesBrokenUtf8) {
  EXPECT_THAT(header_error("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "0"),
              HasSubstr("not valid JSON at byte 3"));
}

TEST(SafetensorsHeader, MessagesStayOnOneShortLine) {
  std::string name = "evil\\n\\u0007" + std::string(5000, 'x');
  std::string message =
      header_error("{\"" + name + "\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,0]}}");
  EXPECT_THAT(message, HasSubstr("'evil\\x0a\\x07xxx"));
  EXPECT_LT(message.size(), 300u);
}

TEST(SafetensorsHeader, RefusesTooManyDimensions) {
  std::string shape = "1";
  for (size_t i = 1; i < kMaxTensorRank; ++i) shape += ",1";
  auto header = [](const std::string& s) {
    return R"({"a":{"dtype":"U8","shape":[)" + s + R"(],"data_offsets":[0,1]}})";
  };
  EXPECT_EQ(header_error(header(shape), "0"), "");
  EXPECT_THAT(header_error(header(shape + ",1"), "0"), HasSubstr("too many dimensions"));
}

}  // namespace
}  // namespace quaver
