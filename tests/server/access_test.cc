// API keys on every route, and CORS.
#include <gtest/gtest.h>

#include "server/router.h"
#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

ServerOptions with_keys() {
  ServerOptions options = test_options();
  options.api_keys = {"first-key", "second-key"};
  return options;
}

std::string concrete(std::string_view pattern) {
  std::string path(pattern);
  if (size_t at = path.find("{...}"); at != std::string::npos) path.replace(at, 5, "x");
  if (size_t at = path.find("{}"); at != std::string::npos) path.replace(at, 2, "x");
  return path;
}

// F075
TEST(Access, EveryRouteButHealthAndMetricsNeedsTheKey) {
  TestServer t(with_keys());
  for (const Route& route : all_routes()) {
    bool open = route.path == "/health" || route.path == "/ping" || route.path == "/metrics" ||
                route.path == "/" || route.path.starts_with("/web/");  // the page asks for the key itself
    for (const char* header :
         {"", "Authorization: Bearer wrong-key\r\n", "Authorization: Bearer first-key2\r\n",
          "Authorization: Bearer first-ke\r\n", "Authorization: Bearer \r\n", "Authorization: first-key\r\n",
          "Authorization: Basic first-key\r\n", "X-Api-Key: first-key\r\n",
          "Authorization: Bearer x\r\nAuthorization: Bearer first-key\r\n"}) {
      Answer answer = t.request(route.method, concrete(route.path), "", header);
      EXPECT_EQ(answer.status == 401, !open) << route.path << header << answer.status;
      if (open) continue;
      json error = answer.parsed().at("error");
      EXPECT_EQ(error.at("code"), 401);
      EXPECT_EQ(error.at("type"), "Unauthorized");
    }
    for (const char* header : {"Authorization: Bearer first-key\r\n", "authorization: bearer second-key\r\n"})
      EXPECT_NE(t.request(route.method, concrete(route.path), "", header).status, 401) << route.path;
  }
}

TEST(Access, OddSpellingsOfAPathAreNoWayAround) {
  TestServer t(with_keys());
  for (const char* path :
       {"//v1/models", "/v1/../v1/models", "/%761/models", "/v1%2Fmodels", "/v1/models.", "/nope",
        "/health/../v1/models", "http://x/v1/models", "/health/", "/v1/models?x=/health", "/metrics/x"})
    EXPECT_EQ(t.request("GET", path).status, 401) << path;
  for (const char* method : {"HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"})
    EXPECT_EQ(t.request(method, "/v1/models").status, 401) << method;
  HttpClient old(t.server.port());
  old.send("GET /v1/models HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_answer().status, 401);
  HttpClient preflight(t.server.port());
  EXPECT_EQ(
      preflight
          .request("OPTIONS", "/v1/models", "", "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n")
          .status,
      401);
}

TEST(Access, BindsToLoopbackByDefault) { EXPECT_EQ(ServerOptions().http.host, "127.0.0.1"); }

TEST(Access, LetsAllowedOriginsIn) {
  ServerOptions options = with_keys();
  options.allowed_origins = {"https://good.example"};
  TestServer t(std::move(options));
  const char* ask =
      "Origin: https://good.example\r\nAccess-Control-Request-Method: "
      "POST\r\nAccess-Control-Request-Headers: authorization\r\n";
  Answer preflight = t.request("OPTIONS", "/v1/chat/completions", "", ask);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "authorization");
  Answer answer =
      t.request("GET", "/version", "", "Origin: https://good.example\r\nAuthorization: Bearer first-key\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(answer.headers.at("vary"), "Origin");
  answer =
      t.request("GET", "/version", "", "Origin: https://evil.example\r\nAuthorization: Bearer first-key\r\n");
  EXPECT_FALSE(answer.headers.contains("access-control-allow-origin"));
}

TEST(Access, AnyOriginWhenToldSoAndNoneOtherwise) {
  ServerOptions options = test_options();
  options.allowed_origins = {"*"};
  TestServer any(std::move(options));
  EXPECT_EQ(
      any.request("GET", "/version", "", "Origin: http://x\r\n").headers.at("access-control-allow-origin"),
      "*");
  TestServer none;
  EXPECT_FALSE(none.request("GET", "/version", "", "Origin: http://x\r\n")
                   .headers.contains("access-control-allow-origin"));
}

}  // namespace
}  // namespace quaver::server::testing
