// The HTTP layer alone: framing, limits, timeouts, pipelining, disconnects, hostile input.
#include "server/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "server/http_client.h"
#include "server/target.h"

namespace quaver::server::testing {
namespace {

HttpOptions small_limits(double timeout_s = 30) {
  set_log_level(LogLevel::kOff);
  HttpOptions options;
  options.port = 0;
  options.limits.header_bytes = 4096;
  options.limits.body_bytes = 10000;
  options.limits.header_s = options.limits.body_s = timeout_s;
  options.limits.idle_s = options.limits.write_s = timeout_s;
  return options;
}

// Answers with method, path, query and body; "/hold" keeps the reply, "/stream" writes three pieces.
class EchoServer {
 public:
  explicit EchoServer(HttpOptions options = small_limits())
      : server(std::move(options), [this](HttpRequest request, std::shared_ptr<Reply> reply) {
          handle(std::move(request), std::move(reply));
        }) {
    server.start();
  }
  ~EchoServer() {
    held_replies.clear();
    server.stop();
  }
  uint16_t port() const { return server.port(); }

  std::atomic<int> requests{0}, gone{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Reply>> held_replies;
  HttpServer server;

 private:
  struct Count {  // counted when handled, so that a test that waits for it finds what the handler left
    std::atomic<int>& requests;
    ~Count() { ++requests; }
  };
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) {
    Count count{requests};
    if (request.path == "/drop") return;
    if (request.path == "/hold" || request.path == "/watch") {
      if (request.path == "/watch") reply->on_gone([this] { ++gone; });
      std::lock_guard lock(mutex);
      held_replies.push_back(std::move(reply));
      return;
    }
    if (request.path == "/stream") {
      reply->start_stream("text/plain");
      for (const char* piece : {"one ", "two ", "three"}) reply->write(piece);
      return reply->end();
    }
    if (request.path == "/inject") {
      reply->add_header("X-Bad", "a\r\nX-Injected: 1");
      reply->add_header("X-Good", "fine");
    }
    reply->send({.body = cat(request.method, " ", request.path, "?", request.query, " ", request.body),
                 .content_type = "text/plain"});
  }
};

TEST(HttpServer, KeepsConnectionsOpen) {
  EchoServer s;
  HttpClient client(s.port());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(client.request("GET", cat("/a", i, "?q=1")).body, cat("GET /a", i, "?q=1 "));
  EXPECT_EQ(client.request("POST", "/b", "body").body, "POST /b? body");
  Answer last = client.request("GET", "/c", "", "Connection: close\r\n");
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_within(2));
}

TEST(HttpServer, SpeaksHttp10) {
  EchoServer s;
  HttpClient client(s.port());
  client.send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, "GET /a? ");
  EXPECT_TRUE(client.closed_within(2));
  HttpClient kept(s.port());
  kept.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.read_answer().headers.at("connection"), "keep-alive");
  HttpClient stream(s.port());
  stream.send("GET /stream HTTP/1.0\r\n\r\n");
  Answer answer = stream.read_answer();
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(answer.body, "one two three");
}

