// The parts of the extension module _quaver; python/quaver/_quaver.pyi says what each gives to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "base/error.h"
#include "media/image.h"

namespace quaver::python {

// Pictures as the engines share them; immutable.
struct Picture {
  std::shared_ptr<const Image> image;
};
struct Mask {
  std::shared_ptr<const GrayImage> image;
};

// QuaverError with the fields that replies of the server have.
pybind11::object exception_of(const Error& error);

void bind_errors(pybind11::module_& module);
void bind_pictures(pybind11::module_& module);
void bind_requests(pybind11::module_& module);
void bind_engines(pybind11::module_& module);

}  // namespace quaver::python
