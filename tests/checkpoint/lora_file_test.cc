// LoRA files: their parts under every spelling, how much a layer counts, and what is no plain LoRA.
#include "checkpoint/lora_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/mapped_file.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/lora_settings.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using ::testing::HasSubstr;
using testing::ScratchFolder;

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  float value = 0;
};

class LoraFileTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::vector<Tensor>& tensors, const std::string& name = "a.safetensors",
                             const std::map<std::string, std::string>& metadata = {}) {
    std::vector<TensorInfo> infos;
    for (const Tensor& tensor : tensors) {
      uint64_t bytes = 4;
      for (const int64_t extent : tensor.shape) bytes *= static_cast<uint64_t>(extent);
      infos.push_back({tensor.name, DType::kF32, tensor.shape, bytes});
    }
    const auto source = [&](const TensorInfo& info) {
      const auto it = std::ranges::find(tensors, info.name, &Tensor::name);
      return TensorView{info.dtype, info.shape,
                        Buffer::copy_of(std::vector<float>(info.size_bytes / 4, it->value))};
    };
    write_safetensors_file(folder_.path() / name, infos, source, metadata);
    return folder_.path() / name;
  }
  static std::string message_of(const std::filesystem::path& path, ErrorKind kind) {
    try {
      LoraFile::open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "nothing was thrown";
  }
  ScratchFolder folder_;
};

TEST_F(LoraFileTest, PartsUnderEverySpelling) {
  for (const auto& [down, up] : std::vector<std::pair<std::string, std::string>>{
           {"lora_A.weight", "lora_B.weight"},
           {"lora_A.default.weight", "lora_B.default.weight"},
           {"lora_down.weight", "lora_up.weight"},
           {"lora.down.weight", "lora.up.weight"},
           {"lora_linear_layer.down.weight", "lora_linear_layer.up.weight"},
           {"down.weight", "up.weight"}}) {
    const LoraFile lora =
        LoraFile::open(file({{"a.b." + down, {4, 8}}, {"a.b." + up, {6, 4}}, {"a.b.alpha", {}, 2}}));
    ASSERT_EQ(lora.layers().size(), 1u);
    const LoraLayer& layer = lora.layers().front();
    EXPECT_EQ(layer.name, "a.b");
    EXPECT_EQ(layer.down.name, "a.b." + down);
    EXPECT_EQ(layer.up.tensor.shape, (std::vector<int64_t>{6, 4}));
    EXPECT_EQ(layer.scale, 0.5);
  }
}

TEST_F(LoraFileTest, WithoutAlphaALayerCountsOnce) {
  EXPECT_EQ(
      LoraFile::open(file({{"a.lora_A.weight", {4, 8}}, {"a.lora_B.weight", {6, 4}}})).layers().front().scale,
      1);
}

TEST_F(LoraFileTest, SettingsOfPeftGiveTheScale) {
  const std::vector<Tensor> tensors = {{"transformer.x.to_q.lora_A.weight", {4, 8}},
                                       {"transformer.x.to_q.lora_B.weight", {6, 4}},
                                       {"transformer.x.to_k.lora_A.weight", {2, 8}},
                                       {"transformer.x.to_k.lora_B.weight", {6, 2}}};
  const json bare = {{"lora_alpha", 8}, {"alpha_pattern", {{"to_q", 1}}}, {"r", 4}};
  json prefixed;
  for (const auto& [key, value] : bare.items()) prefixed["transformer." + key] = value;
  const LoraFile in_header =
      LoraFile::open(file(tensors, "a.safetensors", {{"lora_adapter_metadata", prefixed.dump()}}));
  EXPECT_EQ(in_header.layers()[0].scale, 4) << in_header.layers()[0].name;  // to_k: 8 / 2
  EXPECT_EQ(in_header.layers()[1].scale, 0.25);                             // to_q: 1 / 4
  folder_.write("peft/adapter_config.json", bare.dump());
  file(tensors, "peft/adapter_model.safetensors");
  EXPECT_EQ(LoraFile::open(folder_.path() / "peft").layers()[1].scale, 0.25);
}

TEST(LoraSettings, TheRootOfTheRankWhereAskedFor) {
  const LoraSettings settings({{"lora_alpha", 8}, {"use_rslora", true}}, "test");
  EXPECT_EQ(settings.scale("a", 16), 2);
  EXPECT_EQ(LoraSettings().scale("a", 16), 1);
}

TEST(LoraSettings, WhatIsNoPlainLoraIsRefused) {
  for (const json& wrong : {json{{"lora_alpha", 8}, {"use_dora", true}}, json{{"lora_alpha", "eight"}},
                            json{{"lora_alpha", 8}, {"alpha_pattern", {{"to_[qk]", 1}}}}, json::array()})
    EXPECT_THROW(LoraSettings(wrong, "test"), Error) << wrong.dump();
}

