// Text encoders of picture pipelines under quantization: what their blocks run on, rules for their layers,
// whole jobs.
#include "quantize/text_encoder_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "base/remove_tree.h"
#include "diffusion/family.h"
#include "formats/pipeline_components.h"
#include "models/text_encoder/text_encoder.h"
#include "nn/tensor_bridge.h"
#include "quantize/caption_list.h"
#include "quantize/job.h"
#include "quantize/job_plan.h"
#include "quantize/round_to_nearest.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kShapesFolder = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";
const std::string kOvisFolder = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/ovis_pipeline";

BlockModelOptions few_captions(const std::string& folder, int64_t tokens) {
  BlockModelOptions options{.path = folder, .load = {.plain_values = true}};
  options.trajectory.samples = 4;
  options.trajectory.text_tokens = tokens;
  return options;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

class EncoderTarget {
 public:
  EncoderTarget() : path_(fs::temp_directory_path() / fs::path(cat("quaver-encoder-", ::getpid()))) {}
  ~EncoderTarget() { remove_tree(path_); }
  fs::path path() const { return path_; }

 private:
  fs::path path_;
};

// The rows behind the last block, block by block.
at::Tensor replayed(BlockModel& model, Activations rows) {
  nn::WeightSource source(model.source(), {.plain_values = true});
  for (int64_t i = 0; i < model.num_blocks(); ++i) run_block(*model.make_block(i, source), rows, rows, 2);
  return rows.rows;
}

struct WholeEncoder {
  std::unique_ptr<Checkpoint> files;
  std::unique_ptr<models::TextEncoder> encoder;
};

WholeEncoder open_encoder(const std::string& folder, const char* component) {
  WholeEncoder out{DiffusersFolder::open(folder).component(component), nullptr};
  nn::WeightSource source(*out.files, {});
  out.encoder = models::load_text_encoder(source);
  return out;
}

TEST(TextEncoderRowsTest, ReplayedBlocksGiveWhatTheEncoderGives) {
  at::NoGradGuard no_gradients;
  const DiffusersFolder folder = DiffusersFolder::open(kShapesFolder);
  const BlockModelOptions options = few_captions(kShapesFolder, 24);
  const auto encoders = open_text_encoders(options);
  ASSERT_EQ(encoders.size(), 2u);
  const auto& readers = diffusion::image_family_of(folder).readers;
  for (size_t i = 0; i < encoders.size(); ++i) {
    const diffusion::PromptReader& reader = *(readers.begin() + i);
    SCOPED_TRACE(reader.component);
    const std::string what = encoders[i]->calibrate(null_progress());
    EXPECT_THAT(what, HasSubstr(i == 0 ? "text_encoder: the built-in captions, 4 of 77 tokens"
                                       : "text_encoder_2: the built-in captions, 4 of 24 tokens"));
    const at::Tensor rows = replayed(*encoders[i], encoders[i]->first_inputs());
    const WholeEncoder whole = open_encoder(kShapesFolder, reader.component);
    const diffusion::PromptTokens tokens(folder, reader);
    const std::vector<std::string> captions = load_captions("", 4, options.trajectory.seed);
    for (int64_t row = 0; row < 4; ++row) {
      const at::Tensor ids = tokens.encode(captions[static_cast<size_t>(row)], rows.size(1)).ids;
      const at::Tensor got = whole.encoder->output(rows.narrow(0, row, 1), ids).rows;
      EXPECT_LE(relative_distance(got, whole.encoder->forward(ids).rows), 1e-6) << row;
    }
  }
}

TEST(TextEncoderRowsTest, WithoutPaddingRowsEndWithTheLongestCaption) {
  at::NoGradGuard no_gradients;
  const DiffusersFolder folder = DiffusersFolder::open(kOvisFolder);
  const BlockModelOptions options = few_captions(kOvisFolder, 0);
  const auto encoders = open_text_encoders(options);
  ASSERT_EQ(encoders.size(), 1u);
  encoders[0]->calibrate(null_progress());
  const at::Tensor rows = replayed(*encoders[0], encoders[0]->first_inputs());
  const WholeEncoder whole = open_encoder(kOvisFolder, "text_encoder");
  const diffusion::PromptTokens tokens(folder, *diffusion::image_family_of(folder).readers.begin());
  const std::vector<std::string> captions = load_captions("", 4, options.trajectory.seed);
  int64_t longest = 0;
  for (int64_t row = 0; row < 4; ++row) {
    const models::EncodedPrompt prompt = tokens.encode(captions[static_cast<size_t>(row)], 512);
    longest = std::max(longest, prompt.length);
    const std::vector<int64_t> length = {prompt.length};
    const at::Tensor want = whole.encoder->forward(prompt.ids, length).rows.narrow(1, 0, prompt.length);
    const at::Tensor got = whole.encoder->output(rows.narrow(0, row, 1), prompt.ids).rows;
    EXPECT_LE(relative_distance(got.narrow(1, 0, prompt.length), want), 1e-5) << row;
  }
  EXPECT_EQ(rows.size(1), longest);
}

JobOptions encoder_job(const fs::path& output, Method method, int bits) {
  JobOptions job{.model = kShapesFolder, .text_encoders = true, .output_dir = output};
  job.method = method;
  job.rules.base.bits = bits;
  job.rules.base.group_size = 64;
  job.tune.iters = 10;
  job.tune.batch_size = 4;
  job.trajectory.samples = 16;
  job.trajectory.prompts = 2;
  job.trajectory.steps = 2;
  job.trajectory.width = job.trajectory.height = 64;
  job.trajectory.text_tokens = 24;
  job.overwrite = true;
  return job;
}

// What rounding makes of a plain layer by itself.
void expect_rounded(const Checkpoint& plain, const Checkpoint& written, const Format& format,
                    const std::string& layer, const Scheme& scheme) {
  const QuantWeight got = format.unpack(format.plan(written, layer), written);
  const TensorView weight = plain.read(layer + ".weight");
  const QuantWeight want = round_to_nearest(nn::tensor_over(weight, layer), scheme, 0, layer);
  EXPECT_EQ(dequantize(got), dequantize(want)) << layer;
}

TEST(TextEncoderJobTest, RoundedLayersAreThoseOfEachPlainLayer) {
  const EncoderTarget target;
  const JobOptions job = encoder_job(target.path(), Method::kRtn, 4);
  const RunReport report = run_job(job, {});
  EXPECT_EQ(report.blocks.size(), 7u + 2 + 3);
  EXPECT_EQ(report.blocks.back().index, 11);
  EXPECT_EQ(report.blocks.back().layers.front().name,
            "text_encoder_2.encoder.block.2.layer.0.SelfAttention.q");
  const DiffusersFolder plain = DiffusersFolder::open(kShapesFolder),
                        written = DiffusersFolder::open(target.path());
  int layers = 0;
  for (const char* component : {"text_encoder", "text_encoder_2"}) {
    const auto before = plain.component(component), after = written.component(component);
    const Format* format = detect_format(*after);
    ASSERT_NE(format, nullptr) << component;
    for (const std::string& layer : quantized_layers(*after, *format)) {
      expect_rounded(*before, *after, *format, layer, job.rules.base);
      ++layers;
    }
  }
  EXPECT_EQ(layers, 2 * 6 + 3 * 7);
  for (const char* file :
       {"vae/diffusion_pytorch_model.safetensors", "model_index.json", "tokenizer_2/tokenizer.json"})
    EXPECT_EQ(read_text_file(target.path() / file, 1 << 28),
              read_text_file(fs::path(kShapesFolder) / file, 1 << 28))
        << file;
}

TEST(TextEncoderJobTest, TuningLowersTheLossOfEveryBlock) {
  const EncoderTarget target;
  std::vector<BlockReport> blocks;
  std::vector<std::string> calibrations;
  JobOptions job = encoder_job(target.path(), Method::kAutoRound, 2);
  job.rules.ignore_layers = {"transformer_blocks"};
  run_job(job, {.on_calibration = [&](const std::string& what) { calibrations.push_back(what); },
                .on_block = [&](const BlockReport& block) { blocks.push_back(block); }});
  ASSERT_EQ(blocks.size(), 12u);
  for (size_t i = 7; i < blocks.size(); ++i)
    EXPECT_LT(blocks[i].loss_after, blocks[i].loss_before) << blocks[i].layers.front().name;
  // A component that stays as it is needs no samples.
  EXPECT_THAT(calibrations, ElementsAre(HasSubstr("text_encoder: "), HasSubstr("text_encoder_2: ")));
}

std::vector<std::vector<LayerDecision>> decided(const LayerRules& rules) {
  const JobOptions options{.model = kShapesFolder, .text_encoders = true, .rules = rules};
  return decide_models(options, open_block_models(few_captions(kShapesFolder, 0), true));
}

int64_t quantized_count(const std::vector<LayerDecision>& decisions) {
  return std::ranges::count_if(decisions, [](const LayerDecision& d) { return d.scheme.bits != 16; });
}

TEST(TextEncoderRulesTest, LayersAreNamedUnderTheirComponents) {
  const auto all = decided({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].front().name, "text_model.encoder.layers.0.self_attn.q_proj");
  EXPECT_EQ(all[2].front().name, "encoder.block.0.layer.0.SelfAttention.q");
  const auto without_clip = decided({.ignore_layers = {"text_encoder."}});
  EXPECT_EQ(quantized_count(without_clip[0]), 66);
  EXPECT_EQ(quantized_count(without_clip[1]), 0);
  EXPECT_EQ(quantized_count(without_clip[2]), 21);
  const auto eight = decided({.layer_config = {{"text_encoder_2", json("W8A16")}}});
  EXPECT_EQ(eight[1].front().scheme.bits, 4);
  EXPECT_EQ(eight[2].front().scheme.bits, 8);
  EXPECT_THROW(decided({.ignore_layers = {"text_encoder_3"}}), Error);
}

TEST(TextEncoderRulesTest, ALanguageModelHasNone) {
  const JobOptions job{.model = std::string(QUAVER_TEST_DATA) + "/golden/models/llama",
                       .text_encoders = true};
  try {
    run_job(job, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("leave --quantize_text_encoder out"));
  }
}

}  // namespace
}  // namespace quaver::quantize
