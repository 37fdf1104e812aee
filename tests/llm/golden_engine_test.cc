// The engine over a tiny model of every family: the reference's probabilities, and answers that do not depend
// on neighbours, chunks, cached prefixes or preemption.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "checkpoint/safetensors_file.h"
#include "llm/collector.h"
#include "llm/engine.h"
#include "llm/fake_model.h"
#include "models/llm/causal_lm.h"
#include "nn/tensor_bridge.h"

namespace quaver::llm {
namespace {

using testing::Answer;
using testing::Collector;

const std::string kFolder = std::string(QUAVER_TEST_DATA) + "/golden/models/";

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (std::filesystem::exists(entry.path() / "config.json"))
      found.push_back(entry.path().filename().string());
  return found;
}

std::shared_ptr<const models::CausalLm> load(const std::string& name, at::Device device = at::kCPU) {
  std::unique_ptr<Checkpoint> checkpoint = models::open_model(kFolder + name);
  nn::WeightSource source(*checkpoint, {.device = device});
  return models::load_causal_lm(source);
}

at::Tensor golden(const std::string& name, const char* tensor) {
  std::string file = kFolder + name + ".safetensors";
  return nn::tensor_over(SafetensorsFile::open(file).read(tensor), file).clone();
}

EngineOptions engine_options(at::ScalarType cache, int32_t tokens = 64, int32_t blocks = 256) {
  EngineOptions result;
  result.scheduler = {.max_num_seqs = 12, .max_num_batched_tokens = tokens, .max_model_len = 64};
  result.block_size = 4;
  result.num_blocks = blocks;
  result.kv_cache_dtype = cache;
  return result;
}

EngineModel model_with(std::shared_ptr<const models::CausalLm> model, at::Device device = at::kCPU) {
  return {std::move(model), testing::make_fake_tokenizer(), {}, device};
}

std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (at::globalContext().hasCUDA()) all.push_back(at::Device(at::kCUDA, 0));
  return all;
}

class GoldenEngine : public ::testing::TestWithParam<std::string> {};

// The scores of a prompt that is computed in chunks of this size.
std::vector<PositionLogprobs> scores(const EngineModel& model, std::vector<int32_t> prompt, int32_t chunk) {
  EngineOptions settings = engine_options(at::kFloat, chunk);
  settings.scheduler.max_num_seqs = 1;
  Collector collector;
  Engine engine(model, settings);
  Request request{.id = "a", .prompt = std::move(prompt), .sampling = {}, .cache_salt = {}};
  request.sampling.max_tokens = 0;
  request.sampling.prompt_logprobs = 0;
  engine.submit(request, collector.sink());
  return collector.wait("a").prompt_logprobs;
}

TEST_P(GoldenEngine, ScoresPromptsAsTheReference) {
  at::Tensor ids = golden(GetParam(), "ids"), logits = golden(GetParam(), "logits").to(at::kDouble);
  at::Tensor expected = at::log_softmax(logits, -1);
  std::vector<int32_t> prompt(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.size(0));
  for (at::Device device : devices()) {
    std::shared_ptr<const models::CausalLm> model = load(GetParam(), device);
    // Twice (logit and normaliser) what a logit may err by: each of the sums in series rounds relative to the
    // size of its result; about ten a layer, and the widest here is 256.
    double depth = 10.0 * static_cast<double>(model->info().num_layers) + 3;
    double bound = 2 * depth * std::sqrt(256.0) * 0x1p-24 * 2 * logits.abs().max().item().toDouble();
    for (int32_t chunk : {5, 64}) {
      std::vector<PositionLogprobs> got = scores(model_with(model, device), prompt, chunk);
      ASSERT_EQ(got.size(), prompt.size());
      for (size_t i = 1; i < prompt.size(); ++i)
        EXPECT_NEAR(got[i][0].logprob, expected[static_cast<int64_t>(i) - 1][prompt[i]].item().toDouble(),
                    bound);
    }
  }
}

TEST_P(GoldenEngine, AnswersDoNotDependOnCompany) {
  std::shared_ptr<const models::CausalLm> model = load(GetParam());
  auto vocab = static_cast<int32_t>(model->info().vocab_size);
  std::mt19937 random(5);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<int32_t> common(17);
  for (int32_t& token : common) token = pick(0, vocab - 1);
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) {
    Request request{.id = cat("r", i), .prompt = {}, .sampling = {}, .cache_salt = {}};
    if (pick(0, 1)) request.prompt = common;
    for (int n = pick(1, 20); n > 0; --n) request.prompt.push_back(pick(0, vocab - 1));
    request.sampling.max_tokens = pick(1, 64 - static_cast<int>(request.prompt.size()));
    request.sampling.temperature = pick(0, 1) ? 0.0f : 1.0f;
    request.sampling.seed = i;
    request.sampling.logprobs = 1;
    requests.push_back(request);
  }
  for (at::ScalarType cache : {at::kFloat, at::kBFloat16}) {
    Collector alone, together, crowded;
    Engine one(model_with(model), engine_options(cache)), many(model_with(model), engine_options(cache, 21)),
        small(model_with(model), engine_options(cache, 40, 17));
    for (const Request& request : requests) {
      many.submit(request, together.sink());
      small.submit(request, crowded.sink());
    }
    for (const Request& request : requests) {
      Request salted = request;
      salted.cache_salt = request.id;  // no shared prefixes here
      one.submit(salted, alone.sink());
      Answer expected = alone.wait(request.id);
      for (Collector* collector : {&together, &crowded}) {
        Answer got = collector->wait(request.id);
        EXPECT_EQ(got.tokens, expected.tokens) << request.id;
        ASSERT_EQ(got.logprobs.size(), expected.logprobs.size());
        for (size_t i = 0; i < got.logprobs.size(); ++i)
          EXPECT_EQ(got.logprobs[i][0].logprob, expected.logprobs[i][0].logprob) << request.id << " " << i;
      }
    }
    EXPECT_GT(many.stats().cached_prompt_tokens, 0);
    EXPECT_GT(small.stats().preemptions, 0);
  }
}

// Greedy answers to a prompt that was cut into chunks of three are those of dense passes over all of it.
TEST_P(GoldenEngine, GreedyInChunksEqualsDense) {
  std::shared_ptr<const models::CausalLm> model = load(GetParam());
  std::vector<int32_t> tokens;
  at::Tensor ids = golden(GetParam(), "ids"), all = ids;
  for (int i = 0; i < 8; ++i) {
    nn::DenseAttention attention({all.size(0)});
    models::StepContext step{.positions = at::arange(all.size(0), at::kLong), .attention = &attention};
    at::NoGradGuard no_grad;
    at::Tensor next = model->logits(model->forward(all, step))[-1].argmax().view({1});
    tokens.push_back(static_cast<int32_t>(next.item<int64_t>()));
    all = at::cat({all, next});
  }
  EngineOptions settings = engine_options(at::kFloat, 3);
  settings.scheduler.max_num_seqs = 1;
  Collector collector;
  Engine engine(model_with(model), settings);
  Request request{.id = "a", .prompt = {}, .sampling = {}, .cache_salt = {}};
  request.prompt.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.size(0));
  request.sampling.max_tokens = 8;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0;
  engine.submit(request, collector.sink());
  EXPECT_EQ(collector.wait("a").tokens, tokens);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenEngine, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quaver::llm
