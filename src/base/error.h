// What went wrong, in one sentence a user can act on: the typed error that every folder throws.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/cat.h"

namespace quaver {

// Who is to blame, which decides the HTTP status and the exit code.
enum class ErrorKind {
  kInvalidInput,  // a request, flag or field the caller can correct (HTTP 400, exit 2 for flags)
  kBadFile,       // a file that is cut, lying or of an unknown kind
  kNotFound,      // a path, repository or name that does not exist
  kUnsupported,   // understood, and not something this build can do
  kOutOfMemory,   // a plan or an allocation that does not fit
  kNonFinite,     // NaN or infinity where a number was due
  kUnavailable,   // try again later: queue full, shutting down, remote not answering
  kInternal,      // a broken invariant inside Quaver
};

// The one exception type. `field` is the dotted path of the request field, tensor or config key at
// fault, empty when no single one is. Messages are whole sentences: file, tensor or field, expected, got.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, std::string field = {})
      : std::runtime_error(std::move(message)), kind_(kind), field_(std::move(field)) {}
  ErrorKind kind() const { return kind_; }
  const std::string& field() const { return field_; }

 private:
  ErrorKind kind_;
  std::string field_;
};

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, const Args&... args) {
  throw Error(kind, cat(args...));
}

template <class... Args>
void require(bool condition, ErrorKind kind, const Args&... args) {
  if (!condition) [[unlikely]]
    fail(kind, args...);
}

}  // namespace quaver
