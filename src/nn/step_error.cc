#include "nn/step_error.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

namespace quaver::nn {

Error step_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError&) {
    return Error(ErrorKind::kOutOfMemory, "the device ran out of memory while computing this request");
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kOutOfMemory, "memory ran out while computing this request");
  } catch (const std::exception& error) {
    std::string_view what = error.what();
    return Error(ErrorKind::kInternal, cat("a step of the model failed: ", what.substr(0, what.find('\n'))));
  } catch (...) {
    return Error(ErrorKind::kInternal, "a step of the model failed");
  }
}

}  // namespace quaver::nn
