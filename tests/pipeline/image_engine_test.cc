// The engine of picture models over the demo model: batches, order of news, aborts, draining, limits.
#include "pipeline/image_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/remove_tree.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_writer.h"
#include "diffusion/image_job.h"
#include "models/text_encoder/prompt_tokenizer.h"
#include "nn/tensor_bridge.h"

namespace quaver::pipeline {
namespace {

namespace fs = std::filesystem;
using Kind = ImageEvent::Kind;
using ::testing::HasSubstr;

const std::string kFolder = std::string(QUAVER_TEST_DATA) + "/../models/shapes-flux";

// What one request heard. Thread safe.
class Heard {
 public:
  ImageSink sink() {
    return [this](ImageEvent event) {
      std::lock_guard lock(mutex_);
      if (event.kind == Kind::kImage) pictures[event.seed] = *event.image;
      kinds.push_back(event.kind);
      last = std::move(event);
      changed_.notify_all();
    };
  }
  void wait_for(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), condition));
  }
  void wait_for_end() {
    wait_for([&] {
      return last.kind == Kind::kDone || last.kind == Kind::kAborted || last.kind == Kind::kFailed;
    });
  }
  int64_t count(Kind kind) const { return std::ranges::count(kinds, kind); }

  std::vector<Kind> kinds;
  std::map<uint64_t, Image> pictures;
  ImageEvent last;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ImageEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new std::shared_ptr<const diffusion::ImagePipeline>(
        diffusion::ImagePipeline::load(DiffusersFolder::open(kFolder), {}));
  }
  static void TearDownTestSuite() { delete model_; }

  static ImageRequest request(const std::string& id, uint64_t seed, int64_t steps = 2) {
    return {.id = id,
            .prompt = "a red circle on a white background",
            .negative_prompt = {},
            .width = 64,
            .height = 64,
            .steps = steps,
            .text_tokens = 32,
            .guidance_scale = {},
            .true_cfg_scale = {},
            .seed = seed,
            .source = {},
            .mask = {},
            .strength = {}};
  }
  // On a new thread like the engine's: convolutions depend on how many threads ATen uses, and a thread that
  // is older than a language model's engine in this process may use more.
  Image alone(const ImageRequest& wanted) {
    Image picture;
    std::thread([&] {
      diffusion::ImageJob job(**model_, {check_image_request(wanted, **model_, {}).front()});
      while (job.steps_done() < job.steps()) job.step();
      picture = job.decode(0);
    }).join();
    return picture;
  }
  std::unique_ptr<ImagePipeline> engine(ImageEngineOptions options = {}) {
    return start_image_engine(*model_, {}, options);
  }
  static std::shared_ptr<const diffusion::ImagePipeline>* model_;
};
std::shared_ptr<const diffusion::ImagePipeline>* ImageEngineTest::model_ = nullptr;

TEST_F(ImageEngineTest, F095_BatchedRequestsGetTheirOwnPictures) {
  Heard first, other, second;
  {
    auto pictures = engine();
    ImageRequest three = request("a", 10);
    three.count = 3;
    EXPECT_EQ(pictures->submit(three, first.sink()), 10u);
    pictures->submit(request("b", 50, 3), other.sink());  // of other steps: no batch with the rest
    pictures->submit(request("c", 20), second.sink());
    for (Heard* heard : {&first, &other, &second}) heard->wait_for_end();
  }
  ASSERT_EQ(first.pictures.size(), 3u);
  for (uint64_t seed : {10, 11, 12}) EXPECT_EQ(first.pictures.at(seed), alone(request("", seed))) << seed;
  EXPECT_EQ(second.pictures.at(20), alone(request("", 20)));
  EXPECT_EQ(other.pictures.at(50), alone(request("", 50, 3)));
  EXPECT_EQ(other.count(Kind::kProgress), 3);
  for (Heard* heard : {&first, &other, &second}) EXPECT_EQ(heard->kinds.front(), Kind::kQueued);
  EXPECT_EQ(first.kinds.back(), Kind::kDone);
  EXPECT_EQ(first.last.guidance_scale, 3.5);
}

// A model whose T5 knows "purple" as NaN.
class DamagedModel {
 public:
  DamagedModel() : folder_(fs::temp_directory_path() / cat("quaver-damaged-", ::getpid())) {
    fs::copy(kFolder, folder_, fs::copy_options::recursive);
    const models::PromptTokenizer tokenizer(folder_ / "tokenizer_2");
    const int64_t id = tokenizer.encode("purple", 8).ids[0][0].item<int64_t>();
    const std::string file = (folder_ / "text_encoder_2" / "model.safetensors").string();
    std::vector<NamedTensor> tensors;
    const SafetensorsFile original = SafetensorsFile::open(file);
    for (const SafetensorsEntry& entry : original.entries()) {
      at::Tensor value = nn::tensor_over(original.read(entry), entry.info.name).clone();
      if (entry.info.name == "shared.weight") value[id].fill_(std::nan(""));
      tensors.push_back({entry.info.name, nn::view_of(value)});
    }
    std::vector<TensorInfo> infos;
    for (const NamedTensor& t : tensors)
      infos.push_back({t.name, t.tensor.dtype, t.tensor.shape, t.tensor.data.size_bytes()});
    auto read = [&](const TensorInfo& info) {
      return std::ranges::find(tensors, info.name, &NamedTensor::name)->tensor;
    };
    write_safetensors(folder_ / "text_encoder_2", infos, read, {});
  }
  ~DamagedModel() { remove_tree(folder_); }
  std::shared_ptr<const diffusion::ImagePipeline> load() const {
    return diffusion::ImagePipeline::load(DiffusersFolder::open(folder_), {});
  }