TEST(HttpServer, StreamsInChunks) {
  EchoServer s;
  HttpClient client(s.port());
  Answer answer = client.request("GET", "/stream");
  EXPECT_EQ(answer.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(answer.body, "one two three");
  EXPECT_EQ(client.request("GET", "/x").body, "GET /x? ");
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  EchoServer s;
  HttpClient client(s.port());
  std::string bytes;
  for (int i = 0; i < 2000; ++i)
    bytes += HttpClient::format(i % 3 ? "GET" : "POST", cat("/p", i), i % 3 ? "" : "x");
  std::thread sender([&] { client.send(bytes); });
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(client.read_answer().body, cat(i % 3 ? "GET" : "POST", " /p", i, "? ", i % 3 ? "" : "x"));
  sender.join();
}

TEST(HttpServer, ReadsRequestsThatComeByteByByte) {
  EchoServer s;
  HttpClient client(s.port());
  for (char c : HttpClient::format("POST", "/slow", "12345")) client.send(std::string(1, c));
  EXPECT_EQ(client.read_answer().body, "POST /slow? 12345");
}

TEST(HttpServer, ReadsChunkedBodies) {
  EchoServer s;
  HttpClient client(s.port());
  client.send("POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, "POST /c? abcdefg");
}

TEST(HttpServer, SaysContinueWhenAsked) {
  EchoServer s;
  HttpClient client(s.port());
  client.send("POST /c HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("abc");
  EXPECT_EQ(client.read_answer().body, "POST /c? abc");
}

TEST(HttpServer, RefusesMalformedRequests) {
  EchoServer s(small_limits(1));
  for (const char* bytes : {
           "hello\r\n\r\n",
           "GET\r\n\r\n",
           "GET / HTTP/9.9\r\n\r\n",
           "GET / HTTP/1.1\r\nno colon\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
           "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
           "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "GET / HTTP/1.1\r\na b: c\r\n\r\n",
           "GET / HTTP/1.1\r\nX: a\x01"
           "b\r\n\r\n",
           "GET /%zz HTTP/1.1\r\n\r\n",
           "GET /%00 HTTP/1.1\r\n\r\n",
           "GET /%0d%0aX:1 HTTP/1.1\r\n\r\n",
           "GET nopath HTTP/1.1\r\n\r\n",
           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
       }) {
    HttpClient client(s.port());
    client.send(bytes);
    Answer answer = client.read_answer();
    EXPECT_TRUE(answer.status == 400 || answer.status == 408) << bytes << " " << answer.status;
    if (answer.status == 400) {
      EXPECT_EQ(answer.parsed().at("error").at("code"), 400);
    }
    EXPECT_TRUE(client.closed_within(5)) << bytes;
  }
  EXPECT_EQ(s.requests, 0);
}

TEST(HttpServer, LimitsBodies) {
  EchoServer s;
  for (const std::string& head :
       {std::string("Content-Length: 10001\r\n\r\n"), std::string("Content-Length: 99999999999999\r\n\r\n"),
        "Transfer-Encoding: chunked\r\n\r\n4000\r\n" + std::string(0x4000, 'x')}) {
    HttpClient client(s.port());
    client.send("POST / HTTP/1.1\r\n" + head);
    Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.parsed().at("error").at("type"), "Payload Too Large");
  }
  EXPECT_EQ(HttpClient(s.port()).request("POST", "/", std::string(10000, 'x')).status, 200);
}

TEST(HttpServer, AnswersBeforeALargeBodyIsSent) {
  EchoServer s;
  HttpClient client(s.port());
  client.send("POST / HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n");
  for (int i = 0; i < 10; ++i) {  // the answer must survive what the client goes on sending
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    client.send(std::string(30000, 'x'));
  }
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(HttpServer, LimitsHeaders) {
  EchoServer s;
  HttpClient client(s.port());
  client.send("GET / HTTP/1.1\r\nX: " + std::string(5000, 'x'));
  EXPECT_EQ(client.read_answer().status, 431);
  HttpClient many(s.port());
  std::string head = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 1000; ++i) head += "a: b\r\n";
  many.send(head);
  EXPECT_EQ(many.read_answer().status, 431);
}

TEST(HttpServer, LimitsTheMemoryOfAllBodies) {
  HttpOptions options = small_limits();
  options.limits.total_body_bytes = 15000;
  EchoServer s(std::move(options));
  HttpClient first(s.port()), second(s.port());
  first.send("POST /1 HTTP/1.1\r\nContent-Length: 9000\r\n\r\nx");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  second.send("POST /2 HTTP/1.1\r\nContent-Length: 9000\r\n\r\n");
  Answer refused = second.read_answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  first.send(std::string(8999, 'x'));
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(HttpClient(s.port()).request("POST", "/3", std::string(9000, 'x')).status, 200);  // given back
}

TEST(HttpServer, EndsSlowRequests) {
  HttpOptions options = small_limits(0.3);
  options.limits.idle_s = 30;
  EchoServer s(std::move(options));
  HttpClient head(s.port()), body(s.port());
  head.send("GET / HTTP/1.1\r\nX: ");
  body.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  for (int i = 0; i < 6; ++i) {  // dripping does not help
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    head.send("x");
    body.send("x");
  }
  EXPECT_EQ(head.read_answer().status, 408);
  EXPECT_EQ(body.read_answer().status, 408);
}

TEST(HttpServer, EndsIdleConnections) {
  HttpOptions options = small_limits();
  options.limits.idle_s = 0.2;
  EchoServer s(std::move(options));
  HttpClient fresh(s.port()), used(s.port());
  EXPECT_EQ(used.request("GET", "/").status, 200);
  EXPECT_TRUE(fresh.closed_within(5));
  EXPECT_TRUE(used.closed_within(5));
}

TEST(HttpServer, LimitsConnections) {
  HttpOptions options = small_limits();
  options.limits.connections = 3;
  EchoServer s(std::move(options));
  HttpClient a(s.port()), b(s.port()), c(s.port());
  for (HttpClient* client : {&a, &b, &c}) EXPECT_EQ(client->request("GET", "/").status, 200);
  HttpClient over(s.port());
  EXPECT_EQ(over.read_answer().status, 503);
  a.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(HttpClient(s.port()).request("GET", "/").status, 200);
}

void expect_gone(EchoServer& s) {
  for (int i = 0; i < 200 && s.gone == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(s.gone, 1);
}

// F081
TEST(HttpServer, NoticesClientsThatLeave) {
  using Leave = void (*)(HttpClient&);
  for (Leave leave : {Leave([](HttpClient& c) { c.close(); }), Leave([](HttpClient& c) { c.reset(); }),
                      Leave([](HttpClient& c) { c.half_close(); })}) {
    EchoServer s;
    HttpClient client(s.port());
    client.send(HttpClient::format("GET", "/watch"));
    while (s.requests == 0) std::this_thread::yield();
    EXPECT_EQ(s.gone, 0);
    leave(client);
    expect_gone(s);
  }
}

TEST(HttpServer, NoticesThemBehindPipelinedBytes) {
  EchoServer s;
  HttpClient client(s.port());
  client.send(HttpClient::format("GET", "/watch") + HttpClient::format("GET", "/next"));
  while (s.requests == 0) std::this_thread::yield();
  client.close();
  expect_gone(s);
  EXPECT_EQ(s.requests, 1);
}

TEST(HttpServer, ClosesOnEndlessPipelining) {
  EchoServer s;
  HttpClient client(s.port());
  client.send(HttpClient::format("GET", "/watch"));
  const std::string junk(1 << 16, 'x');
  for (int i = 0; i < 200 && client.send(junk); ++i) {
  }
  expect_gone(s);
}

TEST(HttpServer, DeliversToClientsThatOnlyStoppedSending) {
  EchoServer s;
  HttpClient client(s.port());
  client.send(HttpClient::format("GET", "/hold"));
  client.half_close();
  while (s.requests == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  s.held_replies.at(0)->send({.body = "late"});
  EXPECT_EQ(client.read_answer().body, "late");
  s.held_replies.clear();
  // Each answer counts once, also when its client has closed its side before it was written.
  EXPECT_TRUE(s.server.wait_until_idle(2));
}

TEST(HttpServer, CutsOffClientsThatDoNotRead) {
  HttpOptions options = small_limits();
  options.limits.stream_backlog_bytes = 1 << 20;
  EchoServer s(std::move(options));
  HttpClient client(s.port(), 4096);
  client.send(HttpClient::format("GET", "/watch"));
  while (s.requests == 0) std::this_thread::yield();
  auto reply = s.held_replies.at(0);
  reply->start_stream("text/plain");
  const std::string piece(10000, 'x');
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) reply->write(piece);  // 20 MB, and no write waits
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  expect_gone(s);
}

TEST(HttpServer, CutsOffClientsThatStall) {
  EchoServer s(small_limits(0.5));
  HttpClient client(s.port(), 4096);
  client.send(HttpClient::format("GET", "/watch"));
  while (s.requests == 0) std::this_thread::yield();
  auto reply = s.held_replies.at(0);
  reply->start_stream("text/plain");
  for (int i = 0; i < 300; ++i)
    reply->write(std::string(10000, 'x'));  // below the backlog, above the socket's buffers
  expect_gone(s);
}

TEST(HttpServer, ADroppedReplyIsA500) {
  EchoServer s;
  HttpClient client(s.port());
  EXPECT_EQ(client.request("GET", "/drop").status, 500);
  EXPECT_EQ(client.request("GET", "/next").status, 200);
}

TEST(HttpServer, DoesNotLetHeadersBeInjected) {
  EchoServer s;
  Answer answer = HttpClient(s.port()).request("GET", "/inject");
  EXPECT_FALSE(answer.headers.contains("x-injected"));
  EXPECT_FALSE(answer.headers.contains("x-bad"));
  EXPECT_EQ(answer.headers.at("x-good"), "fine");
}

TEST(HttpServer, StopsWithRequestsUnderWay) {
  EchoServer s;
  HttpClient client(s.port()), idle(s.port());
  client.send(HttpClient::format("GET", "/watch"));
  while (s.requests == 0) std::this_thread::yield();
  std::thread releaser([&] {
    expect_gone(s);
    std::lock_guard lock(s.mutex);
    s.held_replies.clear();
  });
  s.server.stop();
  releaser.join();
  EXPECT_TRUE(client.closed_within(1));
  EXPECT_TRUE(idle.closed_within(1));
}

TEST(HttpServer, DrainsByClosingAfterEachAnswer) {
  EchoServer s;
  HttpClient busy(s.port()), idle(s.port());
  EXPECT_EQ(idle.request("GET", "/").status, 200);
  busy.send(HttpClient::format("GET", "/hold"));
  while (s.requests < 2) std::this_thread::yield();
  s.server.drain();
  EXPECT_TRUE(idle.closed_within(2));
  EXPECT_FALSE(s.server.wait_until_idle(0.05));
  s.held_replies.at(0)->send({.body = "done"});
  s.held_replies.clear();
  Answer answer = busy.read_answer();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(s.server.wait_until_idle(2));
}

TEST(HttpServer, SaysWhyItCannotListen) {
  EchoServer s;
  HttpOptions options;
  options.port = s.port();
  try {
    HttpServer second(options, nullptr);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(std::string(e.what()),
              cat("cannot listen on 127.0.0.1:", s.port(), ": Address already in use"));
  }
}

TEST(Target, IsDecodedOnce) {
  EXPECT_EQ(parse_target("/a%20b%2525?x=%20#f")->path, "/a b%25");
  EXPECT_EQ(parse_target("/a?x=%20")->query, "x=%20");
  EXPECT_EQ(parse_target("http://host:1/a")->path, "/a");
  EXPECT_EQ(parse_target("http://host")->path, "/");
  for (const char* bad : {"", "a", "/%", "/%4", "/%g0", "/%0a", "/%7f"})
    EXPECT_FALSE(parse_target(bad)) << bad;
}

}  // namespace
}  // namespace quaver::server::testing
