// The device that a word on the command line or in the options names.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace quaver::nn {

// "auto" (the GPU where this build and machine have one), "cpu", "cuda" or "cuda:1". Error(kInvalidInput) on
// other words, Error(kUnsupported) when there is no such device.
c10::Device parse_device(const std::string& text);

}  // namespace quaver::nn
