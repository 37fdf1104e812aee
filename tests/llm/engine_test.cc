// The engine on a tiny fake model: equality of batched and single answers, isolation, limits, shutdown.
#include "llm/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <thread>

#include "llm/collector.h"
#include "llm/fake_model.h"

namespace quaver::llm {
namespace {

using testing::Answer;
using testing::Collector;
using testing::kFakeEnd;
using testing::kFakeVocab;
using testing::kMaxOrdinary;
using testing::kPoison;

EngineOptions small_options() {
  EngineOptions options;
  options.scheduler = {.max_num_seqs = 16, .max_num_batched_tokens = 64, .max_model_len = 512};
  options.num_blocks = 256;
  options.block_size = 16;
  options.kv_cache_dtype = at::kFloat;
  return options;
}

EngineModel fake(testing::ForwardHook hook = {}) {
  return {testing::make_fake_model(std::move(hook)), testing::make_fake_tokenizer(), {kFakeEnd}, at::kCPU};
}

Request make_request(std::string id, std::vector<int32_t> prompt, int32_t max_tokens = 20) {
  Request request{.id = std::move(id), .prompt = std::move(prompt), .sampling = {}, .cache_salt = {}};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> random_prompt(std::mt19937& random, int longest) {
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<int32_t> prompt(static_cast<size_t>(pick(1, longest)));
  for (int32_t& token : prompt) token = pick(1, kMaxOrdinary);
  return prompt;
}

// A mixture: greedy and seeded, with and without log-probabilities, half with a common beginning.
std::vector<Request> mixed_requests(int count, uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<int32_t> common = random_prompt(random, 80);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt = random_prompt(random, 90);
    if (pick(0, 1)) prompt.insert(prompt.begin(), common.begin(), common.end());
    Request request = make_request(cat("r", i), prompt, pick(1, 40));
    if (pick(0, 1)) {
      request.sampling.temperature = 0.9f;
      request.sampling.seed = pick(0, 3);
      request.sampling.top_p = 0.95f;
      request.sampling.frequency_penalty = 0.5f;
    }
    if (pick(0, 1)) request.sampling.logprobs = 3;
    if (pick(0, 5) == 0) request.sampling.prompt_logprobs = 1;
    if (pick(0, 2) == 0) request.sampling.stop = {"the s", "ing"};
    requests.push_back(request);
  }
  return requests;
}

bool same(const std::vector<PositionLogprobs>& a, const std::vector<PositionLogprobs>& b) {
  auto equal = [](const Logprob& x, const Logprob& y) {
    return x.token == y.token && x.logprob == y.logprob && x.rank == y.rank;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  });
}

void expect_same(const Answer& got, const Answer& expected) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.finish, expected.finish);
  EXPECT_EQ(got.stop_text, expected.stop_text);
  EXPECT_TRUE(same(got.logprobs, expected.logprobs));
  EXPECT_TRUE(same(got.prompt_logprobs, expected.prompt_logprobs));
}

Answer ask(Engine& engine, Collector& collector, Request request) {
  std::string id = request.id;
  engine.submit(std::move(request), collector.sink());
  return collector.wait(id);
}

// Each alone in a fresh engine: the reference.
std::vector<Answer> solo_answers(const std::vector<Request>& requests) {
  std::vector<Answer> answers;
  for (const Request& request : requests) {
    Collector collector;
    EngineOptions options = small_options();
    options.scheduler.max_num_batched_tokens = 512;
    options.scheduler.chunked_prefill = false;
    options.prefix_caching = false;
    Engine engine(fake(), options);
    answers.push_back(ask(engine, collector, request));
  }
  return answers;
}

void expect_empty(Engine& engine) {
  Stats stats = engine.stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_cache_usage, 0);
}

TEST(Engine, BatchedAnswersEqualSingleOnes) {
  std::vector<Request> requests = mixed_requests(48, 1);
  std::vector<Answer> expected = solo_answers(requests);
  struct Setting {
    bool chunked, prefix;
    int32_t tokens, blocks;
  };
  for (Setting setting : {Setting{true, true, 64, 256},
                          {true, false, 17, 256},
                          {false, true, 512, 256},
                          {false, false, 512, 256},
                          {true, true, 40, 20},
                          {true, false, 100, 18}}) {
    SCOPED_TRACE(cat(setting.chunked, setting.prefix, " ", setting.tokens, " ", setting.blocks));
    EngineOptions options = small_options();
    options.scheduler.chunked_prefill = setting.chunked;
    options.scheduler.max_num_batched_tokens = setting.tokens;
    options.prefix_caching = setting.prefix;
    options.num_blocks = setting.blocks;
    Collector collector;
    Engine engine(fake(), options);
    for (const Request& request : requests) engine.submit(request, collector.sink());
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(requests[i].id);
      expect_same(collector.wait(requests[i].id), expected[i]);
    }
    expect_empty(engine);
    Stats stats = engine.stats();
    if (setting.blocks < 19) {
      EXPECT_GT(stats.preemptions, 0);
    }
    if (setting.prefix) {
      EXPECT_GT(stats.cached_prompt_tokens, 0);
    }
  }
}

