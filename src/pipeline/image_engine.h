// The engine of picture models: takes requests from any thread, runs their pictures in batches on one.
#pragma once

#include <memory>
#include <string>

#include "diffusion/image_pipeline.h"
#include "pipeline/image_check.h"
#include "pipeline/pipeline.h"

namespace quaver::pipeline {

struct ImageEngineOptions {
  int64_t max_batch = 4;  // pictures computed together
  int64_t max_queue = 1024;
  ImageRequestLimits limits;
};

// Pictures of one batch agree in all that diffusion::may_share_batch compares; requests are taken in order of
// arrival, and later ones join a batch that fits. Between two steps it looks for aborts: a batch whose
// requests have all gone ends there.
std::unique_ptr<ImagePipeline> start_image_engine(std::shared_ptr<const diffusion::ImagePipeline> model,
                                                  ModelCard card, const ImageEngineOptions& options);

}  // namespace quaver::pipeline
