// Picture models under quantization: rows that stand for two streams, samples by strata, captions, whole
// jobs.
#include "quantize/picture_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "base/remove_tree.h"
#include "diffusion/image_job.h"
#include "formats/pipeline_components.h"
#include "nn/tensor_bridge.h"
#include "quantize/caption_list.h"
#include "quantize/dit_rows.h"
#include "quantize/job.h"
#include "quantize/online.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kShapes = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";

diffusion::ImageSpec small_spec() {
  diffusion::ImageSpec spec{.prompt = "a red circle on a white background",
                            .width = 64,
                            .height = 64,
                            .steps = 4,
                            .text_tokens = 32,
                            .seed = 5};
  spec.guidance.embedded = 3.5;
  return spec;
}

std::unique_ptr<diffusion::ImagePipeline> open_pipeline(const std::string& folder,
                                                        const nn::LoadOptions& load = {}) {
  return diffusion::ImagePipeline::load(DiffusersFolder::open(folder),
                                        {.load = load, .vae_dtype = {}, .vae = {}, .cache = {}});
}

at::Tensor final_latents(const diffusion::ImagePipeline& pipeline) {
  diffusion::ImageJob job(pipeline, {small_spec()});
  while (job.steps_done() < job.steps()) job.step();
  return job.latents();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / fs::path(cat("quaver-picture-", ::getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { remove_tree(path_); }
  fs::path path() const { return path_; }

 private:
  fs::path path_;
};

TEST(PictureRowsTest, F055_ReplayedBlocksPassBothStreamsOn) {
  at::NoGradGuard no_gradients;
  const auto pipeline = open_pipeline(kShapes);
  const models::Dit& dit = pipeline->transformer();
  diffusion::ImageSpec other = small_spec();
  other.prompt = "a blue star on a black background";
  const diffusion::ImageJob job(*pipeline, {small_spec(), other});
  const models::DitInput input = job.next_input();
  const models::DitContext context = dit.context(input);
  models::DitState state = dit.embed(input);
  at::Tensor rows = dit_rows(state, context);
  const int64_t text = input.text.size(1), all = rows.size(1);
  nn::LoadOptions load;
  const std::unique_ptr<Checkpoint> files = DiffusersFolder::open(kShapes).component("transformer");
  nn::WeightSource source(*files, load);
  for (int64_t i = 0; i < dit.info().num_blocks; ++i) {
    state = dit.block(i).forward(state, context);
    const auto block = as_row_block(dit.make_block(i, source), context.rope, text);
    rows = block->forward(rows.flatten(0, 1), {}).view(rows.sizes());
    EXPECT_LE(distance(rows.narrow(1, 0, text), state.text), 1e-6) << i;
    EXPECT_LE(distance(rows.narrow(1, text, all - text - 1), state.image), 1e-6) << i;
    EXPECT_TRUE(rows.select(1, all - 1).equal(context.condition)) << i;
  }
}

TrajectoryOptions few_samples() {
  return {.dataset = {},
          .samples = 6,
          .prompts = 3,
          .steps = 4,
          .guidance_scale = {},
          .width = 64,
          .height = 64,
          .text_tokens = 32};
}

TEST(TrajectoryTest, TakesOneStepOfEachStratumOfEachCaption) {
  const auto pipeline = open_pipeline(kShapes);
  const Trajectory seen = sample_trajectory(*pipeline, few_samples(), null_progress());
  EXPECT_EQ(seen.rows.size(0), 6);
  EXPECT_EQ(seen.rows.size(1), 32 + 16 + 1);
  EXPECT_EQ(seen.text_tokens, 32);
  EXPECT_EQ(seen.prompts, 3);
  // Samples of one caption share the text, and differ in the picture.
  for (int64_t i = 0; i < 6; i += 2) {
    EXPECT_TRUE(seen.rows[i].narrow(0, 0, 32).equal(seen.rows[i + 1].narrow(0, 0, 32)));
    EXPECT_FALSE(seen.rows[i].narrow(0, 32, 16).equal(seen.rows[i + 1].narrow(0, 32, 16)));
  }
  EXPECT_FALSE(seen.rows[0].narrow(0, 0, 32).equal(seen.rows[2].narrow(0, 0, 32)));
  const Trajectory again = sample_trajectory(*pipeline, few_samples(), null_progress());
  EXPECT_TRUE(again.rows.equal(seen.rows));
}

TEST(TrajectoryTest, RefusesWhatItWouldHaveToRound) {
  const auto pipeline = open_pipeline(kShapes);
  auto refusal = [&](auto change) {
    TrajectoryOptions options = few_samples();
    change(options);
    try {
      sample_trajectory(*pipeline, options, null_progress());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("drawn");
  };
  EXPECT_THAT(refusal([](auto& o) { o.width = 100; }), HasSubstr("multiples of 16, got 100"));
  EXPECT_THAT(refusal([](auto& o) { o.height = -16; }), HasSubstr("got -16"));
  EXPECT_THAT(refusal([](auto& o) { o.steps = -1; }), HasSubstr("--num_inference_steps"));
  EXPECT_THAT(refusal([](auto& o) { o.text_tokens = 513; }), HasSubstr("1 to 512, got 513"));
  EXPECT_THAT(refusal([](auto& o) { o.guidance_scale = std::nan(""); }), HasSubstr("--guidance_scale"));
  EXPECT_THAT(refusal([](auto& o) { o.samples = 0; }), HasSubstr("--calib_samples"));
}

TEST(CaptionsTest, ReadsLinesTablesAndJson) {
  const TemporaryFolder folder;
  auto file = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
    return (folder.path() / name).string();
  };
  EXPECT_THAT(load_captions(file("a.txt", "one\r\n\ntwo\n  \nthree"), 9, 1),
              ::testing::UnorderedElementsAre("one", "two", "three"));
  EXPECT_THAT(load_captions(file("a.tsv", "id\tcaption\n1\tfirst\n2\tsecond\n"), 9, 1),
              ::testing::UnorderedElementsAre("first", "second"));
  EXPECT_THAT(load_captions(file("a.jsonl", "\"x\"\n{\"text\": \"y\"}\n"), 9, 1),
              ::testing::UnorderedElementsAre("x", "y"));
  EXPECT_EQ(load_captions("", 1000, 1).size(), 96u);
  EXPECT_EQ(load_captions("", 10, 1), load_captions("", 10, 1));
  EXPECT_NE(load_captions("", 10, 1), load_captions("", 10, 2));
  auto refusal = [&](const std::string& dataset) {
    try {
      load_captions(dataset, 4, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(refusal(file("b.tsv", "id\ttext\n1\tx\n")), HasSubstr("names no column 'caption'"));
  EXPECT_THAT(refusal(file("c.tsv", "id\tcaption\n1\n")), HasSubstr("line 2: has 1 columns"));
  EXPECT_THAT(refusal(file("d.txt", "\n \n")), HasSubstr("holds no captions"));
  EXPECT_THAT(refusal("/no/such.txt"), HasSubstr("does not exist"));
}

JobOptions small_job(const fs::path& output, Method method, int bits) {
  JobOptions job{.model = kShapes, .output_dir = output};
  job.method = method;
  job.rules.base.bits = bits;
  job.rules.base.group_size = 64;
  job.tune.iters = 10;
  job.tune.batch_size = 4;
  job.trajectory = few_samples();
  job.trajectory.samples = 32;
  job.trajectory.prompts = 16;
  job.overwrite = true;
  return job;
}

TEST(PictureJobTest, WritesAPipelineThatDrawsAlmostTheSame) {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "q";
  run_job(small_job(target, Method::kRtn, 8), {});
  const auto plain = open_pipeline(kShapes), quantized = open_pipeline(target.string());
  for (const PipelineComponent& part : pipeline_components(DiffusersFolder::open(target)))
    EXPECT_EQ(part.format ? part.format->name : "plain",
              std::string(part.name == "transformer" ? "auto_round" : "plain"));
  EXPECT_LE(distance(final_latents(*quantized), final_latents(*plain)), 0.02);
  // F119: every other component is what it was, byte for byte.
  for (const char* file :
       {"vae/diffusion_pytorch_model.safetensors", "text_encoder_2/model.safetensors", "model_index.json"})
    EXPECT_EQ(read_text_file(target / file, 1 << 28), read_text_file(fs::path(kShapes) / file, 1 << 28))
        << file;
}

TEST(PictureJobTest, TuningLowersTheLossOfEveryBlock) {
  const TemporaryFolder folder;
  std::vector<BlockReport> blocks;
  const RunReport report = run_job(small_job(folder.path() / "q", Method::kAutoRound, 2),
                                   {.on_block = [&](const BlockReport& block) { blocks.push_back(block); }});
  ASSERT_EQ(blocks.size(), 7u);
  for (const BlockReport& block : blocks) EXPECT_LT(block.loss_after, block.loss_before) << block.index;
  EXPECT_THAT(report.calibration, HasSubstr("32 inputs of the first block from 16 captions, 4 steps each"));
  const at::Tensor want = final_latents(*open_pipeline(kShapes));
  EXPECT_LE(distance(final_latents(*open_pipeline((folder.path() / "q").string())), want), 0.6);
}

TEST(PictureJobTest, RefusesWhatPicturesDontHave) {
  const TemporaryFolder folder;
  auto refusal = [&](auto change) {
    JobOptions job = small_job(folder.path() / "q", Method::kRtn, 4);
    change(job);
    try {
      run_job(job, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("done");
  };
  EXPECT_THAT(refusal([](JobOptions& job) { job.rules.quant_head = true; }), HasSubstr("has no head"));
  EXPECT_THAT(refusal([](JobOptions& job) { job.fp8_kv_cache = true; }), HasSubstr("no cache of keys"));
  EXPECT_THAT(refusal([](JobOptions& job) { job.mean_bits = 3; }), HasSubstr("--avg_bits"));
}

TEST(PictureOnlineTest, F111_ModulationStaysWhenRoundedOnTheFly) {
  const std::unique_ptr<Checkpoint> files = DiffusersFolder::open(kShapes).component("transformer");
  const nn::RoundPlain round = online_rounding(*files, "fp8");
  auto is_rounded = [&](const std::string& layer) {
    return round(layer, nn::tensor_over(files->read(layer + ".weight"), layer)).has_value();
  };
  EXPECT_TRUE(is_rounded("transformer_blocks.0.attn.to_q"));
  EXPECT_TRUE(is_rounded("single_transformer_blocks.1.proj_out"));
  EXPECT_FALSE(is_rounded("transformer_blocks.0.norm1.linear"));
  EXPECT_FALSE(is_rounded("single_transformer_blocks.0.norm.linear"));
  EXPECT_FALSE(is_rounded("proj_out"));
  const auto plain = open_pipeline(kShapes), rounded = open_pipeline(kShapes, {.round_plain = round});
  EXPECT_LE(distance(final_latents(*rounded), final_latents(*plain)), 0.12);
}

}  // namespace
}  // namespace quaver::quantize
