// Pickles that would run code, fill the memory or run for ever in Python: each is one sentence here, and
// nothing happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/pickle_file.h"
#include "checkpoint/pickle_reader.h"
#include "checkpoint/torch_builder.h"
#include "hostile/mutate.h"

namespace quaver {
namespace {

using testing::catch_error;
using testing::Caught;
using ::testing::HasSubstr;
using testing::torch_file;
namespace pickle = testing::pickle;

// A model folder around one pickle.
Caught open(const std::string& opcodes) {
  testing::ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("pytorch_model.bin", torch_file(opcodes, {"01234567"}));
  return catch_error([&] { open_hugging_face_folder(folder.path()); });
}

// Beside a sound tensor, as a second value of the dictionary.
Caught open_beside(const std::string& value) {
  return open(pickle::dictionary({pickle::text("a"), pickle::tensor({}), pickle::text("b"), value}));
}

struct Gadget {
  const char *module, *name;
};

// What exploits of Python's unpickler and of torch.load(weights_only=False) have called.
constexpr Gadget kGadgets[] = {
    {"os", "system"},
    {"posix", "system"},
    {"nt", "system"},
    {"builtins", "eval"},
    {"builtins", "exec"},
    {"__builtin__", "eval"},
    {"builtins", "getattr"},
    {"builtins", "compile"},
    {"builtins", "__import__"},
    {"builtins", "open"},
    {"builtins", "bytearray"},
    {"subprocess", "Popen"},
    {"subprocess", "check_output"},
    {"runpy", "_run_code"},
    {"pty", "spawn"},
    {"socket", "socket"},
    {"importlib", "import_module"},
    {"codecs", "encode"},
    {"_codecs", "encode"},
    {"copyreg", "_reconstructor"},
    {"copy_reg", "__newobj__"},
    {"functools", "partial"},
    {"operator", "attrgetter"},
    {"operator", "methodcaller"},
    {"types", "FunctionType"},
    {"types", "CodeType"},
    {"pickle", "loads"},
    {"marshal", "loads"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy.core.multiarray", "scalar"},
    {"numpy", "dtype"},
    {"torch", "load"},
    {"torch.serialization", "load"},
    {"torch.storage", "_load_from_bytes"},
    {"torch.hub", "load"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_device_tensor_from_numpy"},
    {"torch._utils", "_import_dotted_name"},
    {"torch._inductor.codecache", "exec"},
    {"torch._tensor", "_rebuild_from_type"},
    {"transformers.training_args", "TrainingArguments"},
    {"collections", "OrderedDict.__reduce__"},
    {"torch", "Size.__class__"},
    {"torch.", "Size"},
};

TEST(HostilePickles, EveryGadgetIsNamedAndNotRun) {
  testing::ScratchFolder witness;
  const std::string mark = (witness.path() / "ran").string(), command = cat("touch ", mark);
  for (const Gadget& gadget : kGadgets) {
    const std::string name = pickle::name(gadget.module, gadget.name);
    const std::string full = cat(gadget.module, ".", gadget.name);
    const std::string stacked = cat(pickle::text(gadget.module), pickle::text(gadget.name), "\x93");
    const std::string made = pickle::call(name, {pickle::text(command)});
    for (const std::string& value :
         {name, made, pickle::call(stacked, {pickle::text(command)}), cat(name, ")\x81}b"),
          pickle::typed_tensor(gadget.module, gadget.name, {}),
          pickle::typed_tensor("some.package", "PackedTensor", {pickle::text("x"), made}),
          pickle::call(pickle::name("torch._tensor", "_rebuild_from_type_v2"),
                       {name, pickle::name("torch", "Tensor"), ")", "}"})}) {
      const Caught caught = open_beside(value);
      EXPECT_EQ(caught.kind, ErrorKind::kUnsupported) << full;
      EXPECT_THAT(caught.message,
                  HasSubstr(cat("pytorch_model.bin: names '", full,
                                "'; only tensors are read from a pickle, and nothing in it is run")));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
}

// The older ways to name and to make, which torch.save never writes.
TEST(HostilePickles, OtherWaysToCallAreNoOpcodesHere) {
  for (const std::string& value :
       {std::string("(S'touch x'\nios\nsystem\n"), std::string("(cos\nsystem\nS'touch x'\no"),
        std::string("\x82\x01"), std::string("Pid\n"), cat(pickle::name("torch", "Size"), ")}\x92")})
    EXPECT_EQ(open_beside(value).kind, ErrorKind::kUnsupported) << value;
}

TEST(HostilePickles, KnownFunctionsDoNothingElse) {
  const auto says = [](const std::string& value, const char* text) {
    EXPECT_THAT(open_beside(value).message, HasSubstr(text));
  };
  const std::string from_type = pickle::name("torch._tensor", "_rebuild_from_type_v2");
  const std::string tensor = pickle::name("torch", "Tensor");
  says(pickle::call(tensor, {}), "tensor 'b': is made by 'torch.Tensor', which makes no tensor");
  says(pickle::call(from_type, {tensor, tensor, ")", "}"}), "is made by 'torch.Tensor'");
  says(pickle::call(from_type, {from_type, tensor, ")", "}"}), "is of a type without function");
  says(pickle::call(from_type, {pickle::name("torch", "device"), pickle::name("a.b", "OwnTensor"), ")", "}"}),
       "is a 'a.b.OwnTensor' made by 'torch.device'");
  says(cat(pickle::tensor({}), "}", pickle::text("__class__"), "Nsb"), "tensor 'b': has a state set on it");
  std::string parameter = pickle::tensor({});
  for (int i = 0; i < 9; ++i)
    parameter = pickle::call(pickle::name("torch._utils", "_rebuild_parameter"), {parameter, "\x88", "N"});
  says(parameter, "is wrapped too often");
}

TEST(HostilePickles, ClassesOfTensorsAreNamesOnly) {
  testing::ScratchFolder folder;
  folder.write("config.json", "{}");
  const std::string tensor =
      pickle::typed_tensor("evil.package", "EvilTensor", {pickle::text("x"), pickle::tensor({})});
  folder.write("pytorch_model.bin",
               torch_file(pickle::dictionary({pickle::text("a.weight"), tensor}), {"01234567"}));
  const auto checkpoint = open_hugging_face_folder(folder.path());
  ASSERT_EQ(checkpoint->tensors().size(), 1u);
  EXPECT_EQ(checkpoint->tensors()[0].name, "a._weight_x");
  EXPECT_EQ(json::parse(checkpoint->metadata("a.weight")).at("_type"), "EvilTensor");
}

// Notes that stand for one another, circles, nesting: all within time and memory of the file's own size.
TEST(HostilePickles, BombsAreNotBlownUp) {
  const auto note = [](char opcode, int number) { return std::string{opcode, static_cast<char>(number)}; };
  std::string laughs = cat("()", note('q', 0));
  for (int i = 0; i < 60; ++i)
    laughs += cat("(", note('h', i), note('h', i), note('h', i), note('h', i), "t", note('q', i + 1));
  const std::string circle = cat("]", note('q', 0), note('h', 0), "a");
  const std::string deep = cat(std::string(1'000'000, '('), std::string(1'000'000, 't'));
  std::string shared = cat("(", pickle::text(std::string(1000, 's')), note('q', 0));
  for (int i = 0; i < 100'000; ++i) shared += note('h', 0);
  const auto attribute = [](const std::string& value) {
    return pickle::typed_tensor("some.package", "OwnTensor", {pickle::text("x"), value});
  };
  for (const std::string& value : {cat(laughs, "t"), circle, deep, cat(shared, "t")})
    for (const std::string& place : {value, attribute(value)}) {
      const std::string opcodes = pickle::dictionary({pickle::text("a"), place});
      testing::reset_peak_allocated_bytes();
      EXPECT_EQ(open(opcodes).message.empty(), false);
      EXPECT_LE(testing::peak_allocated_bytes(), (size_t{4} << 20) + 160 * opcodes.size());
    }
}

// A state that many tensors share costs what it would cost written out, so it may not be shared without end.
TEST(HostilePickles, SharedAttributesArePaidFor) {
  std::string opcodes = cat("\x80\x02}(", pickle::text("0"),
                            pickle::typed_tensor("some.package", "OwnTensor",
                                                 {pickle::text("x"), pickle::tensor({}), pickle::text("y"),
                                                  pickle::text(std::string(10'000, 'y'))}),
                            "q", std::string(1, 0));
  for (int i = 1; i < 5000; ++i) opcodes += cat(pickle::text(cat(i)), "h", std::string(1, 0));
  testing::reset_peak_allocated_bytes();
  EXPECT_THAT(open(opcodes + "u.").message, HasSubstr("repeat themselves beyond all measure"));
  EXPECT_LE(testing::peak_allocated_bytes(), size_t{16} << 20);
}

TEST(HostilePickles, TooManyValuesAreRefused) {
  const std::string opcodes = cat("\x80\x02(", std::string(kMaxPickleValues + 1, ']'), "t.");
  EXPECT_THAT(open(opcodes).message, HasSubstr("holds more than the 4194304 values allowed"));
  EXPECT_THAT(open(std::string(kMaxPickleBytes + 1, '\x80')).message,
              HasSubstr("more than the 33554432 allowed"));
}

std::string golden_pickle(std::string_view name) {
  return read_text_file(std::filesystem::path(QUAVER_TEST_DATA) / "golden/checkpoint/pickled" / name,
                        1 << 20);
}

volatile int pickle_sink = 0;

TEST(MutatedFiles, Pickles) {
  const std::string typed =
      torch_file(pickle::dictionary(
                     {pickle::text("a.weight"),
                      pickle::typed_tensor("some.package", "OwnTensor",
                                           {pickle::text("x"), pickle::tensor({}), pickle::text("block"),
                                            pickle::numbers({1, 2}), pickle::text("y"), pickle::text("y")})}),
                 {"01234567"});
  testing::MutationRun run{
      .originals = {golden_pickle("views.bin"), golden_pickle("every_dtype.bin"),
                    golden_pickle("protocol_5.bin"), golden_pickle("parameters.bin"), typed},
      .count = 20000,
      .seed = 15};
  const int accepted = testing::run_mutations(run, [](std::span<const std::byte> bytes) {
    for (const PickledTensor& tensor : read_pickled_tensors(bytes, "x.bin").tensors)
      for (const std::byte byte : bytes.subspan(tensor.offset, tensor.span_bytes))
        pickle_sink = (pickle_sink + std::to_integer<int>(byte)) & 0xff;
  });
  EXPECT_GT(accepted, 100) << "the damage is too coarse to reach the data";
  EXPECT_LT(accepted, 12000);
}

}  // namespace
}  // namespace quaver
