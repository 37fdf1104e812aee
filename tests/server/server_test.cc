// The server as a whole under load and through its life: loading, crowds, disconnects, draining, stopping.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

Script endless() {
  Script script = script_of("word ");
  return script;
}

json long_request(bool stream) {
  return {{"prompt", "go"}, {"max_tokens", 4000}, {"ignore_eos", true}, {"stream", stream}};
}

TEST(Server, Answers503WhileLoading) {
  FakePipeline pipeline;
  Server server(test_options());
  server.start();
  HttpClient client(server.port());
  EXPECT_EQ(client.request("GET", "/health").status, 503);
  Answer answer = client.request("POST", "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(answer.parsed().at("error").at("type"), "Service Unavailable");
  EXPECT_EQ(client.request("GET", "/v1/models").status, 503);
  EXPECT_EQ(client.request("GET", "/metrics").status, 200);
  server.attach(pipeline);
  EXPECT_EQ(client.request("GET", "/health").status, 200);
  EXPECT_EQ(client.request("POST", "/v1/completions", R"({"prompt":"x"})").status, 200);
}

TEST(Server, ServesSixtyFourClientsAtOnce) {
  TestServer t;
  t.pipeline.script = [](const llm::Request& request) {
    return script_of(FakeTokenizer().decode(request.prompt, true));
  };
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i)
    clients.emplace_back([&, i] {
      HttpClient client(t.server.port());
      for (int k = 0; k < 4; ++k) {
        json body = {{"prompt", cat("client ", i, " turn ", k)}, {"max_tokens", 100}, {"stream", k % 2 == 1}};
        Answer answer = client.request("POST", "/v1/completions", body.dump());
        std::string text;
        if (k % 2 == 0) {
          text = answer.parsed().at("choices").at(0).at("text");
        } else {
          for (const std::string& event : events_of(answer.body))
            if (event != "[DONE]")
              text += json::parse(event).at("choices").at(0).at("text").get<std::string>();
        }
        if (text == body["prompt"].get<std::string>()) ++good;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 256);
  EXPECT_EQ(t.pipeline.live(), 0u);
}

// F081
TEST(Server, AClientThatLeavesFreesItsRequest) {
  for (bool stream : {false, true}) {
    TestServer t;
    t.pipeline.script = [](const llm::Request&) { return endless(); };
    t.pipeline.step = std::chrono::milliseconds(1);
    HttpClient client(t.server.port());
    client.send(HttpClient::format("POST", "/v1/completions", long_request(stream).dump()));
    while (t.pipeline.live() == 0) std::this_thread::yield();
    if (stream) {
      EXPECT_TRUE(client.receive());
    }
    auto start = std::chrono::steady_clock::now();
    client.close();
    EXPECT_TRUE(t.pipeline.wait_until_empty(5));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    EXPECT_EQ(t.pipeline.aborted(), 1);
  }
}

TEST(Server, AllSamplesOfALostClientAreFreed) {
  TestServer t;
  t.pipeline.script = [](const llm::Request&) { return Script{.pieces = {}, .silent = true}; };
  HttpClient client(t.server.port());
  json body = long_request(false);
  body["n"] = 5;
  client.send(HttpClient::format("POST", "/v1/completions", body.dump()));
  while (t.pipeline.live() < 5) std::this_thread::yield();
  client.reset();
  EXPECT_TRUE(t.pipeline.wait_until_empty(5));
  EXPECT_EQ(t.pipeline.aborted(), 5);
}

// Issue 3, must show 5.
TEST(Server, AThousandRequestsWithRandomDisconnectsLeaveNothingBehind) {
  TestServer t;
  t.pipeline.script = [](const llm::Request&) { return endless(); };
  std::atomic<int> done{0};
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < 16; ++i)
    clients.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int k = 0; k < 63; ++k) {
        HttpClient client(t.server.port());
        bool stay = random() % 4 == 0;
        json body = {{"prompt", "go"},
                     {"ignore_eos", true},
                     {"stream", random() % 2 == 0},
                     {"n", 1 + random() % 3},
                     {"max_tokens", stay ? 20 : 4000}};
        std::string bytes = HttpClient::format("POST", "/v1/completions", body.dump());
        if (!stay && random() % 5 == 0)
          bytes.resize(random() % bytes.size());  // gone in the middle of the request
        client.send(bytes);
        if (stay) {
          done += client.read_answer().status == 200;
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          random() % 2 ? client.close() : client.reset();
          ++done;
        }
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(done, 1008);
  EXPECT_TRUE(t.pipeline.wait_until_empty(10));
  for (int i = 0; i < 100 && t.request("GET", "/load").parsed().at("server_load") != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(t.request("GET", "/load").parsed().at("server_load"), 0);
  EXPECT_EQ(t.chat().status, 200);
}

// F135
TEST(Server, AFullQueueIs429) {
  TestServer t;
  t.pipeline.queue_limit = 1;
  t.pipeline.script = [](const llm::Request&) { return Script{.pieces = {}, .silent = true}; };
  HttpClient first(t.server.port());
  first.send(HttpClient::format("POST", "/v1/completions", R"({"prompt":"x"})"));
  while (t.pipeline.live() == 0) std::this_thread::yield();
  Answer answer = t.complete();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
}

// F137
TEST(Server, ServiceRoutesDoNotWaitForWork) {
  ServerOptions options = test_options();
  options.worker_threads = 1;
  TestServer t(std::move(options));
  t.pipeline.check = [](const llm::Request&) { std::this_thread::sleep_for(std::chrono::seconds(1)); };
  HttpClient busy(t.server.port());
  busy.send(HttpClient::format("POST", "/v1/completions", R"({"prompt":"x"})"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (const char* path : {"/health", "/v1/models", "/metrics", "/load"}) {
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(t.request("GET", path).status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200)) << path;
  }
  EXPECT_EQ(busy.read_answer().status, 200);
}

TEST(Server, TheFirstSignalDrains) {
  TestServer t;
  t.pipeline.step = std::chrono::milliseconds(20);
  std::thread waiter([&] { t.server.wait(); });
  HttpClient client(t.server.port());
  client.send(
      HttpClient::format("POST", "/v1/completions", R"({"prompt":"x","max_tokens":19,"stream":true})"));
  EXPECT_TRUE(client.receive());
  t.server.terminate();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Answer refused = t.complete();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(t.post("/tokenize", {{"prompt", "x"}}).status, 503);
  EXPECT_EQ(t.request("GET", "/health").status, 503);
  Answer answer = client.read_answer();
  EXPECT_EQ(events_of(answer.body).back(), "[DONE]");
  waiter.join();
  EXPECT_THROW(HttpClient(t.server.port()), std::runtime_error);
}

TEST(Server, TheSecondSignalStops) {
  TestServer t;
  t.pipeline.script = [](const llm::Request&) { return Script{.pieces = {}, .silent = true}; };
  std::thread waiter([&] { t.server.wait(); });
  HttpClient client(t.server.port());
  client.send(HttpClient::format("POST", "/v1/completions", R"({"prompt":"x"})"));
  while (t.pipeline.live() == 0) std::this_thread::yield();
  auto start = std::chrono::steady_clock::now();
  t.server.terminate();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  t.server.terminate();
  waiter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(t.pipeline.live(), 0u);
}

TEST(Server, AbortsWhatADrainLeaves) {
  ServerOptions options = test_options();
  options.drain_timeout_s = 0.2;
  TestServer t(std::move(options));
  t.pipeline.script = [](const llm::Request&) { return Script{.pieces = {}, .silent = true}; };
  std::thread waiter([&] { t.server.wait(); });
  HttpClient client(t.server.port());
  client.send(HttpClient::format("POST", "/v1/completions", R"({"prompt":"x"})"));
  while (t.pipeline.live() == 0) std::this_thread::yield();
  t.server.terminate();
  Answer answer = client.read_answer();
  waiter.join();
  EXPECT_EQ(answer.parsed().at("choices").at(0).at("finish_reason"), "abort");
}

TEST(Server, RefusesImpossibleOptions) {
  auto refused = [](ServerOptions options) { EXPECT_THROW(Server{std::move(options)}, Error); };
  ServerOptions options = test_options();
  options.api_keys = {""};
  refused(options);
  options = test_options();
  options.worker_threads = 0;
  refused(options);
  for (const json& defaults : {json::array(), json{{"top_x", 1}}, json{{"top_p", "high"}}}) {
    options = test_options();
    options.default_sampling_params = defaults;
    refused(options);
  }
  options = test_options();
  options.tool_call_parser = "nonesuch";
  FakePipeline pipeline;
  Server server(options);
  EXPECT_THROW(server.attach(pipeline), Error);
}

}  // namespace
}  // namespace quaver::server::testing
