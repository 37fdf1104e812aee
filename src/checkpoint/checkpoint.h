// A set of named tensors and a config, however it lies on disk: the view of a model's files that loaders
// take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/json.h"
#include "numerics/dtype.h"

namespace quaver {

// One tensor in memory. Row-major; for block dtypes the last dimension counts elements, not blocks.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  Buffer data;
};

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  uint64_t size_bytes = 0;
};

// Immutable once opened and safe to read from many threads. Everything about sizes and offsets has been
// checked against the files when it was opened; reading can't run past them.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // What error messages call it: a folder or a file.
  virtual const std::filesystem::path& path() const = 0;

  // config.json, or what a single-file format carries in its place.
  virtual const json& config() const = 0;

  // A further JSON file of the folder ("generation_config.json", "tokenizer_config.json"); null when absent.
  virtual json sidecar(std::string_view file_name) const = 0;

  // What the files that hold the tensors say under this key, in a header or a pickle; empty: nothing.
  // Error(kBadFile) when two files disagree.
  virtual std::string metadata(std::string_view /*key*/) const { return {}; }

  // Sorted by name.
  virtual const std::vector<TensorInfo>& tensors() const = 0;

  // Null when there is none of that name.
  const TensorInfo* find(std::string_view name) const;

  // Precondition: the name exists (else Error(kNotFound) that names file and tensor). The bytes stay valid as
  // long as the view's buffer lives; mapped where possible, so nothing is copied.
  virtual TensorView read(std::string_view name) const = 0;

  // Where the file holds a tensor in blocks of codes and `read` gives their values: the blocks as they are,
  // and their type. Else what `read` gives. Preconditions as there.
  virtual DType stored_type(std::string_view name) const { return find(name)->dtype; }
  uint64_t stored_bytes(const TensorInfo& info) const;  // of one of `tensors`, as the file holds it
  virtual TensorView read_stored(std::string_view name) const { return read(name); }

  // A hint that this tensor is not needed for now: mapped pages leave the resident set. Views stay valid.
  virtual void release(std::string_view /*name*/) const {}

  // The file that holds this tensor, for messages.
  virtual std::string file_of(std::string_view name) const = 0;

  // Keeps what a reader derived from the config under `key`, so that it is derived once and freed with the
  // checkpoint. Thread safe; `make` runs under a lock and must not call memo.
  std::shared_ptr<const void> memo(std::string_view key,
                                   const std::function<std::shared_ptr<const void>()>& make) const;

 private:
  mutable std::mutex memo_mutex_;
  mutable std::map<std::string, std::shared_ptr<const void>, std::less<>> memos_;
};

// Opens a Hugging Face folder (config.json and safetensors or pickles, sharded or not) by path.
std::unique_ptr<Checkpoint> open_hugging_face_folder(const std::filesystem::path& folder);

}  // namespace quaver
