// The extension module quaver._quaver: requests in, events out. All that users see is written in Python above
// it.
#include <torch/version.h>

#include "binding/bindings.h"

PYBIND11_MODULE(_quaver, module) {
  using namespace quaver::python;
  module.attr("__version__") = QUAVER_VERSION;
  module.attr("TORCH_VERSION") = TORCH_VERSION;
  bind_errors(module);
  bind_pictures(module);
  bind_requests(module);
  bind_engines(module);
}
