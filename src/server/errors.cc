#include "server/errors.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace quaver::server {
namespace {

struct StatusRow {
  int status;
  std::string_view reason;
};
constexpr std::array kStatuses = {
    StatusRow{200, "OK"},
    StatusRow{204, "No Content"},
    StatusRow{400, "Bad Request"},
    StatusRow{401, "Unauthorized"},
    StatusRow{404, "Not Found"},
    StatusRow{405, "Method Not Allowed"},
    StatusRow{408, "Request Timeout"},
    StatusRow{409, "Conflict"},
    StatusRow{413, "Payload Too Large"},
    StatusRow{415, "Unsupported Media Type"},
    StatusRow{422, "Unprocessable Entity"},
    StatusRow{429, "Too Many Requests"},
    StatusRow{431, "Request Header Fields Too Large"},
    StatusRow{500, "Internal Server Error"},
    StatusRow{501, "Not Implemented"},
    StatusRow{503, "Service Unavailable"},
    StatusRow{504, "Gateway Timeout"},
};

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
         c == '_' || c == '-' || c == '+' || c == '@' || c == '~';
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

ApiError::ApiError(int status_, std::string type_, std::string message, std::string param_)
    : std::runtime_error(std::move(message)),
      status(status_),
      type(std::move(type_)),
      param(std::move(param_)) {}

ApiError refused(std::string message, std::string param) {
  return ApiError(400, "BadRequestError", std::move(message), std::move(param));
}

ApiError http_error(int status, std::string_view message) {
  std::string type = status == 500   ? "InternalServerError"
                     : status == 501 ? "NotImplementedError"
                                     : std::string(reason_phrase(status));
  ApiError error(status, std::move(type), std::string(message));
  if (status == 503 || status == 429) error.retry_after_s = 1;
  return error;
}

ApiError to_api_error(const Error& error, bool draining) {
  std::string param = error.field().empty() || error.field().starts_with("body.")
                          ? error.field()
                          : cat("body.", error.field());
  switch (error.kind()) {
    case ErrorKind::kInvalidInput:
      return ApiError(400, "Bad Request", error.what(), param);
    case ErrorKind::kUnsupported:
      return ApiError(400, "BadRequestError", error.what(), param);
    case ErrorKind::kNotFound:
      return ApiError(404, "NotFoundError", error.what(), param);
    case ErrorKind::kUnavailable:
      return http_error(draining ? 503 : 429, error.what());
    case ErrorKind::kOutOfMemory: {
      ApiError out = http_error(503, error.what());
      out.type = "out_of_memory";
      return out;
    }
    case ErrorKind::kBadFile:
    case ErrorKind::kNonFinite:
    case ErrorKind::kInternal:
      break;
  }
  return http_error(500, error.what());
}

ApiError to_api_error(std::exception_ptr error, bool draining) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& e) {
    return e;
  } catch (const Error& e) {
    return to_api_error(e, draining);
  } catch (const std::bad_alloc&) {
    ApiError out = http_error(503, "there is not enough memory for this request");
    out.type = "out_of_memory";
    return out;
  } catch (const std::exception& e) {
    log_error("a request failed inside the server: ", e.what());
    return http_error(500, "the request failed inside the server");
  }
}

nlohmann::ordered_json error_json(const ApiError& error) {
  nlohmann::ordered_json inner = {{"message", scrub(error.what())}, {"type", error.type}};
  inner["param"] = error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  inner["code"] = error.status;
  if (!error.request_id.empty()) {
    inner["request_id"] = error.request_id;
    inner["error_stage_id"] = 0;
  }
  return {{"error", std::move(inner)}};
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (error.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::string_view reason_phrase(int status) {
  auto row = std::find_if(kStatuses.begin(), kStatuses.end(),
                          [&](const StatusRow& r) { return r.status == status; });
  return row == kStatuses.end() ? "Unknown" : row->reason;
}

std::string scrub(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size();) {
    bool starts_word = i == 0 || !is_path_character(message[i - 1]);
    size_t end = i;
    while (end < message.size() && is_path_character(message[end])) ++end;
    std::string_view word = message.substr(i, end - i);
    if (starts_word && word.starts_with('/') && std::count(word.begin(), word.end(), '/') >= 2 &&
        !word.starts_with("/v1/") && !word.starts_with("//")) {
      size_t slash = word.find_last_of('/', word.size() - 2);
      out += word.substr(slash + 1);
      i = end;
    } else if (starts_word && word.starts_with("0x") && word.size() >= 8 &&
               std::all_of(word.begin() + 2, word.end(), is_hex)) {
      out += "0x...";
      i = end;
    } else {
      out.push_back(message[i++]);
    }
  }
  return out;
}

}  // namespace quaver::server
