// A server with the painting pipeline behind it, and what requests for pictures are made of.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/cat.h"
#include "media/decode.h"
#include "media/encode.h"
#include "server/fake_image_pipeline.h"
#include "server/http_client.h"
#include "server/server.h"
#include "server/test_server.h"

namespace quaver::server::testing {

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string png_of(const Image& image) { return as_text(encode_png(image)); }

// Fields of a form; those with a file name are files.
struct FormField {
  std::string name, value, file_name;
};
inline constexpr const char* kBoundary = "----quaver-test";
inline std::string form_of(const std::vector<FormField>& fields) {
  std::string out;
  for (const FormField& field : fields) {
    out += cat("--", kBoundary, "\r\nContent-Disposition: form-data; name=\"", field.name, "\"");
    if (!field.file_name.empty())
      out += cat("; filename=\"", field.file_name, "\"\r\nContent-Type: application/octet-stream");
    out += cat("\r\n\r\n", field.value, "\r\n");
  }
  return cat(out, "--", kBoundary, "--\r\n");
}
inline std::string form_request(std::string_view body) {
  return cat("POST /v1/images/edits HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=",
             kBoundary, "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

struct PictureServer {
  explicit PictureServer(ServerOptions options = test_options()) : server(std::move(options)) {
    server.start();
    server.attach(pipeline);
  }

  Answer post(std::string_view path, const json& body, std::string_view headers = "") {
    return HttpClient(server.port()).request("POST", path, body.dump(), headers);
  }
  Answer generate(json extra = json::object()) {
    json body = {{"prompt", "a red circle"}};
    body.update(extra);
    return post("/v1/images/generations", body);
  }
  Answer edit(std::vector<FormField> extra, bool with_prompt = true) {
    if (with_prompt) extra.push_back({"prompt", "a red circle", ""});
    return edit_raw(form_of(extra));
  }
  Answer edit_raw(std::string_view body) {
    HttpClient client(server.port());
    client.send(form_request(body));
    return client.read_answer();
  }
  Answer chat(json extra = json::object()) {
    json body = {{"messages", {{{"role", "user"}, {"content", "a red circle"}}}}};
    body.update(extra);
    return post("/v1/chat/completions", body);
  }

  FakeImagePipeline pipeline;  // before the server: it must outlive it
  Server server;
};

// The events of a stream: names and data. [DONE] has no name.
inline std::vector<std::pair<std::string, std::string>> named_events(const std::string& body) {
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    std::string event = body.substr(at, end - at), name;
    if (event.starts_with("event: ")) {
      name = event.substr(7, event.find('\n') - 7);
      event.erase(0, event.find('\n') + 1);
    }
    out.emplace_back(name, event.starts_with("data: ") ? event.substr(6) : cat("malformed: ", event));
    at = end + 2;
  }
  return out;
}

inline Image image_of(const json& b64) {
  auto bytes = base64_decode(b64.get<std::string>());
  return decode_image(bytes.value(), "the answer");
}

}  // namespace quaver::server::testing
