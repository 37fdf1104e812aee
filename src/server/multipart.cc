#include "server/multipart.h"

#include <algorithm>
#include <array>

#include "base/cat.h"
#include "server/errors.h"

namespace quaver::server {
namespace {

constexpr std::string_view kFormType = "multipart/form-data";

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

template <class... Args>
[[noreturn]] void refuse_form(const Args&... args) {
  throw ApiError(400, "Bad Request", cat("the form is malformed: ", args...), "body");
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

// The next `name=value` behind a semicolon; values are tokens or quoted, with backslashes before quotes and
// backslashes (elsewhere they stand for themselves, as in paths). Nothing at the end.
struct Parameter {
  std::string name, value;
};
std::optional<Parameter> next_parameter(std::string_view& rest) {
  skip_blanks(rest);
  if (rest.empty()) return std::nullopt;
  if (rest.front() != ';') refuse_form("expected ';' between the parameters of a header");
  rest.remove_prefix(1);
  skip_blanks(rest);
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos || equals == 0) refuse_form("expected NAME=VALUE in a header");
  Parameter out{lower_case(rest.substr(0, equals)), {}};
  rest.remove_prefix(equals + 1);
  if (!rest.starts_with('"')) {
    const size_t end = std::min(rest.find_first_of("; \t"), rest.size());
    out.value = rest.substr(0, end);
    rest.remove_prefix(end);
    return out;
  }
  size_t at = 1;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    const bool escaped =
        rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\');
    out.value.push_back(rest[escaped ? ++at : at]);
  }
  if (at == rest.size()) refuse_form("a quoted value in a header does not end");
  rest.remove_prefix(at + 1);
  return out;
}

std::string boundary_of(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  std::string_view rest = type ? std::string_view(*type) : std::string_view();
  if (lower_case(rest.substr(0, kFormType.size())) != kFormType)
    throw ApiError(400, "Bad Request", cat("this route takes a body of Content-Type ", kFormType), "");
  rest.remove_prefix(kFormType.size());
  std::string boundary;
  while (auto parameter = next_parameter(rest))
    if (parameter->name == "boundary") boundary = parameter->value;
  const bool good = !boundary.empty() && boundary.size() <= 70 && !boundary.ends_with(' ') &&
                    std::ranges::all_of(boundary, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (!good) refuse_form("the Content-Type names no boundary of 1 to 70 printable characters");
  return boundary;
}

class FormReader {
 public:
  FormReader(std::string_view body, const std::string& boundary, const FormLimits& limits)
      : rest_(body), delimiter_(cat("\r\n--", boundary)), limits_(limits) {}

  std::vector<FormPart> read() {
    if (!rest_.starts_with(std::string_view(delimiter_).substr(2)))
      refuse_form("the body does not begin with the boundary of its Content-Type");
    rest_.remove_prefix(delimiter_.size() - 2);
    std::vector<FormPart> parts;
    while (another()) {
      if (parts.size() == limits_.parts) refuse_form("it has more than ", limits_.parts, " parts");
      FormPart part = read_header(parts.size() + 1);
      const size_t end = rest_.find(delimiter_);
      if (end == std::string_view::npos) refuse_form("part '", part.name, "' is cut off");
      part.data = rest_.substr(0, end);
      rest_.remove_prefix(end + delimiter_.size());
      parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  // Behind a boundary: "--" ends the form, a line break begins a part.
  bool another() {
    if (rest_.starts_with("--")) return false;
    skip_blanks(rest_);
    if (!rest_.starts_with("\r\n")) refuse_form("a boundary is not followed by a line break");
    rest_.remove_prefix(2);
    return true;
  }

  FormPart read_header(size_t number) {
    FormPart part;
    bool named = false;
    for (size_t used = 0;;) {
      const size_t end = rest_.substr(0, limits_.header_bytes).find("\r\n");
      if (end == std::string_view::npos || (used += end) > limits_.header_bytes)
        refuse_form("the header of part ", number, " is cut off or longer than ", limits_.header_bytes,
                    " bytes");
      const std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(end + 2);
      if (line.empty()) break;
      named |= read_line(line, number, part);
    }
    if (!named || part.name.empty()) refuse_form("part ", number, " has no name");
    return part;
  }

  // True for the line that names the part.
  static bool read_line(std::string_view line, size_t number, FormPart& part) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) refuse_form("a header line of part ", number, " has no colon");
    const std::string field = lower_case(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    skip_blanks(value);
    if (field == "content-transfer-encoding") {
      static constexpr std::array<std::string_view, 3> kPlain = {"binary", "8bit", "7bit"};
      if (std::ranges::find(kPlain, lower_case(value)) == kPlain.end())
        refuse_form("part ", number, " is encoded; send it as it is");
    }
    if (field != "content-disposition") return false;
    constexpr std::string_view kDisposition = "form-data";
    if (lower_case(value.substr(0, kDisposition.size())) != kDisposition)
      refuse_form("part ", number, " is no form-data");
    value.remove_prefix(kDisposition.size());
    while (auto parameter = next_parameter(value)) {
      if (parameter->name == "name") part.name = std::move(parameter->value);
      if (parameter->name.starts_with("filename")) part.file_name = std::move(parameter->value);
    }
    return true;
  }

  std::string_view rest_;
  const std::string delimiter_;
  const FormLimits limits_;
};

}  // namespace

std::vector<FormPart> parse_form(const HttpRequest& request, const FormLimits& limits) {
  return FormReader(request.body, boundary_of(request), limits).read();
}

}  // namespace quaver::server
