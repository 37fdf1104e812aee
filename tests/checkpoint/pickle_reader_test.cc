// The opcodes one by one, and pickles that are no pickles.
#include "checkpoint/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using Kind = PickleValue::Kind;
using testing::catch_error;
using ::testing::HasSubstr;
using namespace std::string_literals;

PickleTree read_tree(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), "x.bin");
}

// Of a pickle with these opcodes between protocol and end.
PickleTree run(const std::string& opcodes) { return read_tree(cat("\x80\x02", opcodes, ".")); }
std::string opcode_refusal(const std::string& opcodes) {
  return catch_error([&] { run(opcodes); }).message;
}

TEST(PickleReader, Numbers) {
  const auto integer = [](const std::string& opcodes) { return run(opcodes).root->integer; };
  EXPECT_EQ(integer("K\xff"), 255);
  EXPECT_EQ(integer("M\xff\xff"), 65535);
  EXPECT_EQ(integer("J\xff\xff\xff\xff"), -1);
  EXPECT_EQ(integer("J\x00\x00\x00\x80"s), INT32_MIN);
  EXPECT_EQ(integer("\x8a\x00"s), 0);
  EXPECT_EQ(integer("\x8a\x01\xff"), -1);
  EXPECT_EQ(integer("\x8a\x02\xff\x00"s), 255);
  EXPECT_EQ(integer(cat("\x8a\x08", testing::little_endian(uint64_t{1} << 63))), INT64_MIN);
  EXPECT_EQ(run("G\x3f\xf8\0\0\0\0\0\0"s).root->real, 1.5);
  EXPECT_EQ(integer("\x88"), 1);
  EXPECT_EQ(run("\x89").root->kind, Kind::kBool);
  EXPECT_EQ(run("N").root->kind, Kind::kNone);
  EXPECT_EQ(opcode_refusal(cat("\x8a\x09", std::string(9, 'x'))),
            "x.bin: pickle byte 2: an integer has 9 bytes, more than 8");
}

TEST(PickleReader, Texts) {
  const std::string short_text = "\x80\x04\x8c\x02hi.";
  EXPECT_EQ(read_tree(short_text).root->text, "hi");
  const std::string long_text = cat("\x80\x04\x8d", testing::little_endian(2), "hi.");
  EXPECT_EQ(read_tree(long_text).root->text, "hi");
  const std::string text = "\x80\x02X\x02\x00\x00\x00hi."s;
  EXPECT_EQ(read_tree(text).root->text, "hi");
}

TEST(PickleReader, Containers) {
  EXPECT_EQ(run("(K\x01K\x02K\x03t").root->items.size(), 3u);
  EXPECT_EQ(run(")").root->items.size(), 0u);
  EXPECT_EQ(run("NN\x86").root->items.size(), 2u);
  EXPECT_EQ(run("](NNNeNa").root->items.size(), 4u);
  EXPECT_EQ(run("}(NNNNuNNs").root->items.size(), 6u);
  EXPECT_EQ(run("]q\x00(h\x00h\x00"
                "e"s)
                .root->items[0]
                ->kind,
            Kind::kList)
      << "a list may hold itself";
  EXPECT_EQ(run("]r\x00\x00\x00\x00j\x00\x00\x00\x00\x86"s).root->items.size(), 2u);
  EXPECT_EQ(read_tree("\x80\x04]\x94h\x00\x86."s).root->items.size(), 2u);
}

TEST(PickleReader, CallsAreWrittenDownAndNotMade) {
  const PickleTree tree = run("ctorch\nSize\n)R");
  EXPECT_EQ(tree.root->kind, Kind::kCall);
  EXPECT_EQ(tree.root->items[0]->text, "torch.Size");
  EXPECT_EQ(run("ccollections\nOrderedDict\n)R}b").root->kind, Kind::kDict);
  const std::string stacked = "\x80\x04\x8c\x05torch\x8c\x04Size\x93)R.";
  EXPECT_EQ(read_tree(stacked).root->items[0]->text, "torch.Size");
}

TEST(PickleReader, WhatIsNoPickle) {
  EXPECT_EQ(catch_error([] { read_tree(""); }).message,
            "x.bin: the pickle ends inside the value at byte 0 (cut off?)");
  EXPECT_EQ(catch_error([] { read_tree("}."); }).message,
            "x.bin: the pickle does not begin with its protocol");
  EXPECT_EQ(catch_error([] { read_tree("\x80\x06}."); }).message,
            "x.bin: pickle protocol 6 is not read; 2 to 5 are");
  EXPECT_EQ(catch_error([] { read_tree("\x80\x02}.}"); }).message, "x.bin: the pickle goes on after its end");
  EXPECT_EQ(opcode_refusal(""), "x.bin: the pickle ends with 0 values, expected one");
  EXPECT_EQ(opcode_refusal("NN"), "x.bin: the pickle ends with 2 values, expected one");
  EXPECT_EQ(opcode_refusal("N("), "x.bin: the pickle ends with 1 values, expected one");
}

