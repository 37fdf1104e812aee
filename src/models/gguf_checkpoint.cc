#include "models/gguf_checkpoint.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_quantize.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/mapped_tensor.h"
#include "models/gguf_config.h"
#include "models/gguf_names.h"
#include "models/gguf_rows.h"

namespace quaver::models {
namespace {

uint64_t bytes_of(const std::vector<int64_t>& shape, DType dtype) {
  uint64_t bytes = static_cast<uint64_t>(dtype_info(dtype).block_bytes);
  for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

class GgufCheckpoint : public Checkpoint {
 public:
  explicit GgufCheckpoint(const std::filesystem::path& path)
      : file_(GgufFile::open(path)),
        config_(gguf_config_json(file_)),
        generation_config_(gguf_generation_config_json(file_)),
        tokenizer_config_(gguf_tokenizer_config_json(file_)) {
    bool quantized = std::any_of(file_.entries().begin(), file_.entries().end(),
                                 [](const GgufEntry& entry) { return is_gguf_block_type(entry.info.dtype); });
    for (GgufTensorSource& source : name_gguf_tensors(file_)) add(std::move(source), quantized);
  }

  const std::filesystem::path& path() const override { return file_.path(); }
  const json& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string file_of(std::string_view) const override { return path().string(); }

  json sidecar(std::string_view file_name) const override {
    if (file_name == "generation_config.json") return generation_config_;
    if (file_name == "tokenizer_config.json") return tokenizer_config_;
    return nullptr;
  }

  DType stored_type(std::string_view name) const override {
    return file_.find_tensor(source_of(name).stored_name)->info.dtype;
  }

  TensorView read_stored(std::string_view name) const override {
    const GgufTensorSource& source = source_of(name);
    TensorView stored = file_.read(source.stored_name);
    if (source.expert >= 0) stored.data = slice(stored, source.expert);
    stored.shape = source.shape;
    if (source.interleaved_heads > 0)
      stored.data = parted_rows(stored.data, source.interleaved_heads, source.shape.at(0));
    return stored;
  }

  void release(std::string_view name) const override {
    const GgufTensorSource& source = source_of(name);
    const TensorView stored = file_.read(source.stored_name);
    release_pages(source.expert >= 0 ? slice(stored, source.expert).bytes() : stored.data.bytes());
  }

  TensorView read(std::string_view name) const override {
    TensorView stored = read_stored(name);
    const DType dtype = find(name)->dtype;
    const bool plus_one = source_of(name).plus_one;
    if (!plus_one && stored.dtype == dtype) return stored;
    std::vector<float> values = gguf_dequantize(stored);
    if (plus_one)
      for (float& value : values) value -= 1.0f;
    return {dtype, stored.shape, gguf_quantize(dtype, values, cat(path().string(), ": tensor ", name))};
  }

 private:
  const GgufTensorSource& source_of(std::string_view name) const {
    const auto source = sources_.find(name);
    require(source != sources_.end(), ErrorKind::kNotFound, path().string(), ": has no tensor ", name);
    return source->second;
  }

  void add(GgufTensorSource source, bool quantized_file) {
    DType stored = file_.find_tensor(source.stored_name)->info.dtype;
    require(can_dequantize_gguf(stored), ErrorKind::kUnsupported, path().string(), ": tensor ",
            source.stored_name, " has type ", dtype_info(stored).name, ", which can't be read");
    bool to_bf16 = is_gguf_block_type(stored) || (stored == DType::kF32 && quantized_file);
    DType dtype = to_bf16 ? DType::kBF16 : stored;
    tensors_.push_back({source.name, dtype, source.shape, bytes_of(source.shape, dtype)});
    std::string name = source.name;
    sources_.emplace(std::move(name), std::move(source));
  }

  static Buffer slice(const TensorView& stack, int64_t index) {
    size_t bytes = stack.data.size_bytes() / static_cast<size_t>(stack.shape.at(0));
    auto whole = std::make_shared<Buffer>(stack.data);
    return Buffer(whole->bytes().subspan(static_cast<size_t>(index) * bytes, bytes), whole);
  }

  GgufFile file_;
  json config_, generation_config_, tokenizer_config_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, GgufTensorSource, std::less<>> sources_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path) {
  return std::make_unique<GgufCheckpoint>(path);
}

}  // namespace quaver::models
