// The one error object that every route answers with, and how the library's errors become one.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "server/http_types.h"

namespace quaver::server {

// {"error": {"message", "type", "param", "code"}} on its way: thrown by handlers, sent by the dispatcher.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string type, std::string message, std::string param = {});
  int status;
  std::string type;
  std::string param;       // empty = null
  std::string request_id;  // added to the object when not empty
  int retry_after_s = 0;   // 0 = no Retry-After header
};

// 400 for what a handler refuses although the body is well formed; `param` names the field.
ApiError refused(std::string message, std::string param = {});
// A status of HTTP itself (404, 405, 413 ...) with its usual type.
ApiError http_error(int status, std::string_view message);
// `draining` decides between 503 and 429 for kUnavailable.
ApiError to_api_error(const Error& error, bool draining);
// Of any exception: ApiError, Error, else a 500 that says nothing of the inside.
ApiError to_api_error(std::exception_ptr error, bool draining);

nlohmann::ordered_json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

std::string_view reason_phrase(int status);
// File paths become their last component, memory addresses "0x...": neither is a client's business.
std::string scrub(std::string_view message);

}  // namespace quaver::server