TEST_F(LoraFileTest, FoldersHoldTheUsualFile) {
  file({{"a.lora_A.weight", {4, 8}}, {"a.lora_B.weight", {6, 4}}}, "pytorch_lora_weights.safetensors");
  EXPECT_EQ(LoraFile::open(folder_.path()).path().filename(), "pytorch_lora_weights.safetensors");
  std::filesystem::create_directory(folder_.path() / "empty");
  EXPECT_THAT(message_of(folder_.path() / "empty", ErrorKind::kNotFound), HasSubstr("holds no LoRA"));
  EXPECT_THAT(message_of(folder_.path() / "none", ErrorKind::kNotFound), HasSubstr("does not exist"));
}

TEST_F(LoraFileTest, PartsMustFitEachOther) {
  EXPECT_THAT(
      message_of(file({{"a.lora_A.weight", {4, 8}}, {"a.lora_B.weight", {6, 5}}}), ErrorKind::kBadFile),
      HasSubstr("'a.lora_B.weight' is [6, 5], expected [out, 4]: the rank of 'a.lora_A.weight' is 4"));
  EXPECT_THAT(message_of(file({{"a.lora_A.weight", {4, 8}}}), ErrorKind::kBadFile),
              HasSubstr("'a.lora_A.weight' stands without the layer's second matrix"));
  EXPECT_THAT(message_of(file({{"a.alpha", {}, 1}}), ErrorKind::kBadFile),
              HasSubstr("'a.alpha' stands without the layer's first matrix"));
  EXPECT_THAT(
      message_of(file({{"a.lora_A.weight", {4, 8, 1, 1}}, {"a.lora_B.weight", {6, 4}}}), ErrorKind::kBadFile),
      HasSubstr("expected two dimensions"));
  EXPECT_THAT(
      message_of(
          file({{"a.lora_A.weight", {4, 8}}, {"a.lora_down.weight", {4, 8}}, {"a.lora_B.weight", {6, 4}}}),
          ErrorKind::kBadFile),
      HasSubstr("are the same part of one layer"));
}

TEST_F(LoraFileTest, AnAlphaIsOneFiniteNumber) {
  const std::vector<Tensor> pair = {{"a.lora_A.weight", {4, 8}}, {"a.lora_B.weight", {6, 4}}};
  for (const Tensor& alpha : {Tensor{"a.alpha", {2}, 1}, Tensor{"a.alpha", {}, NAN}}) {
    std::vector<Tensor> tensors = pair;
    tensors.push_back(alpha);
    EXPECT_THAT(message_of(file(tensors), ErrorKind::kBadFile), HasSubstr("expected one number"));
  }
}

TEST_F(LoraFileTest, OtherAdaptersAreNamed) {
  EXPECT_THAT(message_of(file({{"a.lokr_w1", {4, 8}}}), ErrorKind::kUnsupported),
              HasSubstr("'a.lokr_w1' belongs to LoKr; only plain LoRA is supported"));
  EXPECT_THAT(message_of(file({{"a.dora_scale", {4, 1}}}), ErrorKind::kUnsupported), HasSubstr("DoRA"));
  EXPECT_THAT(message_of(file({{"a.weight", {4, 8}}}), ErrorKind::kBadFile),
              HasSubstr("'a.weight' is no part of a LoRA"));
}

TEST_F(LoraFileTest, PicklesAreRefused) {
  for (const char* bytes : {"PK\x03\x04 a zip archive", "\x80\x02}q\x01X\x04 a pickle"})
    EXPECT_THAT(message_of(folder_.write("a.safetensors", bytes), ErrorKind::kUnsupported),
                HasSubstr("is a pickle, which may run programs when it is read"));
}

// The length of a header may begin with the bytes of a pickle.
TEST_F(LoraFileTest, AHeaderOfAnyLengthIsRead) {
  const std::vector<Tensor> pair = {{"a.lora_A.weight", {4, 8}}, {"a.lora_B.weight", {6, 4}}};
  const auto with_note = [&](size_t letters) {
    return file(pair, "a.safetensors", {{"note", std::string(letters, 'x')}});
  };
  const auto header_bytes = [](const std::filesystem::path& path) {
    return read_little_endian(MappedFile::open(path)->bytes(), 0, 8);
  };
  const std::filesystem::path path = with_note(0x280 - header_bytes(with_note(0)));
  ASSERT_EQ(header_bytes(path), 0x280u);
  EXPECT_EQ(LoraFile::open(path).layers().size(), 1u);
}

}  // namespace
}  // namespace quaver
