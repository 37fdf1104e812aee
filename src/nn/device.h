// The --device flag.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace quaver::apps {

// "auto" (the GPU where this build and machine have one), "cpu", "cuda" or "cuda:1". Error(kInvalidInput) on
// other words, Error(kUnsupported) when there is no such device.
c10::Device parse_device(const std::string& text);

}  // namespace quaver::apps