TEST(PickleReader, TheStackIsWatched) {
  const std::string none = "x.bin: pickle byte 3: takes a value where there is none";
  EXPECT_EQ(opcode_refusal("(b"), none);
  EXPECT_EQ(opcode_refusal("(q\x00"s), none);
  EXPECT_EQ(opcode_refusal("NR"), "x.bin: pickle byte 3: takes a value where there is none");
  EXPECT_EQ(opcode_refusal("N(R"), "x.bin: pickle byte 4: takes a value where there is none")
      << "below a mark";
  EXPECT_EQ(opcode_refusal("N\x86"), "x.bin: pickle byte 3: takes 2 values where there are 1");
  EXPECT_EQ(opcode_refusal("Nt"), "x.bin: pickle byte 3: looks for a mark where there is none");
  EXPECT_EQ(opcode_refusal("N(e"), "x.bin: pickle byte 4: appends to what is no list");
  EXPECT_EQ(opcode_refusal("](NNu"), "x.bin: pickle byte 6: sets items of what is no dictionary");
  EXPECT_EQ(opcode_refusal("}(Nu"), "x.bin: pickle byte 5: sets 1 keys and values, which are no pairs");
  EXPECT_EQ(opcode_refusal("h\x00"s), "x.bin: pickle byte 2: note 0 was never stored");
  EXPECT_EQ(opcode_refusal("Nr\xff\xff\xff\xff"),
            "x.bin: pickle byte 3: note 4294967295 is stored after 0 others");
  EXPECT_EQ(opcode_refusal("N)R"),
            "x.bin: pickle byte 4: calls what is no function, or without a tuple of arguments");
  EXPECT_EQ(opcode_refusal("ctorch\nSize\n]R"),
            "x.bin: pickle byte 15: calls what is no function, or without a tuple of arguments");
  EXPECT_EQ(opcode_refusal("ctorch\nSize\n)\x81"),
            "x.bin: pickle byte 15: makes an object of 'torch.Size', which is no class");
  EXPECT_EQ(opcode_refusal("N}b"), "x.bin: pickle byte 4: sets the state of what is no object");
  EXPECT_EQ(opcode_refusal("}}b}b"), "x.bin: pickle byte 6: sets the state of an object twice");
  EXPECT_EQ(opcode_refusal("NNNN(tQ"), "x.bin: pickle byte 8: the id of a storage is no tuple of five");
}

TEST(PickleReader, LengthsThatLie) {
  EXPECT_THAT(opcode_refusal("X\xff\xff\xff\xff"), HasSubstr("ends inside the value at byte 2 (cut off?)"));
  EXPECT_THAT(opcode_refusal("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
              HasSubstr("ends inside the value at byte 2"));
  EXPECT_THAT(opcode_refusal("\x95\xff\xff\xff\xff\xff\xff\xff\xff"),
              HasSubstr("has a frame that runs past its end"));
  EXPECT_THAT(opcode_refusal(cat("c", std::string(300, 'a'), "\nb\n")),
              HasSubstr("a name is longer than 256 bytes"));
  EXPECT_THAT(opcode_refusal("ctorch"), HasSubstr("a name is longer than 256 bytes, or cut off"));
}

// Everything else in Python's table of opcodes.
TEST(PickleReader, OtherOpcodesAreRefused) {
  for (const unsigned char opcode :
       "0123456789FILSTUVPBCdgiolp\x80\x82\x83\x84\x8b\x8e\x8f\x90\x91\x92\x96\x97\x98"s)
    EXPECT_THAT(opcode_refusal(cat("N", static_cast<char>(opcode), std::string(8, 0))),
                HasSubstr(cat("opcode ", static_cast<int>(opcode), " is not read")));
}

TEST(PickleReader, NamesOutsideTheTable) {
  const auto names = [](std::string_view module, std::string_view name) {
    return opcode_refusal(testing::pickle::name(module, name));
  };
  EXPECT_EQ(names("os", "system"),
            "x.bin: names 'os.system'; only tensors are read from a pickle, and nothing in it is run");
  EXPECT_NE(names("torch", "load"), "");
  EXPECT_NE(names("", "Tensor"), "");
  EXPECT_NE(names("os", "Tensor"), "") << "tensor classes come from a package's module";
  EXPECT_NE(names("a.b", "some_tensor"), "") << "a function";
  EXPECT_NE(names("a.b", "Config"), "") << "no tensor class came from there";
  EXPECT_EQ(names("a.b", "SomeTensor"), "");
  EXPECT_EQ(opcode_refusal("ca.b\nSomeTensor\nca.c\nConfig\n\x86"), "");
  EXPECT_NE(opcode_refusal("ca.b\nSomeTensor\nca.c\nrun\n\x86"), "");
  EXPECT_NE(opcode_refusal("ca.b\nSomeTensor\nc__builtin__\nEval\n\x86"), "");
  EXPECT_THAT(opcode_refusal("ca.b\nSomeTensor\n)RN\x81"), HasSubstr("calls what is no function"));
}

}  // namespace
}  // namespace quaver
