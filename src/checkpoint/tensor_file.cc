#include "checkpoint/tensor_file.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/gguf_quantize.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/mapped_tensor.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_file.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

class TensorFile : public Checkpoint {
 public:
  explicit TensorFile(json config) : config_(std::move(config)) {}
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string file_of(std::string_view) const override { return path().string(); }

 protected:
  std::vector<TensorInfo> tensors_;

 private:
  json config_;
};

class GgufTensorFile : public TensorFile {
 public:
  GgufTensorFile(const fs::path& path, json config)
      : TensorFile(std::move(config)), file_(GgufFile::open(path)) {
    for (const GgufEntry& entry : file_.entries()) {
      TensorInfo info = entry.info;
      require(can_dequantize_gguf(info.dtype), ErrorKind::kUnsupported, path.string(), ": tensor ",
              printable(info.name), " has type ", dtype_info(info.dtype).name, ", which can't be read");
      if (is_gguf_block_type(info.dtype)) {
        info.dtype = DType::kBF16;
        info.size_bytes = sizeof(uint16_t);
        for (const int64_t extent : info.shape) info.size_bytes *= static_cast<uint64_t>(extent);
      }
      tensors_.push_back(std::move(info));
    }
  }

  const fs::path& path() const override { return file_.path(); }
  std::string metadata(std::string_view key) const override {
    return std::string(file_.find_string(key).value_or(""));
  }
  DType stored_type(std::string_view name) const override { return entry(name).info.dtype; }
  TensorView read_stored(std::string_view name) const override { return file_.read(name); }
  TensorView read(std::string_view name) const override {
    const TensorView stored = file_.read(name);
    if (!is_gguf_block_type(stored.dtype)) return stored;
    const std::vector<float> values = gguf_dequantize(stored);
    return {DType::kBF16, stored.shape,
            gguf_quantize(DType::kBF16, values, cat(path().string(), ": tensor ", printable(name)))};
  }
  void release(std::string_view name) const override { release_pages(file_.read(name).data.bytes()); }

 private:
  const GgufEntry& entry(std::string_view name) const {
    const GgufEntry* found = file_.find_tensor(name);
    require(found != nullptr, ErrorKind::kNotFound, path().string(), ": has no tensor ", printable(name));
    return *found;
  }

  GgufFile file_;
};

class SafetensorsTensorFile : public TensorFile {
 public:
  SafetensorsTensorFile(const fs::path& path, json config)
      : TensorFile(std::move(config)), file_(SafetensorsFile::open(path)) {
    for (const SafetensorsEntry& entry : file_.entries()) tensors_.push_back(entry.info);
  }

  const fs::path& path() const override { return file_.path(); }
  std::string metadata(std::string_view key) const override {
    const auto found = file_.metadata().find(std::string(key));
    return found == file_.metadata().end() ? "" : found->second;
  }
  TensorView read(std::string_view name) const override { return file_.read(name); }
  void release(std::string_view name) const override {
    if (const SafetensorsEntry* entry = file_.find(name)) file_.release(*entry);
  }

 private:
  SafetensorsFile file_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_tensor_file(const fs::path& path, json config) {
  if (path.extension() == ".gguf") return std::make_unique<GgufTensorFile>(path, std::move(config));
  require(path.extension() == ".safetensors", ErrorKind::kUnsupported, path.string(),
          ": a file of weights is .gguf or .safetensors");
  return std::make_unique<SafetensorsTensorFile>(path, std::move(config));
}

}  // namespace quaver
