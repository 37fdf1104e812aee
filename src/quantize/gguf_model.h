// A model as the tensors that a GGUF of it stores: from a folder, whatever its format, or from another GGUF.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_writer.h"
#include "models/gguf_mix.h"
#include "quantize/gguf_blocks.h"

namespace quaver::quantize {

struct GgufStoredTensor {
  std::string name;            // "blk.0.attn_q.weight"
  std::vector<int64_t> shape;  // row-major
};

// Not thread safe.
class GgufModel {
 public:
  virtual ~GgufModel() = default;
  virtual models::GgufModelFacts facts() const = 0;
  // In the order in which `blocks` is cheapest.
  virtual const std::vector<GgufStoredTensor>& tensors() const = 0;
  // All but what says how tensors are quantized; `rounded` anew, so that how they were does not count.
  virtual void add_metadata(GgufMetadata& metadata, bool rounded) const = 0;
  // False: the vocabulary is another file's, whatever it is worth.
  virtual bool makes_vocabulary() const = 0;
  // The type that holds this tensor's values as they are. Error(kInvalidInput) naming it when none does.
  virtual DType kept_type(size_t tensor) = 0;
  virtual GgufBlocks blocks(size_t tensor, DType type) = 0;
};

struct GgufFolder {
  std::unique_ptr<Checkpoint> checkpoint;
  std::string path;           // for the tokenizer and for messages
  bool has_tokenizer = true;  // false: no vocabulary goes into the file
};
// Block by block, resident memory of one. Error(kUnsupported) naming what an architecture of GGUF can't tell.
std::unique_ptr<GgufModel> gguf_model_of_folder(GgufFolder folder);

// Keeps the file's metadata, and blocks whose type is asked for.
std::unique_ptr<GgufModel> gguf_model_of_file(const std::string& path);

}  // namespace quaver::quantize
