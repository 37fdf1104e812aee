#include "checkpoint/pickle_file.h"

#include <cstring>

#include "checkpoint/mapped_tensor.h"

namespace quaver {
namespace {

// Row-major, element by element. Precondition: strides.size() == shape.size(), no extent is 0.
Buffer gather(std::span<const std::byte> from, const PickledTensor& entry) {
  const auto width = static_cast<size_t>(dtype_info(entry.info.dtype).block_bytes);
  const std::vector<int64_t>& shape = entry.info.shape;
  std::vector<int64_t> index(shape.size());
  std::byte* target = nullptr;
  Buffer gathered = Buffer::allocate(entry.info.size_bytes, target);
  size_t at = 0;  // elements
  for (size_t done = 0; done < entry.info.size_bytes; done += width) {
    std::memcpy(target + done, from.data() + at * width, width);
    for (size_t i = shape.size(); i-- > 0;) {
      const auto stride = static_cast<size_t>(entry.strides[i]);
      at += stride;
      if (++index[i] < shape[i]) break;
      at -= stride * static_cast<size_t>(shape[i]);
      index[i] = 0;
    }
  }
  return gathered;
}

}  // namespace

PickleFile PickleFile::open(const std::filesystem::path& path) {
  PickleFile opened;
  opened.file_ = MappedFile::open(path);
  opened.contents_ = read_pickled_tensors(opened.file_->bytes(), path.string());
  return opened;
}

TensorView PickleFile::read(const PickledTensor& entry) const {
  const auto bytes = file_->bytes().subspan(entry.offset, entry.span_bytes);
  if (entry.strides.empty()) return mapped_tensor(entry.info, bytes, file_);
  return {entry.info.dtype, entry.info.shape, gather(bytes, entry)};
}

void PickleFile::release(const PickledTensor& entry) const {
  release_pages(file_->bytes().subspan(entry.offset, entry.span_bytes));
}

}  // namespace quaver