TEST(Engine, F128_AFullCachePreemptsAndRefusesOnlyWhatCannotFit) {
  EngineOptions options = small_options();
  options.num_blocks = 64;
  options.prefix_caching = false;
  options.scheduler.max_model_len = 4096;
  std::mt19937 random(3);
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    std::vector<int32_t> prompt = random_prompt(random, 1);
    while (prompt.size() < 100) prompt.push_back(static_cast<int32_t>(random() % kMaxOrdinary) + 1);
    requests.push_back(make_request(cat("r", i), prompt, 200));
    requests.back().sampling.ignore_eos = true;
  }
  std::vector<Answer> expected = solo_answers(requests);
  Collector collector;
  Engine engine(fake(), options);
  for (const Request& request : requests) engine.submit(request, collector.sink());
  try {
    engine.submit(make_request("big", std::vector<int32_t>(1025, 7)), collector.sink());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_EQ(error.field(), "prompt");
  }
  for (size_t i = 0; i < 8; ++i) {
    Answer answer = collector.wait(requests[i].id);
    expect_same(answer, expected[i]);
    EXPECT_EQ(answer.tokens.size(), 200u);
  }
  EXPECT_GT(engine.stats().preemptions, 0);
  expect_empty(engine);
}

TEST(Engine, UsageAndCachedTokens) {
  Collector collector;
  Engine engine(fake(), small_options());
  std::vector<int32_t> prompt(50, 9);
  Answer first = ask(engine, collector, make_request("a", prompt, 5));
  Answer again = ask(engine, collector, make_request("b", prompt, 5));
  EXPECT_EQ(first.usage.prompt_tokens, 50);
  EXPECT_EQ(first.usage.completion_tokens, static_cast<int32_t>(first.tokens.size()));
  EXPECT_EQ(first.usage.cached_tokens, 0);
  EXPECT_EQ(again.usage.cached_tokens, 48);
  EXPECT_EQ(again.tokens, first.tokens);
  Request salted = make_request("c", prompt, 5);
  salted.cache_salt = "other";
  EXPECT_EQ(ask(engine, collector, salted).usage.cached_tokens, 0);
  Stats stats = engine.stats();
  EXPECT_EQ(stats.prompt_tokens, 150);
  EXPECT_EQ(stats.cached_prompt_tokens, 48);
  EXPECT_EQ(stats.generation_tokens, static_cast<int64_t>(3 * first.tokens.size()));
  EXPECT_EQ(stats.time_to_first_token_s.size(), 3u);
  EXPECT_EQ(stats.e2e_s.size(), 3u);
  EXPECT_EQ(stats.inter_token_s.size(), 3 * (first.tokens.size() - 1));
  EXPECT_TRUE(engine.stats().e2e_s.empty());
}

TEST(Engine, EndTokensStopUnlessIgnored) {
  Collector collector;
  Engine engine(fake(), small_options());
  Request request = make_request("a", {5, 6, 7}, 6);
  request.sampling.logit_bias = {{kFakeEnd, 100.0f}};
  Answer answer = ask(engine, collector, request);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.tokens, std::vector<int32_t>{kFakeEnd});
  EXPECT_EQ(answer.text, "");
  EXPECT_FALSE(answer.stop_token);
  request.id = "b";
  request.sampling.min_tokens = 4;
  answer = ask(engine, collector, request);
  EXPECT_EQ(answer.tokens.size(), 5u);
  request.id = "c";
  request.sampling.min_tokens = 0;
  request.sampling.ignore_eos = true;
  answer = ask(engine, collector, request);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.tokens.size(), 6u);
}

