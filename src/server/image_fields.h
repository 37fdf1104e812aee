// The fields of picture requests, read into what a pipeline takes: the same on all routes.
#pragma once

#include "media/encode.h"
#include "pipeline/image_request.h"
#include "server/fields.h"

namespace quaver::server {

enum class ImageRoute { kGenerations, kEdits, kChat };

// How the answer looks.
struct ImageReplyOptions {
  const PictureFormat* format = nullptr;
  int quality = 100;     // of formats that lose something
  bool as_file = false;  // the bytes themselves, several as a ZIP
  bool stream = false;
};

// `request` gets everything but prompt, pictures and id. Notes what is wrong in `fields`. Fields that ask for
// what picture models here can't do are refused: throws ApiError.
void read_image_parameters(Fields& fields, pipeline::ImageRequest& request);

// The whole of a request but its pictures, and on the chat route its prompt.
struct ImageWish {
  pipeline::ImageRequest request;
  ImageReplyOptions reply;
};
ImageWish read_image_fields(Fields& fields, ImageRoute route);

// What `request` leaves open, from `defaults`. A default size is not for requests with a picture of their
// own.
void fill_in(pipeline::ImageRequest& request, const pipeline::ImageRequest& defaults);

}  // namespace quaver::server
