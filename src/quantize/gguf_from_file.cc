// A GGUF written again: metadata as it is, blocks as they are where their type stays.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_dequantize.h"
#include "models/gguf_architectures.h"
#include "models/gguf_keys.h"
#include "models/gguf_names.h"
#include "quantize/gguf_model.h"

namespace quaver::quantize {
namespace {

class GgufOfFile : public GgufModel {
 public:
  explicit GgufOfFile(const std::string& path)
      : file_(GgufFile::open(path)), keys_(file_, models::gguf_architecture(file_).name) {
    models::name_gguf_tensors(file_);  // every tensor has its place
    std::vector<const GgufEntry*> entries;
    for (const GgufEntry& entry : file_.entries()) entries.push_back(&entry);
    std::ranges::sort(entries, {}, &GgufEntry::offset);
    for (const GgufEntry* entry : entries) tensors_.push_back({entry->info.name, entry->info.shape});
  }

  models::GgufModelFacts facts() const override {
    namespace k = models::gguf_keys;
    const int64_t heads = keys_.integer(k::kHeads);
    return {.layers = keys_.integer(k::kBlocks),
            .heads = heads,
            .kv_heads = keys_.find_integer(k::kKeyHeads).value_or(heads),
            .experts = keys_.find_integer(k::kExperts).value_or(0),
            .has_output = file_.find_tensor("output.weight") != nullptr};
  }

  const std::vector<GgufStoredTensor>& tensors() const override { return tensors_; }
  bool makes_vocabulary() const override { return false; }

  void add_metadata(GgufMetadata& metadata, bool rounded) const override {
    constexpr std::array<std::string_view, 3> kOfTheFile = {"general.alignment", "general.file_type",
                                                            "general.quantization_version"};
    for (const auto& [key, value] : file_.metadata()) {
      if (std::ranges::find(kOfTheFile, key) != kOfTheFile.end()) continue;
      if (rounded && key.starts_with(models::kGgufImportanceKeys)) continue;
      metadata.add_value(key, value);
    }
  }

  DType kept_type(size_t tensor) override { return stored_type(tensor); }

  GgufBlocks blocks(size_t tensor, DType type) override {
    TensorView view = file_.read(tensors_[tensor].name);
    if (view.dtype == type) return {view.data, ValueFate::kCopied};
    const std::string what = cat(file_.path().string(), ": tensor ", tensors_[tensor].name);
    require(can_dequantize_gguf(view.dtype), ErrorKind::kUnsupported, what, " has type ",
            dtype_info(view.dtype).name, ", which can't be read");
    return to_gguf_blocks(gguf_dequantize(view), type, what);
  }

 private:
  DType stored_type(size_t tensor) const { return file_.find_tensor(tensors_[tensor].name)->info.dtype; }

  GgufFile file_;
  models::GgufKeys keys_;
  std::vector<GgufStoredTensor> tensors_;
};

}  // namespace

std::unique_ptr<GgufModel> gguf_model_of_file(const std::string& path) {
  return std::make_unique<GgufOfFile>(path);
}

}  // namespace quaver::quantize
