#include "models/llm/split_experts.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quaver::models {

namespace {

constexpr int64_t kMostExperts = 65536;

// One layer's share of a stacked tensor: columns `first`, first + step, ...
struct StackShare {
  const char* stack;  // how the stacked tensor's name goes on behind "experts"
  const char* layer;  // how each expert's does
  int64_t first, step;
  size_t dimensions;  // of the stack
};
constexpr std::array kStackShares = {StackShare{".gate_up_proj", ".gate_proj.weight", 0, 2, 3},
                                     StackShare{".gate_up_proj", ".up_proj.weight", 1, 2, 3},
                                     StackShare{".down_proj", ".down_proj.weight", 0, 1, 3},
                                     StackShare{".gate_up_proj_bias", ".gate_proj.bias", 0, 2, 2},
                                     StackShare{".gate_up_proj_bias", ".up_proj.bias", 1, 2, 2},
                                     StackShare{".down_proj_bias", ".down_proj.bias", 0, 1, 2}};

bool is_plain_stack(const TensorInfo& info, const StackShare& share) {
  const bool plain = info.dtype == DType::kF32 || info.dtype == DType::kF16 || info.dtype == DType::kBF16;
  return plain && info.name.ends_with(cat(".experts", share.stack));
}

// Columns of a matrix [rows, cols] as rows. In strips, since a row's elements go far apart.
template <class T>
Buffer take_columns(std::span<const T> matrix, int64_t cols, const StackShare& share) {
  constexpr int64_t kStrip = 32;
  const auto rows = static_cast<int64_t>(matrix.size()) / cols;
  const int64_t taken = cols / share.step;
  std::byte* memory = nullptr;
  Buffer buffer = Buffer::allocate(static_cast<size_t>(taken * rows) * sizeof(T), memory);
  T* target = reinterpret_cast<T*>(memory);
  for (int64_t strip = 0; strip < taken; strip += kStrip)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t c = strip; c < std::min(taken, strip + kStrip); ++c)
        target[c * rows + row] = matrix[static_cast<size_t>(row * cols + share.first + c * share.step)];
  return buffer;
}

class SplitExperts : public Checkpoint {
 public:
  explicit SplitExperts(std::unique_ptr<Checkpoint> folder) : folder_(std::move(folder)) {
    for (const TensorInfo& info : folder_->tensors())
      if (!add_shares(info)) tensors_.push_back(info);
    std::ranges::sort(tensors_, {}, &TensorInfo::name);
  }

  const std::filesystem::path& path() const override { return folder_->path(); }
  const json& config() const override { return folder_->config(); }
  json sidecar(std::string_view file_name) const override { return folder_->sidecar(file_name); }
  std::string metadata(std::string_view key) const override { return folder_->metadata(key); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void release(std::string_view name) const override { folder_->release(stored_name(name)); }
  std::string file_of(std::string_view name) const override { return folder_->file_of(stored_name(name)); }

  TensorView read(std::string_view name) const override {
    const auto part = parts_.find(name);
    if (part == parts_.end()) return folder_->read(name);
    const auto& [stored, share, expert] = part->second;
    const TensorView stack = folder_->read(stored);
    const TensorInfo& info = *find(name);
    return {info.dtype, info.shape,
            dtype_info(info.dtype).block_bytes == 2 ? part_of<uint16_t>(stack, *share, expert)
                                                    : part_of<uint32_t>(stack, *share, expert)};
  }

 private:
  struct Part {
    std::string stored;
    const StackShare* share;
    int64_t expert;
  };

  template <class T>
  static Buffer part_of(const TensorView& stack, const StackShare& share, int64_t expert) {
    const auto elements = stack.data.as<T>();
    const size_t count = elements.size() / static_cast<size_t>(stack.shape[0]);
    return take_columns(elements.subspan(static_cast<size_t>(expert) * count, count), stack.shape.back(),
                        share);
  }

  std::string stored_name(std::string_view name) const {
    const auto part = parts_.find(name);
    return part == parts_.end() ? std::string(name) : part->second.stored;
  }

  bool add_shares(const TensorInfo& info) {
    bool found = false;
    for (const StackShare& share : kStackShares) {
      if (!is_plain_stack(info, share)) continue;
      check(info, share);
      found = true;
      for (int64_t expert = 0; expert < info.shape[0]; ++expert) add_part(info, share, expert);
    }
    return found;
  }

  void check(const TensorInfo& info, const StackShare& share) const {
    const bool sound = info.shape.size() == share.dimensions && info.shape[0] <= kMostExperts &&
                       std::ranges::all_of(info.shape, [](int64_t extent) { return extent > 0; }) &&
                       info.shape.back() % share.step == 0;
    require(sound, ErrorKind::kBadFile, folder_->file_of(info.name), ": tensor '", info.name, "' has shape ",
            info.shape, ", expected [experts, ", share.dimensions == 3 ? "in, " : "",
            share.step == 2 ? "2 x " : "", "out] of at most ", kMostExperts, " experts");
  }

  void add_part(const TensorInfo& info, const StackShare& share, int64_t expert) {
    const std::string module = info.name.substr(0, info.name.size() - std::string_view(share.stack).size());
    const std::string name = cat(module, ".", expert, share.layer);
    require(!folder_->find(name), ErrorKind::kBadFile, folder_->file_of(info.name), ": tensor '", info.name,
            "' holds what '", name, "' holds, too");
    std::vector<int64_t> shape = {info.shape.back() / share.step};
    if (share.dimensions == 3) shape.push_back(info.shape[1]);
    const auto experts = static_cast<uint64_t>(info.shape[0] * share.step);
    tensors_.push_back({name, info.dtype, shape, info.size_bytes / experts});
    parts_.emplace(name, Part{info.name, &share, expert});
  }

  std::unique_ptr<Checkpoint> folder_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, Part, std::less<>> parts_;
};

}  // namespace

std::unique_ptr<Checkpoint> split_interleaved_experts(std::unique_ptr<Checkpoint> folder) {
  return std::make_unique<SplitExperts>(std::move(folder));
}

}  // namespace quaver::models
