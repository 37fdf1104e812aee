// What file: URLs and the operator's lists allow. Remote answers are tried end to end
// (e2e/media_url_test.py).
#include "server/media_fetch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/message_socket.h"

namespace quaver::server {
namespace {

namespace fs = std::filesystem;

class F068Media : public ::testing::Test {
 protected:
  F068Media() {
    fs::create_directories(folder_ / "open" / "deep");
    write("open/a b.png", "picture"), write("open/deep/c.png", "deep"), write("secret", "secret");
    fs::create_symlink(folder_ / "secret", folder_ / "open" / "link.png");
    ::mkfifo((folder_ / "open" / "pipe").c_str(), 0600);
  }
  ~F068Media() override { fs::remove_all(folder_); }

  void write(const char* name, std::string_view text) { std::ofstream(folder_ / name) << text; }
  std::string url(std::string_view name) const { return "file://" + (folder_ / name).string(); }
  std::string fetched(const std::string& url, MediaLimits limits = {}) const {
    const auto bytes = fetch_media(url, policy_, limits);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string refusal(const std::string& url, MediaLimits limits = {}) const {
    try {
      fetched(url, limits);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInvalidInput);
      return e.what();
    }
    ADD_FAILURE() << url << " was fetched";
    return "";
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("media_fetch." + std::to_string(::getpid()));
  MediaPolicy policy_{.domains = {}, .local_path = (folder_ / "open").string()};
};

TEST_F(F068Media, FilesBelowTheFolderAreRead) {
  EXPECT_EQ(fetched(url("open/a%20b.png")), "picture");
  EXPECT_EQ(fetched(url("open/deep/../deep/c.png")), "deep");
  EXPECT_EQ(fetched("file://localhost" + (folder_ / "open/deep/c.png").string()), "deep");
}

TEST_F(F068Media, WhatLiesElsewhereLooksLikeWhatIsMissing) {
  const std::string missing = refusal(url("open/none.png"));
  for (const char* name : {"secret", "open/../secret", "open/link.png", "open/%2e%2e/secret", "openly"})
    EXPECT_EQ(refusal(url(name)), missing) << name;
  EXPECT_EQ(refusal("file:///etc/hostname"), missing);
  EXPECT_EQ(refusal("file://etc/hostname"), missing);
}

TEST_F(F068Media, OnlyRegularFilesOfModestSizeAreRead) {
  for (const char* name : {"open", "open/deep", "open/pipe"}) EXPECT_NE(refusal(url(name)), "") << name;
  EXPECT_NE(refusal(url("open/a%20b.png"), {.bytes = 6}).find("7 bytes"), std::string::npos);
  policy_.local_path = "";
  EXPECT_NE(refusal(url("open/a%20b.png")).find("--allowed-local-media-path"), std::string::npos);
}

TEST_F(F068Media, AddressesInsideAreNeverAsked) {
  for (const char* address : {"http://127.0.0.1:1/", "http://[::1]:1/", "http://0x7f000001:1/",
                              "http://2130706433:1/", "http://127.1:1/", "http://169.254.169.254/latest",
                              "http://[::ffff:127.0.0.1]:1/", "http://localhost:1/", "HTTP://LOCALHOST:1/"})
    EXPECT_NE(refusal(address).find("public addresses alone"), std::string::npos)
        << address << refusal(address);
  EXPECT_NE(refusal("http://user:password@127.0.0.1:1/").find("user name"), std::string::npos);
  for (const char* other : {"ftp://127.0.0.1/x", "gopher://127.0.0.1/", "http://"})
    EXPECT_NE(refusal(other).find("is not an http or https address"), std::string::npos)
        << other << refusal(other);
}

TEST_F(F068Media, AListOfHostsIsExact) {
  policy_.domains = {"pictures.example", "127.0.0.1"};
  for (const char* address :
       {"http://example/", "http://a.pictures.example/", "http://pictures.example.evil.test/",
        "http://evil.test/pictures.example", "http://localhost:1/", "http://evil.test\\@127.0.0.1/"})
    EXPECT_NE(refusal(address), "") << address;
  EXPECT_NE(refusal("http://localhost:1/").find("--allowed-media-domains"), std::string::npos);
  EXPECT_EQ(refusal("http://127.0.0.1:1/").find("--allowed-media-domains"),
            std::string::npos);  // asked, and closed
}

// Each hop in time, all of them not.
TEST_F(F068Media, RedirectsShareOneTimeLimit) {
  policy_.domains = {"127.0.0.1"};
  const MessageListener listener(true);
  std::atomic<bool> over{false};
  std::jthread sender([&] {
    while (!over) {
      const MessageSocket asked = listener.accept(std::chrono::seconds(5));
      char request[4096];
      EXPECT_GT(::recv(asked.fd(), request, sizeof request, 0), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      constexpr std::string_view kHop = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
      ::send(asked.fd(), kHop.data(), kHop.size(), MSG_NOSIGNAL);  // nobody may be there by now
    }
  });
  const auto start = std::chrono::steady_clock::now();
  const std::string said =
      refusal(cat("http://127.0.0.1:", listener.port(), "/"), {.seconds = 1, .redirects = 10});
  over = true;
  EXPECT_EQ(said.find("redirects"), std::string::npos) << said;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  MessageSocket::connect("127.0.0.1", listener.port(), std::chrono::seconds(1)).send("x");
}

}  // namespace
}  // namespace quaver::server