TEST(Engine, PromptScoringAlone) {
  EngineOptions options = small_options();
  options.scheduler.max_num_batched_tokens = 16;
  Collector collector;
  Engine engine(fake(), options);
  std::vector<int32_t> prompt(150);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(1 + i * 7 % 90);
  Request request = make_request("a", prompt, 0);
  request.sampling.prompt_logprobs = 2;
  Answer answer = ask(engine, collector, request);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_TRUE(answer.tokens.empty());
  ASSERT_EQ(answer.prompt_logprobs.size(), prompt.size());
  EXPECT_TRUE(answer.prompt_logprobs[0].empty());
  for (size_t i = 1; i < prompt.size(); ++i) {
    ASSERT_EQ(answer.prompt_logprobs[i].size(), 3u);
    EXPECT_EQ(answer.prompt_logprobs[i][0].token, prompt[i]);
  }
  // The greedy answer to a prefix is what the scores call most likely.
  Answer next = ask(engine, collector, make_request("b", {prompt.begin(), prompt.begin() + 60}, 1));
  EXPECT_EQ(next.tokens[0], answer.prompt_logprobs[60][1].token);
}

TEST(Engine, F081_AnAbortFreesItsBlocksWithinAStep) {
  Collector collector;
  std::atomic<int> steps = 0;
  Engine engine(fake([&](auto) {
                  ++steps;
                  std::this_thread::sleep_for(std::chrono::milliseconds(2));
                }),
                small_options());
  Request endless = make_request("a", std::vector<int32_t>(100, 8), 400);
  endless.sampling.ignore_eos = true;
  engine.submit(endless, collector.sink());
  collector.wait_for_tokens("a", 3);
  EXPECT_GT(engine.stats().kv_cache_usage, 0);
  int before = steps;
  engine.abort("a");
  Answer answer = collector.wait("a");
  EXPECT_LE(steps - before, 2);  // the one under way, and at most one that had begun meanwhile
  EXPECT_EQ(answer.finish, FinishReason::kAbort);
  EXPECT_LT(answer.tokens.size(), 400u);
  expect_empty(engine);
  EXPECT_EQ(engine.stats().finished_abort, 1);
  engine.abort("a");
  engine.abort("never");
  endless.sampling.max_tokens = 3;
  EXPECT_EQ(ask(engine, collector, make_request("b", {4}, 3)).finish, FinishReason::kLength);
}

TEST(Engine, WaitingRequestsCanBeAborted) {
  EngineOptions options = small_options();
  options.scheduler.max_num_seqs = 1;
  Collector collector;
  Engine engine(fake([](auto) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }), options);
  engine.submit(make_request("long", {5}, 200), collector.sink());
  engine.submit(make_request("waits", {6}, 5), collector.sink());
  collector.wait_for_tokens("long", 2);
  engine.abort("waits");
  Answer answer = collector.wait("waits");
  EXPECT_EQ(answer.finish, FinishReason::kAbort);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_FALSE(collector.has_ended("long"));
}

TEST(Engine, F040_F042_NaNEndsItsRequestAlone) {
  std::vector<Request> requests = mixed_requests(10, 4);
  std::vector<Answer> expected = solo_answers(requests);
  Collector collector;
  Engine engine(fake(), small_options());
  std::vector<int32_t> poisoned(40, 9);
  poisoned[20] = kPoison;
  for (size_t i = 0; i < requests.size(); ++i) {
    engine.submit(requests[i], collector.sink());
    engine.submit(make_request(cat("bad", i), poisoned), collector.sink());
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    expect_same(collector.wait(requests[i].id), expected[i]);
    Answer bad = collector.wait(cat("bad", i));
    ASSERT_EQ(bad.finish, FinishReason::kError);
    EXPECT_EQ(bad.error->kind(), ErrorKind::kNonFinite);
  }
  EXPECT_EQ(engine.stats().non_finite, 10);
  // Blocks that held NaN serve others now, and nothing of a poisoned prompt is found again.
  for (Request& request : requests) request.id += "again";
  for (size_t i = 0; i < requests.size(); ++i) expect_same(ask(engine, collector, requests[i]), expected[i]);
  Answer clean = ask(engine, collector, make_request("clean", std::vector<int32_t>(40, 9), 1));
  EXPECT_EQ(clean.usage.cached_tokens, 0);
  Request scored = make_request("scored", poisoned);
  scored.sampling.prompt_logprobs = 1;
  EXPECT_EQ(ask(engine, collector, scored).error->kind(), ErrorKind::kNonFinite);
  expect_empty(engine);
  EXPECT_TRUE(engine.healthy());
}

