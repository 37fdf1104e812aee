// A model as a quantizing job sees it: blocks that pass rows of activations on, one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "models/llm/causal_lm.h"
#include "nn/weight_source.h"
#include "quantize/autoround.h"
#include "quantize/calibration.h"
#include "quantize/scheme.h"
#include "quantize/trajectory.h"

namespace quaver::quantize {

// A block is a models::DecoderBlock whatever the model: what else a kind of model passes along (a second
// stream, a condition) lies in the rows. The loss leaves out the last position of each row.
class BlockModel {
 public:
  virtual ~BlockModel() = default;
  virtual const Checkpoint& source() const = 0;
  // True when the source is stored quantized.
  virtual bool is_quantized() const = 0;
  virtual int64_t num_blocks() const = 0;
  virtual std::string block_prefix(int64_t block) const = 0;  // "model.layers.0."
  virtual std::vector<std::string> block_lists() const = 0;   // "model.layers"
  virtual std::vector<LayerShape> layers() const = 0;         // quantizable_layers() of it
  // Of a job that is calibrated: only after calibrate().
  virtual std::unique_ptr<models::DecoderBlock> make_block(int64_t block, nn::WeightSource& source) const = 0;

  // Gathers what the blocks run on, and says what: "the built-in text: 128 of 128 rows of 2048 tokens".
  virtual std::string calibrate(ProgressSink& progress) = 0;
  // What enters the first block: [num_rows, seqlen, width]. Once, after calibrate().
  virtual Activations first_inputs() = 0;
  // The settings of calibrate() that decide the result, for resuming.
  virtual json calibration_settings() const = 0;

  // What has a head and a cache of keys and values; null: the model has neither.
  virtual const models::CausalLm* language_model() const { return nullptr; }
  // The folder of a pipeline that the model is part of, and its name there; empty: it stands alone.
  virtual std::filesystem::path pipeline() const { return {}; }
  virtual std::string component() const { return {}; }
  // Stands before its layers' names where other models of the job are spoken of too: "text_encoder_2.".
  virtual std::string scope() const { return {}; }
};

// How models of a job compute and where.
struct BlockModelOptions {
  std::string path;  // a folder or a .gguf file
  nn::LoadOptions load;
  CalibrationOptions text;       // of language models
  TrajectoryOptions trajectory;  // of picture models
};

// A language model, or the transformer of a pipeline's folder; behind it, `with_text_encoders`, what reads
// the pipeline's prompts. Error(kInvalidInput) where a language model is asked for text encoders.
std::vector<std::unique_ptr<BlockModel>> open_block_models(const BlockModelOptions& options,
                                                           bool with_text_encoders);

}  // namespace quaver::quantize
