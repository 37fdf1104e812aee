// Models written as GGUF read back as the same model; what the format can't tell is refused by name.
#include "quantize/gguf_export.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/max.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_quantize.h"
#include "checkpoint/scratch_folder.h"
#include "models/gguf_checkpoint.h"
#include "models/llm/causal_lm.h"
#include "numerics/half.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;
using quaver::testing::catch_error;
using quaver::testing::ScratchFolder;
using ::testing::HasSubstr;

const std::string kModels = std::string(QUAVER_TEST_DATA) + "/golden/models/";

std::unique_ptr<GgufModel> model_at(const std::string& name) {
  return gguf_model_of_folder(
      {.checkpoint = models::open_model(kModels + name), .path = kModels + name, .has_tokenizer = false});
}

GgufExportReport write(GgufModel& model, const fs::path& output, const std::string& mix) {
  return export_gguf(model, {.model = "tiny", .output = output, .mix = mix}, null_progress());
}

at::Tensor logits_of(const Checkpoint& checkpoint) {
  c10::InferenceMode no_gradients;
  nn::WeightSource source(checkpoint, {});
  std::unique_ptr<models::CausalLm> model = models::load_causal_lm(source);
  const at::Tensor ids = at::arange(3, 43, at::kLong);
  nn::DenseAttention attention({ids.size(0)});
  models::StepContext step{.positions = at::arange(ids.size(0), at::kLong), .attention = &attention};
  return model->logits(model->forward(ids, step));
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

class GgufRoundTrip : public ::testing::TestWithParam<const char*> {};

// Only norms that are stored with 1 added, and divisors of frequencies, round in float32.
TEST_P(GgufRoundTrip, TheSameValuesGiveTheSameLogits) {
  ScratchFolder folder;
  const fs::path path = folder.path() / "out.gguf";
  const GgufExportReport report = write(*model_at(GetParam()), path, "");
  EXPECT_THAT(report.what, HasSubstr("with the same values"));
  EXPECT_EQ(report.what.find("rounded"), std::string::npos) << report.what;
  const auto original = models::open_model(kModels + GetParam());
  EXPECT_LE(relative_difference(logits_of(*models::open_gguf_checkpoint(path)), logits_of(*original)), 1e-5);
}

// Every matrix is what the encoder makes of the original's values, under its own name and in its own order.
TEST_P(GgufRoundTrip, BlocksHoldTheValuesRounded) {
  ScratchFolder folder;
  const fs::path path = folder.path() / "out.gguf";
  const GgufExportReport report = write(*model_at(GetParam()), path, "q8_0");
  EXPECT_THAT(report.what, HasSubstr("Q8_0: "));
  const auto original = models::open_model(kModels + GetParam());
  const auto back = models::open_gguf_checkpoint(path);
  size_t compared = 0;
  for (const TensorInfo& info : original->tensors()) {
    if (info.shape.size() < 2 || info.name.ends_with("mlp.gate.weight") || info.shape[1] % 32 != 0) continue;
    std::vector<float> expected = gguf_dequantize(original->read(info.name));
    const Buffer blocks = gguf_quantize(DType::kQ8_0, expected, info.name);
    gguf_dequantize(DType::kQ8_0, blocks.bytes(), expected);
    for (float& value : expected) value = bf16_to_float(float_to_bf16(value));
    ASSERT_EQ(gguf_dequantize(back->read(info.name)), expected) << info.name;
    ++compared;
  }
  EXPECT_GE(compared, 14u);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufRoundTrip,
                         ::testing::Values("llama", "llama_old_linear", "llama_yarn", "qwen3_tied",
                                           "gguf/llama_q8.gguf", "gguf/llama3_tied.gguf",
                                           "gguf/qwen2_yarn.gguf", "gguf/qwen3.gguf", "gguf/qwen3moe.gguf",
                                           "gguf/gemma3.gguf"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '/' || c == '.'; }, '_');
                           return name;
                         });

TEST(GgufExport, WhatAnArchitectureCantTell) {
  const std::pair<const char*, const char*> kCases[] = {
      {"llama_scaled_tied", "scaling by parts with bounds"},
      {"qwen2_window", "layers with windows"},
      {"qwen3_moe", "layers without experts"},
      {"gemma3_old", "every sixth layer"},
  };
  for (const auto& [name, words] : kCases) {
    const auto caught = catch_error([&] { model_at(name); });
    EXPECT_EQ(caught.kind, ErrorKind::kUnsupported) << name;
    EXPECT_THAT(caught.message, HasSubstr(words)) << name;
  }
}

