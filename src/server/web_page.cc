#include "server/web_page.h"

#include <algorithm>
#include <array>

#include "base/embedded_file.h"
#include "server/endpoints.h"
#include "server/errors.h"

QUAVER_EMBED_FILE(quaver_web_index, QUAVER_WEB "/index.html");
QUAVER_EMBED_FILE(quaver_web_icon, QUAVER_WEB "/icon.svg");
QUAVER_EMBED_FILE(quaver_web_style, QUAVER_WEB "/style.css");
QUAVER_EMBED_FILE(quaver_web_parts, QUAVER_WEB "/parts.css");
QUAVER_EMBED_FILE(quaver_web_app, QUAVER_WEB "/app.js");
QUAVER_EMBED_FILE(quaver_web_api, QUAVER_WEB "/api.js");
QUAVER_EMBED_FILE(quaver_web_dom, QUAVER_WEB "/dom.js");
QUAVER_EMBED_FILE(quaver_web_pictures, QUAVER_WEB "/pictures.js");
QUAVER_EMBED_FILE(quaver_web_picture_form, QUAVER_WEB "/picture_form.js");
QUAVER_EMBED_FILE(quaver_web_gallery, QUAVER_WEB "/gallery.js");
QUAVER_EMBED_FILE(quaver_web_compare, QUAVER_WEB "/compare.js");
QUAVER_EMBED_FILE(quaver_web_chat, QUAVER_WEB "/chat.js");

namespace quaver::server {
namespace {

constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::string_view kStyle = "text/css; charset=utf-8";

constexpr std::array kFiles = {
    WebFile{"/", "text/html; charset=utf-8", quaver_web_index, quaver_web_index_end},
    WebFile{"/web/icon.svg", "image/svg+xml", quaver_web_icon, quaver_web_icon_end},
    WebFile{"/web/style.css", kStyle, quaver_web_style, quaver_web_style_end},
    WebFile{"/web/parts.css", kStyle, quaver_web_parts, quaver_web_parts_end},
    WebFile{"/web/app.js", kScript, quaver_web_app, quaver_web_app_end},
    WebFile{"/web/api.js", kScript, quaver_web_api, quaver_web_api_end},
    WebFile{"/web/dom.js", kScript, quaver_web_dom, quaver_web_dom_end},
    WebFile{"/web/pictures.js", kScript, quaver_web_pictures, quaver_web_pictures_end},
    WebFile{"/web/picture_form.js", kScript, quaver_web_picture_form, quaver_web_picture_form_end},
    WebFile{"/web/gallery.js", kScript, quaver_web_gallery, quaver_web_gallery_end},
    WebFile{"/web/compare.js", kScript, quaver_web_compare, quaver_web_compare_end},
    WebFile{"/web/chat.js", kScript, quaver_web_chat, quaver_web_chat_end},
};

// Nothing from elsewhere, no script or style inside the markup, no frame around the page.
constexpr const char* kPolicy =
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

// If-None-Match is a list of tags, or * (RFC 9110, section 13.1.2). A tag has its quotes, so finding it in
// the list means that it stands there.
bool has_it_already(const HttpRequest& request, const std::string& tag) {
  const std::string* known = request.header("if-none-match");
  return known && (*known == "*" || known->find(tag) != std::string::npos);
}

}  // namespace

std::span<const WebFile> web_files() { return kFiles; }

std::string entity_tag(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string out = "\"";
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[hash >> shift & 15];
  return out + '"';
}

void web_page(Call call) {
  const auto file = std::ranges::find(kFiles, call.request.path, &WebFile::path);
  if (file == kFiles.end())
    throw ApiError(404, "Not Found",
                   cat("the web page has no file '", call.request.path.substr(0, 200), "'"));
  const std::string tag = entity_tag(file->content());
  HttpResponse response;
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  response.content_type = file->type;
  if (has_it_already(call.request, tag))
    response.status = 304;
  else
    response.body = file->content();
  call.reply->send(std::move(response));
}

}  // namespace quaver::server
