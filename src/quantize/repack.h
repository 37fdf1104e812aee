// Moves quantized layers from one vendor's format to another's without touching a value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/progress.h"
#include "formats/format.h"

namespace quaver::quantize {

struct RepackOptions {
  std::string model;  // a quantized folder
  std::filesystem::path output_dir;
  bool overwrite = false;
  uint64_t max_shard_bytes = 5'000'000'000;
};

// Every quantized layer is unpacked and packed again, layer by layer; everything else is copied as it is. The
// result is read back and each layer's values compared before the folder is put in place: bit for bit, or to
// a unit of float32 where scales have two levels, whose product formats form in different orders. A head
// that the target can't hold beside the other layers becomes plain float32 of the same values, with a
// warning. The scales of a quantized key and value cache are left out, with a warning. Returns the bytes of
// all tensors. Error(kInvalidInput): the model is not quantized, or `target` can't hold a layer as it is,
// named.
int64_t repack(const RepackOptions& options, const Format& target, ProgressSink& progress);

}  // namespace quaver::quantize
