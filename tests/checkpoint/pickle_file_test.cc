// Files that PyTorch wrote, against the same tensors as safetensors; then pickles by hand that are sound, and
// those whose tensors lie.
#include "checkpoint/pickle_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using testing::Caught;
using ::testing::HasSubstr;
using testing::torch_file;
namespace pickle = testing::pickle;

std::string pickled_golden(std::string_view name) {
  return cat(QUAVER_TEST_DATA, "/golden/checkpoint/pickled/", name);
}

class TorchFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchFiles, HoldTheTensorsOfTheirSafetensors) {
  const PickleFile file = PickleFile::open(pickled_golden(cat(GetParam(), ".bin")));
  const SafetensorsFile expected = SafetensorsFile::open(pickled_golden(cat(GetParam(), ".safetensors")));
  ASSERT_EQ(file.entries().size(), expected.entries().size());
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const TensorInfo &info = file.entries()[i].info, &wanted = expected.entries()[i].info;
    EXPECT_EQ(info.name, wanted.name);
    EXPECT_EQ(info.dtype, wanted.dtype) << info.name;
    EXPECT_EQ(info.shape, wanted.shape) << info.name;
    EXPECT_EQ(info.size_bytes, wanted.size_bytes) << info.name;
    file.release(file.entries()[i]);
    const TensorView view = file.read(file.entries()[i]), same = expected.read(wanted.name);
    EXPECT_TRUE(std::ranges::equal(view.data.bytes(), same.data.bytes())) << info.name;
  }
  EXPECT_TRUE(file.metadata().empty());
}

INSTANTIATE_TEST_SUITE_P(Golden, TorchFiles,
                         ::testing::Values("every_dtype", "views", "state_dict", "parameters", "protocol_3",
                                           "protocol_4", "protocol_5"),
                         [](const auto& file) { return std::string(file.param); });

TEST(PickleFile, RowMajorTensorsAreViewsOfTheMapping) {
  const PickleFile file = PickleFile::open(pickled_golden("views.bin"));
  const auto data = [&](std::string_view name) {
    for (const PickledTensor& entry : file.entries())
      if (entry.info.name == name) return file.read(entry).data.bytes().data();
    return static_cast<const std::byte*>(nullptr);
  };
  EXPECT_EQ(data("tied.a"), data("tied.b"));
  EXPECT_EQ(data("row"), data("whole") + 48);
  EXPECT_EQ(data("one"), data("whole") + 92);
  EXPECT_NE(data("transposed"), data("whole"));
}

PickledTensors read_tensors(const std::string& file) {
  return read_pickled_tensors(std::as_bytes(std::span(file)), "x.bin");
}

// What is said of a file with this dictionary, whose storages hold eight and sixteen bytes.
Caught refusal_of(const std::vector<std::string>& keys_and_values) {
  return catch_error([&] {
    read_tensors(torch_file(pickle::dictionary(keys_and_values), {"01234567", std::string(16, 'x')}));
  });
}
std::string tensor_refusal(const pickle::Tensor& tensor) {
  return refusal_of({pickle::text("a"), pickle::tensor(tensor)}).message;
}