TEST(Engine, F134_AStepThatThrowsFailsOnlyTheRequestAtFault) {
  constexpr int64_t kCursed = 94;
  std::vector<Request> requests = mixed_requests(12, 5);
  for (Request& request : requests) {
    request.sampling.logit_bias.push_back({static_cast<int32_t>(kCursed), -100.0f});
    std::erase(request.prompt, static_cast<int32_t>(kCursed));
    request.prompt.push_back(3);
  }
  std::vector<Answer> expected = solo_answers(requests);
  Collector collector;
  Engine engine(fake([](std::span<const int64_t> ids) {
                  for (int64_t id : ids)
                    if (id == kCursed) throw std::runtime_error("the cursed token\nand a backtrace");
                }),
                small_options());
  for (size_t i = 0; i < requests.size(); ++i) {
    engine.submit(requests[i], collector.sink());
    if (i % 4 == 1) engine.submit(make_request(cat("bad", i), {5, kCursed}), collector.sink());
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    expect_same(collector.wait(requests[i].id), expected[i]);
    if (i % 4 != 1) continue;
    Answer bad = collector.wait(cat("bad", i));
    ASSERT_EQ(bad.finish, FinishReason::kError);
    EXPECT_EQ(bad.error->kind(), ErrorKind::kInternal);
    EXPECT_STREQ(bad.error->what(), "a step of the model failed: the cursed token");
  }
  expect_empty(engine);
  EXPECT_TRUE(engine.healthy());
}

TEST(Engine, StepsThatKeepFailingShowInItsHealth) {
  Collector collector;
  std::atomic<bool> broken = true;
  Engine engine(fake([&](auto) {
                  if (broken) throw std::runtime_error("device lost");
                }),
                small_options());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(ask(engine, collector, make_request(cat("r", i), {5})).finish, FinishReason::kError);
  EXPECT_FALSE(engine.healthy());
  broken = false;
  EXPECT_EQ(ask(engine, collector, make_request("good", {5})).finish, FinishReason::kLength);
  EXPECT_TRUE(engine.healthy());
}

TEST(Engine, F127_OutOfMemoryMakesSmallerSteps) {
  std::vector<Request> requests = mixed_requests(16, 6);
  std::vector<Answer> expected = solo_answers(requests);
  Collector collector;
  Engine engine(fake([](std::span<const int64_t> ids) {
                  if (ids.size() > 10) throw std::bad_alloc();
                }),
                small_options());
  for (const Request& request : requests) engine.submit(request, collector.sink());
  for (size_t i = 0; i < requests.size(); ++i) expect_same(collector.wait(requests[i].id), expected[i]);
  expect_empty(engine);
  EXPECT_TRUE(engine.healthy());
}

TEST(Engine, F127_OutOfMemoryAloneEndsTheRequest) {
  Collector collector;
  std::atomic<bool> full = true;
  Engine engine(fake([&](auto) {
                  if (full) throw std::bad_alloc();
                }),
                small_options());
  Answer answer = ask(engine, collector, make_request("a", std::vector<int32_t>(50, 5)));
  ASSERT_EQ(answer.finish, FinishReason::kError);
  EXPECT_EQ(answer.error->kind(), ErrorKind::kOutOfMemory);
  full = false;
  EXPECT_EQ(ask(engine, collector, make_request("b", std::vector<int32_t>(50, 5))).finish,
            FinishReason::kLength);
  expect_empty(engine);
}

TEST(Engine, F087_RefusesBadRequestsAtTheDoor) {
  Collector collector;
  Engine engine(fake(), small_options());
  auto field = [&](Request request) -> std::string {
    try {
      engine.submit(std::move(request), collector.sink());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.field();
    }
    return "accepted";
  };
  EXPECT_EQ(field(make_request("a", {})), "prompt");
  EXPECT_EQ(field(make_request("a", {kFakeVocab})), "prompt");
  EXPECT_EQ(field(make_request("a", {-1})), "prompt");
  EXPECT_EQ(field(make_request("a", std::vector<int32_t>(512, 1))), "prompt");
  EXPECT_EQ(field(make_request("a", {1}, 512)), "max_tokens");
  EXPECT_EQ(field(make_request("a", {1}, std::numeric_limits<int32_t>::max())), "max_tokens");
  Request request = make_request("a", {1});
  request.sampling.logit_bias = {{kFakeVocab, 1.0f}};
  EXPECT_EQ(field(request), "logit_bias");
  request = make_request("a", {1});
  request.sampling.allowed_token_ids = {kFakeEnd, 5};
  request.sampling.stop_token_ids = {5};
  request.sampling.min_tokens = 1;
  EXPECT_EQ(field(request), "allowed_token_ids");
  expect_empty(engine);
}

