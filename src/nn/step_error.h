// What a step of a model threw, as the error that its requests end with.
#pragma once

#include <exception>

#include "base/error.h"

namespace quaver::nn {

// An Error as it is; memory that ran out, on the device or the host, is kOutOfMemory, all else kInternal.
Error step_error(const std::exception_ptr& exception);

}  // namespace quaver::nn