TEST(PickleTensors, StridesAndOffsetsStayInTheStorage) {
  EXPECT_EQ(tensor_refusal({}), "");
  EXPECT_EQ(tensor_refusal({.offset = 1, .size = {1}}), "");
  EXPECT_EQ(tensor_refusal({.offset = 2, .size = {0}}), "");
  EXPECT_EQ(tensor_refusal({.size = {}, .stride = {}}), "");
  EXPECT_EQ(tensor_refusal({.size = {1, 2}, .stride = {99, 1}}), "");
  const std::string begin = "x.bin: tensor 'a': ";
  EXPECT_EQ(tensor_refusal({.offset = 1}),
            begin + "size [2], stride [1] and offset 1 leave its storage of 8 bytes");
  EXPECT_EQ(tensor_refusal({.offset = 3, .size = {0}}),
            begin + "size [0], stride [1] and offset 3 leave its storage of 8 bytes");
  EXPECT_EQ(tensor_refusal({.stride = {2}}),
            begin + "size [2], stride [2] and offset 0 leave its storage of 8 bytes");
  EXPECT_EQ(tensor_refusal({.size = {3}, .stride = {0}}),
            begin + "repeats elements: 12 bytes of a storage of 8");
  EXPECT_EQ(tensor_refusal({.size = {1 << 20, 1 << 20, 1 << 20, 1 << 20}, .stride = {0, 0, 0, 0}}),
            begin + "the size of [1048576, 1048576, 1048576, 1048576] overflows");
  EXPECT_EQ(tensor_refusal({.stride = {INT64_MAX}}),
            begin + "size [2], stride [9223372036854775807] and offset 0 leave its storage of 8 bytes");
  EXPECT_EQ(tensor_refusal({.offset = INT64_MAX}),
            begin + "size [2], stride [1] and offset 9223372036854775807 leave its storage of 8 bytes");
  EXPECT_EQ(tensor_refusal({.offset = -1}), begin + "its offset is no whole number");
  EXPECT_EQ(tensor_refusal({.size = {-2}}), begin + "its size is no whole number");
  EXPECT_EQ(tensor_refusal({.stride = {-1}}), begin + "its stride is no whole number");
  EXPECT_EQ(tensor_refusal({.size = {2, 1}}), begin + "has size [2, 1] and stride [1]");
  EXPECT_THAT(tensor_refusal({.size = std::vector<int64_t>(33, 1)}),
              HasSubstr("has 33 dimensions, more than the 32"));
}

TEST(PickleTensors, StoragesAreHeldAgainstTheFile) {
  const std::string begin = "x.bin: tensor 'a': ";
  EXPECT_EQ(tensor_refusal({.elements = 3}), begin + "its storage '0' of 3 f32 takes 8 bytes in the file");
  EXPECT_EQ(tensor_refusal({.elements = int64_t{1} << 62}),
            begin + "its storage '0' of 4611686018427387904 f32 takes 8 bytes in the file");
  EXPECT_EQ(tensor_refusal({.storage_class = "HalfStorage"}),
            begin + "its storage '0' of 2 f16 takes 8 bytes in the file");
  EXPECT_EQ(tensor_refusal({.storage = "9"}), begin + "its storage '9' is not in the file");
  EXPECT_EQ(tensor_refusal({.storage = "../data.pkl"}),
            begin + "its storage '../data.pkl' is not in the file");
  EXPECT_THAT(tensor_refusal({.storage_class = "UntypedStorage", .elements = 8}),
              HasSubstr("has a storage of bytes and no dtype"));
}

TEST(PickleTensors, OnlyNamesAndTensors) {
  const auto holds = [](const std::string& value) { return refusal_of({pickle::text("a"), value}).message; };
  EXPECT_EQ(holds("N"), "x.bin: tensor 'a': is None, not a tensor");
  EXPECT_EQ(holds("}"), "x.bin: tensor 'a': is a dictionary, not a tensor");
  EXPECT_EQ(holds(pickle::text("b")), "x.bin: tensor 'a': is a string, not a tensor");
  EXPECT_EQ(holds(pickle::call(pickle::name("torch", "device"), {pickle::text("cpu")})),
            "x.bin: tensor 'a': is made by 'torch.device', which makes no tensor");
  EXPECT_EQ(holds(pickle::call(pickle::name("torch._utils", "_rebuild_tensor_v2"), {"N"})),
            "x.bin: tensor 'a': is made from 1 values");
  EXPECT_EQ(refusal_of({"N", pickle::tensor({})}).message,
            "x.bin: has None as the name of a tensor, expected a string");
  EXPECT_EQ(refusal_of({}).message, "x.bin: holds no tensors");
  const Caught list = catch_error([] { read_tensors(torch_file("\x80\x02].")); });
  EXPECT_EQ(list.message, "x.bin: holds a list, expected a dictionary from names to tensors");
  const std::string one = pickle::tensor({});
  EXPECT_EQ(refusal_of({pickle::text("a"), one, pickle::text("a"), one}).message,
            "x.bin: tensor 'a' stands twice in the file");
  EXPECT_THAT(refusal_of({pickle::text(std::string(1025, 'a')), one}).message,
              HasSubstr("is 1025 bytes long"));
}

