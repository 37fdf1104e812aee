// QuaverError: what the library throws, and what a request ends with, in one Python class.
#include "server/errors.h"

#include <optional>

#include "binding/bindings.h"

namespace quaver::python {

namespace py = pybind11;

namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return "invalid_input";
    case ErrorKind::kBadFile:
      return "bad_file";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kOutOfMemory:
      return "out_of_memory";
    case ErrorKind::kNonFinite:
      return "non_finite";
    case ErrorKind::kUnavailable:
      return "unavailable";
    case ErrorKind::kInternal:
      break;
  }
  return "internal";
}

// Never destroyed: the interpreter may be gone by then.
py::handle g_class;

void raise(const Error& error) {
  const py::object exception = exception_of(error);
  PyErr_SetObject(g_class.ptr(), exception.ptr());
}

}  // namespace

py::object exception_of(const Error& error) {
  const server::ApiError api = server::to_api_error(error, false);
  py::object exception = g_class(error.what());
  exception.attr("kind") = kind_name(error.kind());
  exception.attr("field") = error.field();
  exception.attr("status_code") = api.status;
  exception.attr("error_type") = api.type;
  return exception;
}

void bind_errors(py::module_& module) {
  PyObject* made = PyErr_NewExceptionWithDoc("quaver.QuaverError",
                                             "What went wrong, in one sentence: kind, field, status_code and "
                                             "error_type say who is to blame.",
                                             PyExc_RuntimeError, nullptr);
  if (made == nullptr) throw py::error_already_set();
  g_class = made;
  g_class.attr("kind") = kind_name(ErrorKind::kInternal);
  g_class.attr("field") = "";
  g_class.attr("status_code") = 500;
  g_class.attr("error_type") = "InternalServerError";
  module.attr("QuaverError") = g_class;
  py::register_exception_translator([](std::exception_ptr exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace quaver::python