TEST(GgufExport, NarrowRowsFallBackAndSaySo) {
  ScratchFolder folder;
  const fs::path path = folder.path() / "out.gguf";
  const GgufExportReport report = write(*model_at("llama"), path, "Q4_K_M");
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_THAT(report.notes[0], HasSubstr("Q5_0 in place of Q4_K ("));
  EXPECT_THAT(report.notes[0], HasSubstr("Q8_0 in place of Q6_K ("));
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.integer("general.file_type"), 15);
  EXPECT_EQ(file.integer("general.quantization_version"), 2);
  EXPECT_EQ(file.string("general.architecture"), "llama");
}

TEST(GgufExport, AnotherGgufKeepsMetadataAndBlocks) {
  ScratchFolder folder;
  const std::string source = kModels + "gguf/llama_q8.gguf";
  const fs::path path = folder.path() / "out.gguf";
  const GgufExportReport report =
      export_gguf({.model = source, .output = path, .mix = "Q8_0"}, null_progress());
  EXPECT_THAT(report.what, HasSubstr("copied as they were"));
  const GgufFile before = GgufFile::open(source), after = GgufFile::open(path);
  for (const auto& [key, value] : before.metadata())
    if (!key.starts_with("general.")) {
      ASSERT_NE(after.find(key), nullptr) << key;
      EXPECT_EQ(after.find(key)->strings, value.strings) << key;
    }
  for (const GgufEntry& entry : before.entries()) {
    ASSERT_EQ(after.find_tensor(entry.info.name)->info.dtype, entry.info.dtype) << entry.info.name;
    EXPECT_TRUE(std::ranges::equal(after.read(entry.info.name).data.bytes(),
                                   before.read(entry.info.name).data.bytes()));
  }
  export_gguf({.model = source, .output = folder.path() / "f16.gguf", .mix = "f16"}, null_progress());
  const GgufFile plain = GgufFile::open(folder.path() / "f16.gguf");
  EXPECT_EQ(plain.find_tensor("blk.0.attn_q.weight")->info.dtype, DType::kF16);
  EXPECT_EQ(plain.find("general.quantization_version"), nullptr);
}

// A file rounded with an importance matrix says so; what is rounded anew was not.
TEST(GgufExport, ImportanceKeysGoWithTheBlocksTheySpeakOf) {
  ScratchFolder folder;
  const GgufFile plain = GgufFile::open(kModels + "gguf/llama_q8.gguf");
  GgufMetadata metadata;
  for (const auto& [key, value] : plain.metadata()) metadata.add_value(key, value);
  metadata.add_string("quantize.imatrix.file", "imatrix.dat");
  metadata.add_u32("quantize.imatrix.chunks_count", 7);
  std::vector<TensorInfo> infos;
  for (const GgufEntry& entry : plain.entries()) infos.push_back(entry.info);
  const fs::path source = folder.path() / "source.gguf";
  write_gguf(source, metadata, infos, [&](const TensorInfo& info) { return plain.read(info.name); });
  for (const auto& [mix, stays] : {std::pair{"", true}, {"q4_0", false}}) {
    const fs::path path = folder.path() / "out.gguf";
    export_gguf({.model = source, .output = path, .mix = mix, .overwrite = true}, null_progress());
    const GgufFile written = GgufFile::open(path);
    EXPECT_EQ(written.find("quantize.imatrix.file") != nullptr, stays) << mix;
    EXPECT_EQ(written.find("quantize.imatrix.chunks_count") != nullptr, stays) << mix;
    EXPECT_NE(written.find("general.architecture"), nullptr);
  }
}

TEST(GgufExport, OutputsThatCantBe) {
  ScratchFolder folder;
  const std::string source = kModels + "gguf/llama_q8.gguf";
  auto refused = [&](GgufExportOptions options) {
    const auto caught = catch_error([&] { export_gguf(options, null_progress()); });
    EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput);
    return caught.message;
  };
  const fs::path there = folder.write("there.gguf", "mine");
  EXPECT_THAT(refused({.model = source, .output = there}), HasSubstr("exists"));
  EXPECT_THAT(refused({.model = source, .output = folder.path() / "out"}), HasSubstr("must end in .gguf"));
  EXPECT_THAT(refused({.model = there, .output = there, .overwrite = true}),
              HasSubstr("is the model itself"));
  EXPECT_THAT(refused({.model = source, .output = folder.path() / "a.gguf", .mix = "Q9"}),
              HasSubstr("got 'Q9'"));
  export_gguf({.model = source, .output = there, .overwrite = true}, null_progress());
  EXPECT_GT(fs::file_size(there), 4u);
}

TEST(GgufExport, TargetsByName) {
  EXPECT_EQ(gguf_mix_of("GGUF"), "");
  EXPECT_EQ(gguf_mix_of("gguf:Q4_K_M"), "q4_k_m");
  EXPECT_EQ(gguf_mix_of("gguf:"), std::nullopt);
  EXPECT_EQ(gguf_mix_of("auto_round"), std::nullopt);
}

}  // namespace
}  // namespace quaver::quantize
