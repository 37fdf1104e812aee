// What a model will hold, told from headers: against what it takes on the CPU, and what refusals say.
#include "pipeline/memory_plan.h"

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/remove_tree.h"
#include "checkpoint/checkpoint.h"
#include "diffusion/image_job.h"
#include "models/text_encoder/text_encoder.h"
#include "pipeline/check_image_memory.h"
#include "pipeline/image_memory.h"
#include "pipeline/memory_budget.h"
#include "pipeline/open_image_pipeline.h"

namespace quaver::pipeline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kPlanned = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& wanted) {
  std::ifstream file("/proc/self/status");
  for (std::string key, rest; file >> key && std::getline(file, rest);)
    if (key == wanted + ":") return std::stoll(rest) * 1024;
  return 0;
}

// By how much the resident set grows while `body` runs, at most.
template <class Body>
int64_t growth(const Body& body) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = status_bytes("VmRSS");
  body();
  return status_bytes("VmHWM") - before;
}

ImageMemory shapes_model(const nn::LoadOptions& load = {.kernel_layout_only = true}) {
  return image_memory(DiffusersFolder::open(kPlanned), {.load = load});
}

std::string refusal(const std::string& limit, ImageMemoryCheck check = {},
                    const diffusion::ImagePipelineOptions& options = {}) {
  check.limit = limit;
  try {
    check_image_memory(DiffusersFolder::open(kPlanned), options, check);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    return error.what();
  }
  return "";
}

// What else grows is small: threads' work space, pages that are begun.
void expect_near(int64_t measured, int64_t planned) {
  EXPECT_LE(measured, planned + planned / 10 + 4 * kMiB);
  EXPECT_GE(measured, planned - planned / 10 - 2 * kMiB);
}

// Steps of a larger picture than decoding, so that both take far more than what the bounds allow.
TEST(MemoryPlan, IsNearWhatAPictureTakesOnTheCpu) {
  if (!std::ofstream("/proc/self/clear_refs").is_open()) GTEST_SKIP() << "peaks can't be set back here";
  c10::InferenceMode no_gradients;
  mallopt(M_MMAP_THRESHOLD, 1 << 17);  // a tensor's memory goes when the tensor goes
  constexpr int64_t kLarge = 512, kSmall = 256, kTextTokens = 64;
  ImageMemory memory = shapes_model();
  memory.defaults.text_tokens = kTextTokens;
  const MemoryPlan large = plan_memory(memory, {.width = kLarge, .height = kLarge});
  const MemoryPlan small = plan_memory(memory, {.width = kSmall, .height = kSmall});
  const auto job_of = [](const diffusion::ImagePipeline& model, int64_t side) {
    const diffusion::ImageSpec spec{
        .prompt = "a red circle", .width = side, .height = side, .steps = 1, .text_tokens = kTextTokens};
    return diffusion::ImageJob(model, {spec});
  };
  std::shared_ptr<const diffusion::ImagePipeline> model = load_image_model({.model = kPlanned});
  {
    // Libraries start up, and threads get what they work in.
    job_of(*model, kLarge).step();
    diffusion::ImageJob job = job_of(*model, kSmall);
    job.step();
    job.decode(0);
  }
  model.reset();
  EXPECT_LE(growth([&] { model = load_image_model({.model = kPlanned}); }),
            small.held() + small.held() / 10 + 12 * kMiB);
  diffusion::ImageJob first = job_of(*model, kLarge), second = job_of(*model, kSmall);
  expect_near(growth([&] { first.step(); }), large.passing[0].bytes);
  second.step();
  expect_near(growth([&] { second.decode(0); }), small.passing[1].bytes);
}

TEST(MemoryPlan, TilesAndSizesChangeWhatDecodingTakes) {
  const ImageMemory memory = shapes_model();
  const auto decoding = [&](int64_t side, bool tiling) {
    return plan_memory(memory, {.width = side, .height = side, .tiling = tiling}).passing[1].bytes;
  };
  EXPECT_EQ(decoding(512, false), 16 * decoding(128, false));
  EXPECT_EQ(decoding(128, true), decoding(128, false));
  EXPECT_LT(decoding(512, true), decoding(512, false) / 8);
  const int64_t pixels = largest_picture(memory, {.pictures = 1}, 200 * kMiB);
  EXPECT_LE(plan_memory(memory, {.width = 512, .height = 512}).peak(), 200 * kMiB);
  EXPECT_GT(pixels, 512 * 512);
  EXPECT_LT(pixels, 1024 * 1024);
}

// 11.6 M weights in the blocks, bfloat16 in the files.
TEST(MemoryPlan, OffloadLeavesTwoBlocksOnTheDevice) {
  const ImageMemory memory = shapes_model({.compute_dtype = at::kBFloat16, .device = at::kMeta});
  const MemoryPlan whole = plan_memory(memory, {.pictures = 1});
  const MemoryPlan offloaded = plan_memory(memory, {.pictures = 1, .offload = true});
  EXPECT_LT(offloaded.held(), whole.held() / 2);
  EXPECT_GE(offloaded.host, memory.transformer.blocks + memory.vae.total());
  EXPECT_EQ(offloaded.passing.size(), 3u);
  EXPECT_LT(plan_memory(as_int4(memory), {.pictures = 1}).held(), whole.held() * 7 / 10);
}

// Tensor ranks hold a part of the transformer: resident_weights.h; the others divide what a step computes.
TEST(MemoryPlan, RanksDivideTheTokens) {
  const ImageMemory memory = shapes_model();
  const ImageUse alone{.width = 512, .height = 512},
      two{.width = 512, .height = 512, .ranks = {.ulysses = 2}};
  EXPECT_EQ(plan_memory(memory, two).passing[0].bytes, plan_memory(memory, alone).passing[0].bytes / 2);
  EXPECT_EQ(plan_memory(memory, two).held(), plan_memory(memory, alone).held());
}

