// Pictures that come with a request: from uploads and URLs to pixels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/image.h"
#include "server/media_fetch.h"
#include "server/multipart.h"

namespace quaver::server {

// A picture's file and the field that it came by.
struct PictureFile {
  std::string field;  // "image", "messages.0.content.1.image_url"
  std::vector<std::byte> owned;
  std::span<const std::byte> bytes;  // into `owned` or the request's body
};

// The one place where a URL becomes bytes: data: URLs, and http, https and file under the policy. May block.
// Throws ApiError 400.
PictureFile picture_of_url(std::string_view url, std::string field, const MediaPolicy& policy);
// A file, or a text part that is a URL.
PictureFile picture_of_part(const FormPart& part, const MediaPolicy& policy);

// Throw ApiError 400 that names the field.
std::shared_ptr<const Image> decode_source(const PictureFile& file);
// Of a mask that is white where the picture is redone.
std::shared_ptr<const GrayImage> decode_white_mask(const PictureFile& file);
// Of a mask that is transparent there, as OpenAI's are.
std::shared_ptr<const GrayImage> decode_transparent_mask(const PictureFile& file);

}  // namespace quaver::server