TEST(Engine, QueueLimitAndEqualIds) {
  EngineOptions options = small_options();
  options.scheduler.max_num_seqs = 1;
  options.max_queue = 2;
  Collector collector;
  std::atomic<bool> hold = true;
  Engine engine(fake([&](auto) {
                  while (hold) std::this_thread::yield();
                }),
                options);
  auto kind = [&](const char* id) -> std::optional<ErrorKind> {
    try {
      engine.submit(make_request(id, {5}, 3), collector.sink());
    } catch (const Error& error) {
      return error.kind();
    }
    return std::nullopt;
  };
  EXPECT_EQ(kind("a"), std::nullopt);
  while (engine.stats().waiting > 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // "a" runs, held up in its first step
  EXPECT_EQ(kind("b"), std::nullopt);
  EXPECT_EQ(kind("b"), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind("c"), std::nullopt);
  EXPECT_EQ(kind("d"), ErrorKind::kUnavailable);
  EXPECT_EQ(engine.stats().waiting, 2);
  hold = false;
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(collector.wait(id).finish, FinishReason::kLength);
  EXPECT_EQ(kind("d"), std::nullopt);
  collector.wait("d");
  Collector second;  // an id is free again once its request has ended
  EXPECT_EQ(ask(engine, second, make_request("a", {5}, 3)).finish, FinishReason::kLength);
}

TEST(Engine, DrainLetsLiveRequestsEnd) {
  Collector collector;
  Engine engine(fake(), small_options());
  for (int i = 0; i < 20; ++i) engine.submit(make_request(cat("r", i), {5, 6}, 30), collector.sink());
  engine.drain(60);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(collector.has_ended(cat("r", i)));
  EXPECT_EQ(engine.stats().finished_abort, 0);
  try {
    engine.submit(make_request("late", {5}), collector.sink());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  }
}

TEST(Engine, DrainAbortsAtItsDeadline) {
  Collector collector;
  Engine engine(fake([](auto) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }),
                small_options());
  Request endless = make_request("a", {5}, 500);
  endless.sampling.ignore_eos = true;
  engine.submit(endless, collector.sink());
  collector.wait_for_tokens("a", 1);
  engine.drain(0.02);
  EXPECT_TRUE(collector.has_ended("a"));
  EXPECT_EQ(collector.wait("a").finish, FinishReason::kAbort);
}

TEST(Engine, DestructionEndsEveryRequest) {
  Collector collector;
  {
    Engine engine(fake([](auto) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }),
                  small_options());
    for (int i = 0; i < 30; ++i) engine.submit(make_request(cat("r", i), {5}, 400), collector.sink());
  }
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(collector.has_ended(cat("r", i)));
}

TEST(Engine, ASinkThatThrowsHarmsNobody) {
  Collector collector;
  Engine engine(fake(), small_options());
  engine.submit(make_request("rude", {5}, 5), [](Event) { throw std::runtime_error("not allowed"); });
  EXPECT_EQ(ask(engine, collector, make_request("a", {5}, 10)).finish, FinishReason::kLength);
  EXPECT_TRUE(engine.healthy());
}

// 64 clients at once, random arrivals, aborts, a cache far too small: every request ends exactly once,
// answers that ran to their end equal those given alone, and nothing is left.
TEST(Engine, Stress) {
  constexpr int kClients = 64, kPerClient = 12;
  std::vector<Request> kinds = mixed_requests(24, 8);
  std::vector<Answer> expected = solo_answers(kinds);
  EngineOptions options = small_options();
  options.num_blocks = 18;
  options.scheduler.max_num_seqs = 64;
  Collector collector;
  Engine engine(fake(), options);
  std::atomic<int> aborted = 0;
  auto client = [&](int number) {
    std::mt19937 random(static_cast<uint32_t>(number));
    for (int i = 0; i < kPerClient; ++i) {
      size_t kind = random() % kinds.size();
      Request request = kinds[kind];
      request.id = cat("c", number, "-", i);
      engine.submit(request, collector.sink());
      if (random() % 4 == 0) {
        collector.wait_for_tokens(request.id, random() % 4);
        engine.abort(request.id);
      }
      Answer answer = collector.wait(request.id);
      if (answer.finish == FinishReason::kAbort)
        ++aborted;
      else
        expect_same(answer, expected[kind]);
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < kClients; ++number) threads.emplace_back(client, number);
  for (std::thread& thread : threads) thread.join();
  Stats stats = engine.stats();
  EXPECT_EQ(stats.finished_abort, aborted);
  EXPECT_EQ(stats.finished_abort + stats.finished_length + stats.finished_stop, kClients * kPerClient);
  EXPECT_EQ(stats.finished_error, 0);
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_GT(stats.cached_prompt_tokens, 0);
  expect_empty(engine);
}

}  // namespace
}  // namespace quaver::llm