 private:
  fs::path folder_;
};

TEST_F(ImageEngineTest, F127_AFailureEndsItsRequestAlone) {
  const DamagedModel damaged;
  Heard good, bad, last;
  {
    auto pictures = start_image_engine(damaged.load(), {}, {});
    pictures->submit(request("first", 1, 3), last.sink());  // the others gather behind it
    pictures->submit(request("good", 2), good.sink());
    ImageRequest purple = request("bad", 3);
    purple.prompt = "a purple circle on a white background";
    pictures->submit(purple, bad.sink());
    for (Heard* heard : {&last, &good, &bad}) heard->wait_for_end();
    EXPECT_TRUE(pictures->healthy());
  }
  EXPECT_EQ(good.last.kind, Kind::kDone);
  EXPECT_EQ(good.pictures.at(2), alone(request("", 2)));
  EXPECT_EQ(bad.last.kind, Kind::kFailed);
  ASSERT_TRUE(bad.last.error.has_value());
  EXPECT_EQ(bad.last.error->kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(bad.last.error->what(), HasSubstr("text_encoder_2 gave values that are not finite"));
}

TEST_F(ImageEngineTest, TellsWhatHadNoEffect) {
  auto pictures = engine();
  Heard heard;
  ImageRequest wanted = request("a", 1);
  wanted.negative_prompt = "blurry";
  pictures->submit(wanted, heard.sink());
  heard.wait_for_end();
  ASSERT_EQ(heard.last.notes.size(), 1u);
  EXPECT_THAT(heard.last.notes[0],
              HasSubstr("negative_prompt has no effect: it needs true_cfg_scale above 1"));
}

TEST_F(ImageEngineTest, F081_AnAbortEndsWithinAStep) {
  auto pictures = engine();
  Heard running, waiting;
  pictures->submit(request("running", 1, 200), running.sink());
  pictures->submit(request("waiting", 2, 3), waiting.sink());
  running.wait_for([&] { return running.count(Kind::kProgress) >= 2; });
  pictures->abort("waiting");
  waiting.wait_for_end();
  EXPECT_EQ(waiting.last.kind, Kind::kAborted);
  EXPECT_NE(running.last.kind, Kind::kAborted);
  pictures->abort("nobody");
  pictures->abort("running");
  running.wait_for_end();
  EXPECT_EQ(running.last.kind, Kind::kAborted);
  EXPECT_LT(running.count(Kind::kProgress), 200);
  EXPECT_EQ(pictures->stats().finished_abort, 2);
}

TEST_F(ImageEngineTest, PreviewsComeBetweenTheSteps) {
  auto pictures = engine();
  Heard heard;
  ImageRequest wanted = request("a", 1, 4);
  wanted.previews = 2;
  wanted.preview_side = 16;
  pictures->submit(wanted, heard.sink());
  heard.wait_for_end();
  EXPECT_EQ(heard.count(Kind::kPreview), 2);
  EXPECT_EQ(heard.kinds.back(), Kind::kDone);
}

TEST_F(ImageEngineTest, DrainingTakesNoMoreAndAbortsWhatIsLeft) {
  auto pictures = engine();
  Heard heard;
  pictures->submit(request("long", 1, 200), heard.sink());
  heard.wait_for([&] { return heard.count(Kind::kProgress) >= 1; });
  pictures->drain(0.05);
  EXPECT_EQ(heard.last.kind, Kind::kAborted);
  EXPECT_THROW(pictures->submit(request("late", 1), heard.sink()), Error);
}

TEST_F(ImageEngineTest, AFullQueueRefuses) {
  auto pictures = engine({.max_queue = 1});
  Heard heard, refused;
  pictures->submit(request("a", 1, 100), heard.sink());
  try {
    pictures->submit(request("b", 1), refused.sink());
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  }
  pictures->abort("a");
  heard.wait_for_end();
}

TEST_F(ImageEngineTest, F112_SizesAreHonouredOrRefusedWithTheNearestLegalOnes) {
  auto refusal = [&](auto change) {
    ImageRequest wanted = request("a", 1);
    change(wanted);
    try {
      check_image_request(wanted, **model_, {});
    } catch (const Error& error) {
      return cat(error.field(), ": ", error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refusal([](ImageRequest& r) { r.width = 1920, r.height = 1080; }),
              ::testing::AllOf(HasSubstr("size: "), HasSubstr("1920x1072 or 1920x1088")));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.width = 1, r.height = 17; }), HasSubstr("16x16 or 16x32"));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.width = r.height = 1'000'000'000; }), HasSubstr("size: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.width = r.height = 4096, r.count = 3; }),
              HasSubstr("for 3 pictures"));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.height.reset(); }), HasSubstr("size: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.guidance_scale = std::nan(""); }),
              HasSubstr("guidance_scale: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.steps = 0; }), HasSubstr("num_inference_steps: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.count = 11; }), HasSubstr("n: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.prompt = " \n"; }), HasSubstr("prompt: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.seed = uint64_t{1} << 63; }), HasSubstr("seed: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.strength = 0.5; }), HasSubstr("strength: "));
  EXPECT_THAT(refusal([](ImageRequest& r) { r.text_tokens = 513; }), HasSubstr("max_sequence_length: "));
  EXPECT_EQ(refusal([](ImageRequest& r) { r.width = 592, r.height = 848; }), "taken");
}

}  // namespace
}  // namespace quaver::pipeline
