// RankGroup's functions in terms of any of c10d's backends.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "nn/c10d_group.h"

namespace quaver::nn {

std::unique_ptr<RankGroup> make_backend_group(c10::intrusive_ptr<c10d::Backend> backend,
                                              const RankGroupOptions& options);

// The first line of what c10d threw, as Error(kUnavailable).
[[noreturn]] void fail_as_group(const std::string& name, const std::exception_ptr& error);

}  // namespace quaver::nn
