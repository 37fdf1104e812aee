// The other routes: tokenize, models, health, version, load, metrics; unknown ones and those the model lacks.
#include <gtest/gtest.h>

#include "server/router.h"
#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

TEST(Routes, TokenizeAndBack) {
  TestServer t;
  json out = t.post("/tokenize", {{"prompt", "hi"}, {"return_token_strs", true}}).parsed();
  EXPECT_EQ(out, json({{"count", 3},
                       {"max_model_len", 4096},
                       {"tokens", {256, 104, 105}},
                       {"token_strs", {"<s>", "h", "i"}}}));
  out = t.post("/tokenize", {{"prompt", "hi"}, {"add_special_tokens", false}}).parsed();
  EXPECT_EQ(out.at("tokens"), json({104, 105}));
  EXPECT_TRUE(out.at("token_strs").is_null());
  EXPECT_EQ(t.post("/detokenize", {{"tokens", {256, 104, 105}}}).parsed(), json({{"prompt", "<s>hi"}}));
}

TEST(Routes, TokenizesAChatAsChatDoes) {
  TestServer t;
  json messages = {{{"role", "user"}, {"content", "hi <|im_end|>"}}};
  json tokens = t.post("/tokenize", {{"messages", messages}}).parsed().at("tokens");
  t.chat({{"messages", messages}});
  EXPECT_EQ(tokens, json(t.pipeline.seen().at(0).prompt));
  EXPECT_EQ(t.post("/tokenize", {{"messages", messages}, {"prompt", "x"}}).status, 400);
  EXPECT_EQ(t.post("/tokenize", json::object()).parsed().at("error").at("param"), "body.prompt");
}

TEST(Routes, DetokenizeRefusesWhatIsNoToken) {
  TestServer t;
  EXPECT_EQ(t.post("/detokenize", {{"tokens", {512}}}).parsed().at("error").at("param"), "body.tokens.0");
  EXPECT_EQ(t.post("/detokenize", json::object()).status, 400);
  EXPECT_EQ(t.post("/detokenize", {{"tokens", "x"}}).status, 400);
}

TEST(Routes, ListsTheModelUnderEachName) {
  TestServer t;
  json out = t.request("GET", "/v1/models").parsed();
  EXPECT_EQ(out.at("object"), "list");
  ASSERT_EQ(out.at("data").size(), 2u);
  const json& model = out.at("data").at(0);
  EXPECT_EQ(model.at("id"), "fake");
  EXPECT_EQ(model.at("owned_by"), "quaver");
  EXPECT_EQ(model.at("max_model_len"), 4096);
  EXPECT_EQ(model.at("capabilities"), json({"chat", "completions"}));
  EXPECT_EQ(model.at("quantization"), json({{"llm", "none"}}));
  EXPECT_EQ(t.request("GET", "/v1/models/alias").parsed().at("id"), "alias");
  EXPECT_EQ(t.request("GET", "/v1/models/other").status, 404);
}

// F090
TEST(Routes, RefusesUnknownModelNamesEverywhere) {
  TestServer t;
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    json body = {{"model", "does-not-exist"}, {"prompt", "x"}, {"tokens", {1}}};
    if (std::string_view(path).find("chat") != std::string_view::npos)
      body["messages"] = {{{"role", "user"}, {"content", "x"}}};
    if (std::string_view(path) == "/tokenize") body.erase("tokens");
    for (auto [name, status] : {std::pair<json, int>{"does-not-exist", 404},
                                {"Fake", 404},
                                {"alias", 200},
                                {nullptr, 200},
                                {"/models/fake", 200}}) {
      body["model"] = name;
      Answer answer = t.post(path, body);
      EXPECT_EQ(answer.status, status) << path << name << answer.body;
      if (status == 200) continue;
      json error = answer.parsed().at("error");
      EXPECT_EQ(error.at("type"), "NotFoundError");
      EXPECT_EQ(error.at("param"), "model");
      EXPECT_NE(error.at("message").get<std::string>().find("model_not_found"), std::string::npos);
    }
  }
}

// F091
TEST(Routes, NamesTheAbilityThatIsMissing) {
  TestServer t;
  for (auto [method, path, ability] : {std::tuple{"POST", "/v1/images/generations", "image_generation"},
                                       {"POST", "/v1/videos", "video_generation"},
                                       {"GET", "/v1/videos/x/content", "video_generation"},
                                       {"POST", "/v1/audio/speech", "speech"},
                                       {"DELETE", "/v1/audio/voices/x", "speech"},
                                       {"POST", "/v1/embeddings", "embeddings"}}) {
    Answer answer = t.request(method, path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_NE(answer.body.find(ability), std::string::npos) << answer.body;
    EXPECT_NE(answer.body.find("chat, completions"), std::string::npos) << answer.body;
  }
  t.pipeline.mutable_card().capabilities = {"speech"};
  EXPECT_EQ(t.chat().status, 404);
  EXPECT_EQ(t.post("/tokenize", {{"prompt", "x"}}).status, 404);
}

// F028
TEST(Routes, ChatsWithoutATemplateAreRefusedAndSaySo) {
  TestServer t;
  t.pipeline.mutable_card().capabilities = {"completions"};
  Answer answer = t.chat();
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("no chat template"), std::string::npos) << answer.body;
}

