#include "nn/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <charconv>

#include "base/error.h"

namespace quaver::nn {

namespace {

template <class... Args>
void check(bool condition, ErrorKind kind, const Args&... args) {
  if (!condition) throw Error(kind, cat(args...), "device");
}

}  // namespace

c10::Device parse_device(const std::string& text) {
  if (text == "cpu") return c10::kCPU;
  bool have = at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  if (text == "auto") return have ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  bool numbered = text.starts_with("cuda:");
  check(text == "cuda" || numbered, ErrorKind::kInvalidInput,
        "device must be auto, cpu, cuda or cuda:N, got '", text, "'");
  check(have, ErrorKind::kUnsupported, "device ", text,
        ": this build and machine have no CUDA device; cpu works everywhere");
  int index = 0;
  if (numbered) {
    auto [end, status] = std::from_chars(text.data() + 5, text.data() + text.size(), index);
    bool whole = status == std::errc() && end == text.data() + text.size();
    check(whole && index >= 0 && index < at::detail::getCUDAHooks().deviceCount(), ErrorKind::kInvalidInput,
          "device ", text, ": there are ", static_cast<int>(at::detail::getCUDAHooks().deviceCount()),
          " devices, counted from 0");
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace quaver::nn
