// Any bytes as a PyTorch file: tensors that all lie inside the file, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "checkpoint/pickle_reader.h"
#include "checkpoint/pickle_tensors.h"

// The whole file, and the same bytes as a bare pickle: an archive is hard to guess.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& tensor : quaver::read_pickled_tensors(file, "x.bin").tensors)
      if (tensor.offset > size || tensor.span_bytes > size - tensor.offset) std::abort();
  } catch (const quaver::Error&) {
  }
  try {
    if (quaver::read_pickle(file, "x.bin").root == nullptr) std::abort();
  } catch (const quaver::Error&) {
  }
  return 0;
}
