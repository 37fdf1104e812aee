// Repeats of a POST under one Idempotency-Key: computed once, whoever stays or leaves.
#include "server/idempotency.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "server/picture_server.h"

namespace quaver::server::testing {
namespace {

constexpr const char* kKey = "Idempotency-Key: order-1\r\n";

struct CountingServer : TestServer {
  CountingServer() {
    pipeline.script = [this](const llm::Request&) {
      ++computed;
      return script_of("once");
    };
  }
  Answer complete_with(std::string_view headers, json extra = json::object()) {
    json body = {{"prompt", "hi"}, {"max_tokens", 100}};
    body.update(extra);
    return post("/v1/completions", body, headers);
  }
  std::atomic<int> computed{0};
};

TEST(F096IdempotencyKey, ARepeatGetsTheFirstResult) {
  CountingServer t;
  const Answer first = t.complete_with(kKey), second = t.complete_with(kKey);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(first.body, second.body);  // its id too
  EXPECT_EQ(t.computed, 1);
  EXPECT_FALSE(first.headers.contains("idempotent-replayed"));
  EXPECT_EQ(second.headers.at("idempotent-replayed"), "true");
  EXPECT_EQ(t.complete_with("").status, 200);
  EXPECT_EQ(t.computed, 2);
}

TEST(F096IdempotencyKey, BelongsToItsSenderRouteAndBody) {
  CountingServer t;
  EXPECT_EQ(t.complete_with(kKey).status, 200);
  const Answer other = t.complete_with(kKey, {{"max_tokens", 7}});
  EXPECT_EQ(other.status, 422);
  EXPECT_NE(other.body.find("another body"), std::string::npos);
  EXPECT_EQ(t.complete_with(cat(kKey, "Authorization: Bearer somebody\r\n"), {{"max_tokens", 7}}).status,
            200);
  json chat = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(t.post("/v1/chat/completions", chat, kKey).status, 200);
  EXPECT_EQ(t.complete_with("Idempotency-Key: \r\n").status, 400);
  EXPECT_EQ(t.complete_with(cat("Idempotency-Key: ", std::string(256, 'k'), "\r\n")).status, 400);
}

TEST(F096IdempotencyKey, WhatIsWrongStaysWrongAndWhatWasBusyIsTriedAgain) {
  CountingServer t;
  EXPECT_EQ(t.complete_with(kKey, {{"max_tokens", -5}}).status, 400);
  EXPECT_EQ(t.complete_with(kKey, {{"max_tokens", -5}}).headers.at("idempotent-replayed"), "true");
  t.pipeline.queue_limit = 0;
  EXPECT_EQ(t.complete_with("Idempotency-Key: busy\r\n").status, 429);
  t.pipeline.queue_limit = 100;
  const Answer again = t.complete_with("Idempotency-Key: busy\r\n");
  EXPECT_EQ(again.status, 200);
  EXPECT_FALSE(again.headers.contains("idempotent-replayed"));
}

TEST(F096IdempotencyKey, AStreamIsComputedForEachThatAsks) {
  CountingServer t;
  for (int i = 1; i <= 2; ++i) {
    const Answer answer = t.complete_with(kKey, {{"stream", true}});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(events_of(answer.body).back(), "[DONE]");
    EXPECT_EQ(t.computed, i);
  }
}

// A client gives up after a while and asks again; the first computation serves the second try.
TEST(F096IdempotencyKey, AJobGoesOnForTheNextTry) {
  PictureServer t;
  t.pipeline.step = std::chrono::milliseconds(50);
  const std::string body = json{{"prompt", "a red circle"}, {"seed", 7}}.dump();
  const std::string request =
      cat("POST /v1/images/generations HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n", kKey,
          "Content-Length: ", body.size(), "\r\n\r\n", body);
  {
    HttpClient impatient(t.server.port());
    impatient.send(request);
    ASSERT_TRUE(t.pipeline.wait_for_live(1, 10));
  }
  const Answer answer = t.post("/v1/images/generations", json::parse(body), kKey);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("idempotent-replayed"), "true");
  EXPECT_EQ(t.pipeline.seen().size(), 1u);
}

TEST(F096IdempotencyKey, AFormMayDrawANewBoundary) {
  PictureServer t;
  const auto edit = [&](const std::string& boundary) {
    std::string form = form_of(
        {{"prompt", "a cat", ""}, {"image", png_of(Image{32, 32, std::vector<uint8_t>(3072, 9)}), "a.png"}});
    for (size_t at; (at = form.find(kBoundary)) != std::string::npos;)
      form.replace(at, std::strlen(kBoundary), boundary);
    HttpClient client(t.server.port());
    client.send(cat("POST /v1/images/edits HTTP/1.1\r\nHost: test\r\n", kKey,
                    "Content-Type: multipart/form-data; boundary=", boundary,
                    "\r\nContent-Length: ", form.size(), "\r\n\r\n", form));
    return client.read_answer();
  };
  EXPECT_EQ(edit("first").status, 200);
  EXPECT_EQ(edit("second").headers.at("idempotent-replayed"), "true");
}

struct RecordingReply : Reply {
  void add_header(std::string name, std::string) override { replayed |= name == "Idempotent-Replayed"; }
  void send(HttpResponse response) override { sent.push_back(std::move(response)); }
  void start_stream(std::string) override {}
  void write(std::string) override {}
  void end() override {}
  void on_gone(std::function<void()>) override {}
  void post(std::function<void()> task) override { task(); }
  std::vector<HttpResponse> sent;
  bool replayed = false;
};

// Answers a request where it is to be computed; true where an earlier one answers it.
bool replays(IdempotentAnswers& answers, const std::string& key, const std::string& body = "x") {
  HttpRequest request;
  request.method = "POST";
  request.headers = {{"idempotency-key", key}};
  request.body = body;
  auto reply = std::make_shared<RecordingReply>();
  if (std::shared_ptr<Reply> kept = answers.admit(request, reply)) kept->send({.body = body});
  EXPECT_EQ(reply->sent.size(), 1u);
  return reply->replayed;
}

TEST(F096IdempotencyKey, OldAnswersMakeRoomByNumberSizeAndAge) {
  using std::chrono::seconds;
  auto few = std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{.max_count = 2});
  EXPECT_FALSE(replays(*few, "a"));
  EXPECT_FALSE(replays(*few, "b"));
  EXPECT_TRUE(replays(*few, "a"));
  EXPECT_FALSE(replays(*few, "c"));
  EXPECT_FALSE(replays(*few, "a"));
  EXPECT_TRUE(replays(*few, "c"));
  auto small = std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{.max_bytes = 5000});
  EXPECT_FALSE(replays(*small, "a", std::string(4000, 'x')));
  EXPECT_TRUE(replays(*small, "a", std::string(4000, 'x')));
  EXPECT_FALSE(replays(*small, "b", std::string(4000, 'x')));
  EXPECT_FALSE(replays(*small, "a", std::string(4000, 'x')));
  auto brief = std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{.keep = seconds(-1)});
  EXPECT_FALSE(replays(*brief, "a"));
  EXPECT_FALSE(replays(*brief, "a"));
}

