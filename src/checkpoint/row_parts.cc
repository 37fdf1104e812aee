#include "checkpoint/row_parts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"

namespace quaver {
namespace {

class RowParts : public Checkpoint {
 public:
  RowParts(std::unique_ptr<Checkpoint> stored, std::vector<RowPart> parts) : stored_(std::move(stored)) {
    for (RowPart& part : parts) add(std::move(part));
    std::ranges::sort(tensors_, {}, &TensorInfo::name);
  }

  const std::filesystem::path& path() const override { return stored_->path(); }
  const json& config() const override { return stored_->config(); }
  json sidecar(std::string_view file_name) const override { return stored_->sidecar(file_name); }
  std::string metadata(std::string_view key) const override { return stored_->metadata(key); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void release(std::string_view name) const override { stored_->release(part(name).stored); }
  std::string file_of(std::string_view name) const override { return stored_->file_of(part(name).stored); }
  DType stored_type(std::string_view name) const override { return stored_->stored_type(part(name).stored); }
  TensorView read(std::string_view name) const override {
    return rows_of(part(name), stored_->read(part(name).stored));
  }
  TensorView read_stored(std::string_view name) const override {
    return rows_of(part(name), stored_->read_stored(part(name).stored));
  }

 private:
  const RowPart& part(std::string_view name) const {
    const auto found = parts_.find(name);
    require(found != parts_.end(), ErrorKind::kNotFound, path().string(), ": has no tensor '", name, "'");
    return found->second;
  }

  void add(RowPart part) {
    TensorInfo info = *stored_->find(part.stored);
    info.name = part.name;
    if (part.count >= 0) {
      info.size_bytes =
          info.size_bytes / static_cast<uint64_t>(info.shape[0]) * static_cast<uint64_t>(part.count);
      info.shape[0] = part.count;
    }
    const std::string name = part.name;
    const auto [other, is_new] = parts_.emplace(name, std::move(part));
    require(is_new, ErrorKind::kBadFile, path().string(), ": tensor '", info.name, "' stands in it twice, '",
            other->second.stored, "' is one of the two");
    tensors_.push_back(std::move(info));
  }

  static TensorView rows_of(const RowPart& part, TensorView whole) {
    if (part.count < 0 && !part.halves_swapped) return whole;
    const size_t row = whole.data.size_bytes() / static_cast<size_t>(whole.shape[0]);
    if (part.count >= 0) whole.shape[0] = part.count;
    const auto owner = std::make_shared<Buffer>(whole.data);
    const std::span<const std::byte> bytes = owner->bytes().subspan(
        static_cast<size_t>(part.first) * row, static_cast<size_t>(whole.shape[0]) * row);
    whole.data = part.halves_swapped ? swapped(bytes) : Buffer(bytes, owner);
    return whole;
  }

  static Buffer swapped(std::span<const std::byte> bytes) {
    std::byte* target = nullptr;
    Buffer out = Buffer::allocate(bytes.size(), target);
    const size_t half = bytes.size() / 2;
    std::memcpy(target, bytes.data() + half, bytes.size() - half);
    std::memcpy(target + bytes.size() - half, bytes.data(), half);
    return out;
  }

  std::unique_ptr<Checkpoint> stored_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, RowPart, std::less<>> parts_;
};

}  // namespace

std::unique_ptr<Checkpoint> present_row_parts(std::unique_ptr<Checkpoint> stored,
                                              std::vector<RowPart> parts) {
  return std::make_unique<RowParts>(std::move(stored), std::move(parts));
}

}  // namespace quaver
