// The fields of a Metaspace component.
#include "text/tokenizer/metaspace.h"

#include <array>
#include <utility>

#include "text/tokenizer/model_fields.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

PrependScheme read_scheme(const json& spec, std::string_view what) {
  constexpr std::array<std::pair<std::string_view, PrependScheme>, 3> kNames = {
      {{"first", PrependScheme::kFirst},
       {"never", PrependScheme::kNever},
       {"always", PrependScheme::kAlways}}};
  const auto name = json_value<std::string>(spec, "prepend_scheme", "always", what);
  for (const auto& [known, scheme] : kNames)
    if (name == known) return scheme;
  fail(ErrorKind::kBadFile, what, ": unknown prepend_scheme '", shown(name), "'");
}

}  // namespace

Metaspace read_metaspace(const json& spec, std::string_view what) {
  Metaspace result;
  result.replacement.clear();
  utf8_append(result.replacement, read_character(spec, "replacement", what));
  result.scheme = read_scheme(spec, what);
  result.split = json_value(spec, "split", true, what);
  // Older files say add_prefix_space instead.
  if (!json_value(spec, "add_prefix_space", true, what)) {
    require(!spec.contains("prepend_scheme") || result.scheme == PrependScheme::kNever, ErrorKind::kBadFile,
            what, ": add_prefix_space is false and prepend_scheme is not 'never'");
    result.scheme = PrependScheme::kNever;
  }
  return result;
}

}  // namespace quaver::text