TEST(Routes, UnknownPathsAndWrongMethodsGetTheErrorObject) {
  TestServer t;
  for (const char* path :
       {"/v1", "/v1/model", "//v1/models", "/v1/models.", "/v1/chat/completions/", "/nope"}) {
    Answer answer = t.request("GET", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(answer.parsed().at("error").at("code"), 404);
  }
  Answer answer = t.request("GET", "/v1/chat/completions");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.parsed().at("error").at("type"), "Method Not Allowed");
  EXPECT_EQ(answer.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(t.request("PATCH", "/v1/models").status, 405);
}

TEST(Routes, AnswersHeadAndOptions) {
  TestServer t;
  HttpClient client(t.server.port());
  Answer head = client.request("HEAD", "/v1/models");
  EXPECT_EQ(head.status, 200);
  EXPECT_GT(std::stoi(head.headers.at("content-length")), 100);
  EXPECT_EQ(client.request("GET", "/version").parsed(),
            json({{"version", "1.2.3"}}));  // HEAD left no body behind
  Answer options = client.request("OPTIONS", "/v1/models");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "GET, HEAD, OPTIONS");
}

TEST(Routes, TellsItsHealth) {
  TestServer t;
  for (const char* path : {"/health", "/ping"}) {
    EXPECT_EQ(t.request("GET", path).parsed(), json({{"status", "healthy"}}));
    t.pipeline.is_healthy = false;
    Answer sick = t.request("GET", path);
    EXPECT_EQ(sick.status, 503);
    EXPECT_EQ(sick.parsed(), json({{"status", "unhealthy"}}));
    t.pipeline.is_healthy = true;
  }
}

TEST(Routes, CountsItsLoad) {
  TestServer t;
  EXPECT_EQ(t.request("GET", "/load").parsed(), json({{"server_load", 0}}));
  t.pipeline.script = [](const llm::Request&) { return Script{.pieces = {}, .silent = true}; };
  HttpClient client(t.server.port());
  client.send(HttpClient::format("POST", "/v1/completions", R"({"prompt":"x"})"));
  while (t.pipeline.live() == 0) std::this_thread::yield();
  EXPECT_EQ(t.request("GET", "/load").parsed(), json({{"server_load", 1}}));
}

TEST(Routes, MetricsUseTheKnownNames) {
  TestServer t;
  t.chat();
  t.chat({{"max_tokens", 2}});
  std::string page = t.request("GET", "/metrics").body;
  const std::string labels = R"({model_name="fake",engine="0",stage="0",replica="0")";
  for (const std::string& line : {"vllm:num_requests_running" + labels + "} 0",
                                  "vllm:request_success_total" + labels + ",finished_reason=\"stop\"} 1",
                                  "vllm:request_success_total" + labels + ",finished_reason=\"length\"} 1",
                                  "vllm:generation_tokens_total" + labels + "} 21",
                                  "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"0.02\"} 0",
                                  "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"0.04\"} 2",
                                  "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"+Inf\"} 2",
                                  "vllm:time_to_first_token_seconds_count" + labels + "} 2",
                                  "quaver:http_responses_total" + labels + ",code=\"200\"} 2"})
    EXPECT_NE(page.find(line + "\n"), std::string::npos) << line << "\n" << page;
  for (const char* name :
       {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total",
        "vllm:num_preemptions_total", "vllm:inter_token_latency_seconds_sum",
        "vllm:e2e_request_latency_seconds_count", "quaver:requests_cancelled_total"})
    EXPECT_NE(page.find(cat("\n", name, "{")), std::string::npos) << name;
  EXPECT_EQ(t.request("GET", "/metrics").body.find("seconds_count" + labels + "} 4"), std::string::npos);
}

TEST(Router, FindsCapturesAndMethods) {
  EXPECT_EQ(find_route(all_routes(), "GET", "/v1/models/a/b").captures, std::vector<std::string>{"a/b"});
  EXPECT_EQ(find_route(all_routes(), "GET", "/v1/videos/7/content").captures, std::vector<std::string>{"7"});
  EXPECT_EQ(find_route(all_routes(), "GET", "/v1/videos/").rows.size(), 0u);
  EXPECT_EQ(find_route(all_routes(), "GET", "/v1/videos/a/b").rows.size(), 0u);
  EXPECT_EQ(find_route(all_routes(), "PUT", "/v1/videos/a").allowed, "GET, HEAD, DELETE");
}

}  // namespace
}  // namespace quaver::server::testing
