// Forms: what clients send is read, what is broken is refused in one sentence, and no bytes do harm.
#include "server/multipart.h"

#include <gtest/gtest.h>

#include <random>

#include "base/cat.h"
#include "server/errors.h"
#include "server/picture_server.h"

namespace quaver::server::testing {
namespace {

HttpRequest form_http(std::string body, std::string type = cat("multipart/form-data; boundary=", kBoundary)) {
  HttpRequest request;
  request.body = std::move(body);
  request.headers = {{"content-type", std::move(type)}};
  return request;
}

std::string part(std::string_view header, std::string_view data) {
  return cat("--", kBoundary, "\r\n", header, "\r\n\r\n", data, "\r\n");
}
std::string named(std::string_view name) {
  return cat("Content-Disposition: form-data; name=\"", name, "\"");
}
std::string closed(std::string_view parts) { return cat(parts, "--", kBoundary, "--\r\n"); }

TEST(Multipart, ReadsWhatClientsSend) {
  // curl, httpx, requests and browsers, with bytes that look like boundaries.
  const std::string data =
      cat("\r\n--", std::string_view(kBoundary).substr(0, 5), "\r\n\0x", std::string(1, '\0'));
  const HttpRequest request = form_http(closed(
      cat(part(named("prompt"), "a b"),
          part(cat(named("image[]"), "; filename=\"a \\\"b\\\" c.png\"\r\nContent-Type: image/png"), data),
          part("content-disposition:form-data;name=bare", ""),
          part("Content-Disposition: form-data; name=\"f\"; filename=\"C:\\dir\\x.png\"; "
               "filename*=utf-8''y.png\r\nContent-Transfer-Encoding: binary",
               "1"))));
  const std::vector<FormPart> parts = parse_form(request);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].name, "prompt");
  EXPECT_EQ(parts[0].data, "a b");
  EXPECT_FALSE(parts[0].file_name.has_value());
  EXPECT_EQ(parts[1].name, "image[]");
  EXPECT_EQ(parts[1].file_name, "a \"b\" c.png");
  EXPECT_EQ(parts[1].data, data);
  EXPECT_EQ(parts[2].name, "bare");
  EXPECT_EQ(parts[2].data, "");
  EXPECT_TRUE(parts[3].file_name.has_value());
  const HttpRequest quoted =
      form_http("--a b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--a b--",
                "Multipart/Form-Data; charset=utf-8; boundary=\"a b\"");
  EXPECT_EQ(parse_form(quoted).at(0).data, "1");
  EXPECT_TRUE(parse_form(form_http(closed(""))).empty());
}

TEST(Multipart, RefusesWhatIsBrokenAndSaysWhat) {
  const std::string good = part(named("x"), "1");
  struct Row {
    std::string body, words;
  };
  for (const auto& [body, words] : {
           Row{"", "does not begin with the boundary"},
           Row{cat("preamble\r\n", closed(good)), "does not begin with the boundary"},
           Row{good, "part 'x' is cut off"},
           Row{cat("--", kBoundary, "\r\n", named("x"), "\r\n\r\n1"), "part 'x' is cut off"},
           Row{cat("--", kBoundary, "\r\n", named("x")), "header of part 1 is cut off"},
           Row{cat("--", kBoundary, "zzz"), "not followed by a line break"},
           Row{closed(part("Content-Type: text/plain", "1")), "part 1 has no name"},
           Row{closed(part(named(""), "1")), "part 1 has no name"},
           Row{closed(part("Content-Disposition: attachment; name=\"x\"", "1")), "no form-data"},
           Row{closed(part("Content-Disposition: form-data; name=\"x", "1")), "does not end"},
           Row{closed(part("Content-Disposition: form-data; name", "1")), "NAME=VALUE"},
           Row{closed(part("Content-Disposition: form-data name=x", "1")), "expected ';'"},
           Row{closed(part("no colon", "1")), "no colon"},
           Row{closed(part(cat(named("x"), "\r\nContent-Transfer-Encoding: base64"), "1")), "encoded"},
           Row{closed(part(cat(named("x"), "\r\nX: ", std::string(5000, 'x')), "1")), "longer than 4096"},
           Row{closed([&] {
                 std::string many;
                 for (int i = 0; i < 65; ++i) many += good;
                 return many;
               }()),
               "more than 64 parts"},
       }) {
    try {
      parse_form(form_http(body));
      ADD_FAILURE() << "taken: " << body.substr(0, 200);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status, 400);
      EXPECT_NE(std::string_view(e.what()).find(words), std::string_view::npos) << e.what();
    }
  }
  for (const char* type : {"application/json", "multipart/form-data", "multipart/form-data; boundary=",
                           "multipart/form-data; boundary=\"a", "multipart/mixed; boundary=x", ""})
    EXPECT_THROW(parse_form(form_http(closed(good), type)), ApiError) << type;
  EXPECT_THROW(parse_form(form_http("--x--", cat("multipart/form-data; boundary=", std::string(71, 'x')))),
               ApiError);
}

// Bytes changed, lost, doubled and cut at random, with a fixed seed. Every part that is read lies inside the
// body.
TEST(Multipart, MutatedBodiesDoNoHarm) {
  std::mt19937 random(20240607);
  const std::string image = png_of(painted(16, 16, 77));
  const std::string whole = form_of({{"prompt", "a red circle", ""},
                                     {"image", image, "a.png"},
                                     {"n", "2", ""},
                                     {"extra_params", "{\"max_sequence_length\": 8}", ""}});
  const auto at_random = [&](size_t end) { return static_cast<size_t>(random() % end); };
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string body = whole;
    for (size_t k = 0, count = 1 + at_random(4); k < count && !body.empty(); ++k) {
      const size_t at = at_random(body.size());
      switch (random() % 5) {
        case 0:
          body[at] = static_cast<char>(random());
          break;
        case 1:
          body.erase(at, 1 + at_random(20));
          break;
        case 2:
          body.insert(at, body.substr(at_random(body.size()), at_random(80)));
          break;
        case 3:
          body.resize(at);
          break;
        default:
          body.insert(at, "\r\n--");
      }
    }
    const HttpRequest request = form_http(std::move(body));
    try {
      for (const FormPart& one : parse_form(request)) {
        ASSERT_GE(one.data.data(), request.body.data());
        ASSERT_LE(one.data.data() + one.data.size(), request.body.data() + request.body.size());
        ASSERT_FALSE(one.name.empty());
      }
      ++taken;
    } catch (const ApiError& e) {
      ASSERT_EQ(e.status, 400);
    }
  }
  EXPECT_GT(taken, 1000);
}

// The same through the whole route: an answer each time, 200 or 400, and the server lives.
TEST(Multipart, MutatedBodiesGetAnAnswer) {
  PictureServer t;
  std::mt19937 random(7);
  const std::string whole =
      form_of({{"prompt", "x", ""}, {"image", png_of(painted(16, 16, 77)), "a.png"}, {"n", "1", ""}});
  for (int i = 0; i < 1500; ++i) {
    std::string body = whole;
    for (int k = 0; k < 3; ++k) body[random() % body.size()] = static_cast<char>(random());
    if (i % 3 == 0) body.resize(random() % body.size());
    Answer answer = t.edit_raw(body);
    ASSERT_TRUE(answer.status == 200 || answer.status == 400 || answer.status == 404)
        << answer.status << answer.body;
  }
  EXPECT_EQ(t.edit({{"image", png_of(painted(16, 16, 1)), "a.png"}}).status, 200);
}

}  // namespace
}  // namespace quaver::server::testing
