// Any bytes as a GGUF file: values and tensors that can all be read and dequantized, or an Error.
#include <cstdint>
#include <span>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_dequantize.h"

namespace {

size_t use(const quaver::GgufValue& value) {
  size_t sum = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    if (auto text = value.string(i)) sum += text->empty() ? 0 : static_cast<size_t>(text->back());
    sum += value.number(i).has_value() + value.integer(i).has_value() + value.boolean(i).has_value();
  }
  for (const auto& inner : value.arrays) sum += use(inner);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  static volatile size_t sink = 0;
  try {
    auto contents = quaver::parse_gguf(file, "x.gguf");
    for (const auto& [key, value] : contents.metadata) sink = sink + use(value);
    for (const auto& entry : contents.entries) {
      auto blocks = file.subspan(entry.offset, entry.info.size_bytes);
      quaver::TensorView view{entry.info.dtype, entry.info.shape, quaver::Buffer(blocks, nullptr)};
      if (quaver::can_dequantize_gguf(view.dtype)) sink = sink + quaver::gguf_dequantize(view).size();
    }
  } catch (const quaver::Error&) {
  }
  return 0;
}
