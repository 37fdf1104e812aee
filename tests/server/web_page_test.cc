// The web page: every file of src/server/web/ is served, without a key, with its type, its tag and the page's
// policy.
#include "server/web_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The files of the source tree by the paths that browsers ask for.
std::map<std::string, std::string> files_of_the_tree() {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::path(QUAVER_TEST_DATA) / "../src/server/web")) {
    const std::string name = entry.path().filename();
    out[name == "index.html" ? "/" : "/web/" + name] = file_text(entry.path());
  }
  return out;
}

TEST(WebPage, ServesTheFilesOfTheTreeAndNoOthers) {
  TestServer t;
  const std::map<std::string, std::string> files = files_of_the_tree();
  EXPECT_EQ(files.size(), web_files().size());
  for (const auto& [path, content] : files) {
    Answer answer = t.request("GET", path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.body, content) << path;
  }
  for (const char* path : {"/web/", "/web/nope.js", "/web/index.html", "/web/../app.js", "/web/app.js/x"}) {
    Answer answer = t.request("GET", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(answer.parsed().at("error").at("type"), "Not Found");
  }
  EXPECT_EQ(t.request("GET", "/web").status, 404);
  EXPECT_EQ(t.request("POST", "/").status, 405);
}

TEST(WebPage, EveryFileThatThePageNamesIsThere) {
  const std::string page = files_of_the_tree().at("/");
  size_t named = 0;
  for (size_t at = page.find("\"web/"); at != std::string::npos; at = page.find("\"web/", at + 1), ++named) {
    const std::string path = "/" + page.substr(at + 1, page.find('"', at + 1) - at - 1);
    EXPECT_NE(std::ranges::find(web_files(), path, &WebFile::path), web_files().end()) << path;
  }
  EXPECT_EQ(named, 4u);
}

TEST(WebPage, SaysWhatEachFileIs) {
  TestServer t;
  for (auto [path, type] : {std::pair{"/", "text/html; charset=utf-8"},
                            {"/web/app.js", "text/javascript; charset=utf-8"},
                            {"/web/style.css", "text/css; charset=utf-8"},
                            {"/web/icon.svg", "image/svg+xml"}}) {
    Answer answer = t.request("GET", path);
    EXPECT_EQ(answer.headers.at("content-type"), type) << path;
    EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.headers.at("cache-control"), "no-cache");
    const std::string policy = answer.headers.at("content-security-policy");
    EXPECT_TRUE(policy.starts_with("default-src 'self'; img-src 'self' data: blob:;")) << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
  }
}

TEST(WebPage, IsNotSentAgainToThoseWhoHaveIt) {
  TestServer t;
  HttpClient client(t.server.port());
  Answer first = client.request("GET", "/");
  const std::string tag = first.headers.at("etag");
  EXPECT_EQ(tag, entity_tag(first.body));
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    Answer again = client.request("GET", "/", "", cat("If-None-Match: ", known, "\r\n"));
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.headers.at("etag"), tag);
    EXPECT_EQ(again.body, "");
  }
  EXPECT_EQ(client.request("GET", "/", "", "If-None-Match: \"other\"\r\n").status, 200);
}

// FNV-1a's published values of the empty text and of "foobar".
TEST(WebPage, TagsDependOnContentAlone) {
  EXPECT_EQ(entity_tag(""), "\"cbf29ce484222325\"");
  EXPECT_EQ(entity_tag("foobar"), "\"85944171f73967e8\"");
}

TEST(WebPage, AnswersHead) {
  TestServer t;
  HttpClient client(t.server.port());
  Answer head = client.request("HEAD", "/");
  EXPECT_EQ(head.status, 200);
  Answer whole = client.request("GET", "/");  // HEAD left no body behind
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(whole.body.size()));
  EXPECT_EQ(head.headers.at("etag"), whole.headers.at("etag"));
}

TEST(WebPage, NeedsNoKeyAndNoModel) {
  ServerOptions options = test_options();
  options.api_keys = {"secret"};
  Server server(std::move(options));
  server.start();  // and nothing attached
  for (const WebFile& file : web_files())
    EXPECT_EQ(HttpClient(server.port()).request("GET", file.path).status, 200) << file.path;
  EXPECT_EQ(HttpClient(server.port()).request("GET", "/web/nope").status, 404);
  EXPECT_EQ(HttpClient(server.port()).request("GET", "/v1/models").status, 401);
}

}  // namespace
}  // namespace quaver::server::testing
