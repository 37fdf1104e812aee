#include "text/jinja/args.h"

namespace quaver::jinja {

Bound::Bound(const Args& args, std::string_view function, std::initializer_list<const char*> names,
             size_t required)
    : function_(function), values_(names.size()) {
  if (args.positional.size() > names.size())
    fault(function, "() takes at most ", names.size(), " arguments (", args.positional.size(), " given)");
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = args.positional[i];
  for (const auto& [name, value] : args.keyword) {
    size_t i = 0;
    while (i < names.size() && (*names.begin()[i] == '\0' || names.begin()[i] != name)) ++i;
    if (i == names.size()) fault(function, "() got an unexpected keyword argument '", name, "'");
    if (values_[i]) fault(function, "() got multiple values for argument '", name, "'");
    values_[i] = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!values_[i]) fault(function, "() missing required argument ", i + 1, " ('", names.begin()[i], "')");
}

const std::string& Bound::text(size_t i) const {
  if (!values_[i] || !values_[i]->is_string())
    fault(function_, "() argument ", i + 1, " must be str, not ", type_name(get(i)));
  return values_[i]->str();
}

int64_t Bound::integer(size_t i) const {
  if (values_[i] && values_[i]->is_undefined()) undefined_error(*values_[i]);
  if (!values_[i] || !values_[i]->is_integral())
    fault("'", type_name(get(i)), "' object cannot be interpreted as an integer");
  return values_[i]->as_int();
}

}  // namespace quaver::jinja