TEST(ResidentWeights, OfLayersEqualWhatLoadingKeeps) {
  for (const char* name : {"t5_w4g32", "t5", "qwen3", "clip"}) {
    const auto files =
        open_hugging_face_folder(std::string(QUAVER_TEST_DATA) + "/golden/text_encoder/" + name);
    const nn::LoadOptions load{.kernel_layout_only = true};
    nn::WeightSource source(*files, load);
    const std::unique_ptr<models::TextEncoder> model = models::load_text_encoder(source);
    std::vector<PlannedLayer> layers;
    int64_t kept = 0;
    for (const models::NamedLinear& layer : model->linears()) {
      const nn::Linear& linear = *layer.linear;
      const Extent2d shape{linear.out_features(), linear.in_features()};
      layers.push_back({.name = layer.name, .shape = shape, .whole = shape, .block = 0});
      kept += static_cast<int64_t>(linear.size_bytes());
      if (linear.bias()) kept -= static_cast<int64_t>(linear.bias()->nbytes());
    }
    const int64_t planned = resident_weights(*files, load, layers).blocks;
    EXPECT_LE(planned, kept) << name;
    // Kernels fill their last panel of rows up.
    EXPECT_LE(kept, planned + (name == std::string("t5_w4g32") ? 0 : planned / 16)) << name;
  }
}

TEST(MemoryCheck, SaysWhatIsNeededWhatThereIsAndWhatWouldHelp) {
  EXPECT_EQ(refusal("none"), "");
  EXPECT_EQ(refusal("1GiB"), "");
  const std::string text = refusal("10MiB");
  EXPECT_THAT(text, HasSubstr("shapes-flux: needs "));
  EXPECT_THAT(text, HasSubstr("on cpu (weights "));
  EXPECT_THAT(text, HasSubstr("--memory-limit allows 10.0 MiB"));
  EXPECT_THAT(text, HasSubstr("with --quantization int4 it is "));
  EXPECT_THAT(text, HasSubstr("still too much"));
  EXPECT_THAT(text, Not(HasSubstr("--offload")));  // nothing to gain on the CPU
}

TEST(MemoryCheck, NamesTheFlagsThatMakeAPictureFit) {
  const std::string text = refusal("100MiB", {.width = 640, .height = 640});
  EXPECT_THAT(text, HasSubstr("decoding 640x640"));
  EXPECT_THAT(text, HasSubstr("with --vae-use-tiling it is "));
  EXPECT_THAT(text, HasSubstr("with --size "));
  EXPECT_THAT(text, Not(HasSubstr("with --vae-use-tiling it is 1")));  // 100 MiB or more
}

TEST(MemoryCheck, LimitsAreWordsOrSizes) {
  EXPECT_EQ(parse_memory_limit("free", 5, 7).device, 5);
  EXPECT_EQ(parse_memory_limit("free", 5, 7).host, 7);
  EXPECT_EQ(parse_memory_limit("none", 5, 7).device, kAny);
  EXPECT_EQ(parse_memory_limit("2KiB", 5, 7).device, 2048);
  EXPECT_EQ(parse_memory_limit("2KiB", 5, 7).host, 7);
  EXPECT_THROW(check_memory_limit("much"), Error);
  EXPECT_THROW(check_memory_limit("-1"), Error);
}

TEST(MemoryCheck, ShortHostMemoryIsToldToo) {
  const MemoryPlan plan{.resident = {{"transformer", 2 * kMiB}}, .host = 9 * kMiB};
  try {
    check_memory(plan, "m", "cuda:0", {.device = 3 * kMiB, .host = 8 * kMiB}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "m: needs 9.0 MiB of host memory beside 2.0 MiB on cuda:0, and 8.0 MiB are free; "
                 "--memory-limit none loads it all the same");
  }
}

// Control groups as files, the deepest first.
class ControlGroups : public testing::Test {
 protected:
  ControlGroups() : root_(fs::temp_directory_path() / cat("quaver_groups_", getpid())) {}
  ~ControlGroups() override { remove_tree(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  fs::path root_;
};

TEST_F(ControlGroups, TheTightestLimitAboveAProcessCounts) {
  write("a/b/memory.max", "max");
  write("a/memory.max", "1000");
  write("a/memory.current", "600");
  write("memory.max", "5000");
  EXPECT_EQ(control_group_memory(root_, "0::/a/b\n"), 400);
  EXPECT_EQ(control_group_memory(root_, "0::/elsewhere\n"), 5000);
  EXPECT_EQ(control_group_memory(root_, "0::/../other\n"), 5000);
}

TEST_F(ControlGroups, CachedFilesCountAsFree) {
  write("memory.max", "1000");
  write("memory.current", "900");
  write("memory.stat", "anon 300\ninactive_file 350\nactive_file 250\nslab 5");
  EXPECT_EQ(control_group_memory(root_, "0::/\n"), 700);
}

TEST_F(ControlGroups, VersionOneIsReadToo) {
  write("memory/job/memory.limit_in_bytes", "2000");
  write("memory/job/memory.usage_in_bytes", "1500");
  write("memory/job/memory.stat", "total_inactive_file 100\ntotal_active_file 0");
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(control_group_memory(root_, "3:cpuset:/\n4:memory:/job\n"), 600);
  EXPECT_EQ(control_group_memory(root_, "4:memory:/\n"), kAny);
}

}  // namespace
}  // namespace quaver::pipeline