// A handler that goes away without an answer leaves nothing behind that others would wait for.
TEST(F096IdempotencyKey, AJobWithoutAnAnswerIsForgotten) {
  auto answers = std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{});
  HttpRequest request;
  request.method = "POST";
  request.headers = {{"idempotency-key", "k"}};
  EXPECT_NE(answers->admit(request, std::make_shared<RecordingReply>()), nullptr);
  EXPECT_NE(answers->admit(request, std::make_shared<RecordingReply>()), nullptr);
}

// A handler may fail behind the answer, or in the middle of a stream.
TEST(F096IdempotencyKey, OnlyTheFirstAnswerCounts) {
  auto answers = std::make_shared<IdempotentAnswers>(IdempotentAnswers::Limits{.max_count = 1});
  HttpRequest request;
  request.method = "POST";
  for (const bool streams : {false, true}) {
    request.headers = {{"idempotency-key", streams ? "stream" : "answer"}};
    auto reply = std::make_shared<RecordingReply>();
    const std::shared_ptr<Reply> kept = answers->admit(request, reply);
    streams ? kept->start_stream("text/event-stream") : kept->send({.body = "x"});
    kept->send({.status = 400, .body = "late"});
    EXPECT_EQ(reply->sent.size(), streams ? 0u : 1u);
  }
  EXPECT_FALSE(replays(*answers, "a"));
  EXPECT_FALSE(replays(*answers, "b"));  // the older answers make room
  EXPECT_TRUE(replays(*answers, "b"));
}

}  // namespace
}  // namespace quaver::server::testing