std::string typed(const std::vector<std::string>& attributes) {
  return pickle::typed_tensor("some.package", "PackedTensor", attributes);
}

TEST(PickleTensors, ClassesBecomePartsAndText) {
  const std::string kwargs =
      cat(pickle::name("some.package", "Kwargs"), ")\x81}", pickle::text("dim"), pickle::number(-1), "sb");
  const std::string mode = pickle::call(pickle::name("some.package.modes", "Mode"), {pickle::number(3)});
  const PickledTensors found = read_tensors(torch_file(
      pickle::dictionary(
          {pickle::text("m.weight"),
           typed({pickle::text("codes"), pickle::tensor({.storage = "1", .elements = 4}),
                  pickle::text("scale"), pickle::tensor({}), pickle::text("none"), "N", pickle::text("block"),
                  pickle::numbers({1, 2}), pickle::text("type"), pickle::name("torch", "int4"),
                  pickle::text("kwargs"), kwargs, pickle::text("mode"), mode})}),
      {"01234567", std::string(16, 'x')}));
  ASSERT_EQ(found.tensors.size(), 2u);
  EXPECT_EQ(found.tensors[0].info.name, "m._weight_codes");
  EXPECT_EQ(found.tensors[1].info.name, "m._weight_scale");
  EXPECT_EQ(json::parse(found.metadata.at("m.weight")), json::parse(R"({"_type": "PackedTensor",
      "_tensor_data_names": ["codes", "scale"],
      "_data": {"none": null, "block": [1, 2], "type": {"_type": "torch.dtype", "_data": "int4"},
                "kwargs": {"_type": "Kwargs", "_data": {"dim": -1}}, "mode": {"_type": "Mode", "_data": 3}}})"));
}

TEST(PickleTensors, ClassesThatLie) {
  const auto holds = [](const std::vector<std::string>& attributes) {
    return refusal_of({pickle::text("a"), typed(attributes)}).message;
  };
  EXPECT_EQ(
      holds({pickle::text("inner"), typed({})}),
      "x.bin: tensor 'a': its part 'inner' is itself of a class, 'some.package.PackedTensor'; parts must be "
      "plain tensors");
  EXPECT_EQ(holds({"N", "N"}), "x.bin: tensor 'a': an attribute's name is None");
  EXPECT_EQ(holds({pickle::text("b"), "N", pickle::text("b"), "N"}),
            "x.bin: tensor 'a': attribute 'b' stands twice");
  EXPECT_EQ(holds({pickle::text("b"), pickle::name("torch", "Size")}),
            "x.bin: tensor 'a': an attribute is the name 'torch.Size'");
  EXPECT_EQ(holds({pickle::text("b"), pickle::text("\xff")}),
            "x.bin: tensor 'a': its attributes hold broken UTF-8");
  std::string deep = "N";
  for (int i = 0; i < 20; ++i) deep = cat("(", deep, "t");
  EXPECT_EQ(holds({pickle::text("b"), deep}),
            "x.bin: tensor 'a': its attributes are nested deeper than 16 levels");
  std::vector<std::string> many;
  for (int i = 0; i < 17; ++i) many.insert(many.end(), {pickle::text(cat("t", i)), pickle::tensor({})});
  EXPECT_EQ(holds(many), "x.bin: tensor 'a': has more than the 16 tensors allowed inside it");
  const std::string plain = pickle::tensor({});
  EXPECT_EQ(
      refusal_of({pickle::text("a"), typed({pickle::text("b"), plain}), pickle::text("a"), plain}).message,
      "x.bin: tensor 'a' stands twice in the file");
}

}  // namespace
}  // namespace quaver
