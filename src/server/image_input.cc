#include "server/image_input.h"

#include <algorithm>

#include "base/cat.h"
#include "media/data_url.h"
#include "media/decode.h"
#include "server/errors.h"

namespace quaver::server {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Clients break base64 into lines, write it in the alphabet of URLs and leave the padding out.
std::string in_standard_base64(std::string_view url) {
  std::string out(url.substr(0, std::min(url.find(','), url.size())));
  const size_t header = out.size();
  out.reserve(url.size() + 3);
  for (char c : url.substr(header))
    if (c != '\r' && c != '\n' && c != ' ' && c != '\t') out.push_back(c == '-' ? '+' : c == '_' ? '/' : c);
  if (out.size() == header) return out;
  while ((out.size() - header - 1) % 4 != 0 && !out.ends_with("==")) out.push_back('=');
  return out;
}

// What decoders say, with the field to blame.
template <class Decode>
auto with_field(const std::string& field, Decode decode) {
  try {
    return decode();
  } catch (const Error& e) {
    throw ApiError(400, "Bad Request", e.what(), cat("body.", field));
  }
}

}  // namespace

PictureFile picture_of_url(std::string_view url, std::string field, const MediaPolicy& policy) {
  const bool is_remote = !is_data_url(url) && url.substr(0, 16).find("://") != std::string_view::npos;
  if (!is_remote && !is_data_url(url))
    throw refused(cat(field, ": expected an http, https or data: URL such as data:image/png;base64,..."),
                  cat("body.", field));
  PictureFile file{.field = std::move(field)};
  const size_t most = ImageLimits{}.max_bytes;
  try {
    file.owned = is_remote ? fetch_media(std::string(url), policy, {.bytes = most})
                           : parse_data_url(in_standard_base64(url), file.field, most).bytes;
  } catch (const Error& e) {
    throw ApiError(400, "Bad Request", is_remote ? cat(file.field, ": ", e.what()) : e.what(),
                   cat("body.", file.field));
  }
  file.bytes = file.owned;
  return file;
}

PictureFile picture_of_part(const FormPart& part, const MediaPolicy& policy) {
  const std::string field = part.name.substr(0, part.name.find('['));
  if (!part.file_name) return picture_of_url(part.data, field, policy);
  return {.field = field, .owned = {}, .bytes = bytes_of(part.data)};
}

std::shared_ptr<const Image> decode_source(const PictureFile& file) {
  return with_field(file.field,
                    [&] { return std::make_shared<const Image>(decode_image(file.bytes, file.field)); });
}

std::shared_ptr<const GrayImage> decode_white_mask(const PictureFile& file) {
  return with_field(file.field,
                    [&] { return std::make_shared<const GrayImage>(decode_mask(file.bytes, file.field)); });
}

std::shared_ptr<const GrayImage> decode_transparent_mask(const PictureFile& file) {
  return with_field(file.field, [&] {
    GrayImage mask = decode_alpha(file.bytes, file.field);
    for (uint8_t& value : mask.gray) value = static_cast<uint8_t>(255 - value);
    require(std::ranges::any_of(mask.gray, [](uint8_t value) { return value >= 128; }),
            ErrorKind::kInvalidInput, file.field,
            ": no pixel is transparent, so there is nothing to redo; a mask that is white where the picture "
            "is redone goes into mask_image");
    return std::make_shared<const GrayImage>(std::move(mask));
  });
}

}  // namespace quaver::server
