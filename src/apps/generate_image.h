// Makes pictures from one prompt and writes them to files, telling how far it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/picture_flags.h"
#include "pipeline/open_image_pipeline.h"

namespace quaver::apps {

struct PictureJob {
  std::string name;  // of the model, as the user calls it
  pipeline::ImagePipelineOptions model;
  PictureFlags flags;
  std::string prompt, image, mask_image, output = "output.png";
  std::optional<int64_t> seed;
  std::optional<double> strength;
  bool quiet = false;
};

// Prints a line per file on standard output: its path and seed, with `quiet` the path alone. Progress, notes
// and pictures so far go to standard error. Returns the exit status: 0, or kInterrupted after Ctrl-C, when
// the picture in progress leaves no file.
int generate_pictures(const PictureJob& job);

}  // namespace quaver::apps
