// Flags that only one kind of model has a use for, in commands that run both kinds.
#pragma once

#include <initializer_list>
#include <string>

#include "apps/command.h"
#include "base/error.h"

namespace quaver::apps {

// Also the headings under which --help shows the flags.
constexpr const char* kForText = "Models of text";
constexpr const char* kForPictures = "Models of pictures";

inline void group_under(CLI::App& app, const char* group, std::initializer_list<const char*> names) {
  for (const char* name : names) app.get_option(cat("--", name))->group(group);
}

// A flag that can't have an effect is a mistake, and better told than ignored: Error(kInvalidInput) when one
// of `group` was given.
inline void refuse_given(const char* group, const CLI::App& app, const std::string& model) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == group && option->count() > 0)
      throw Error(
          ErrorKind::kInvalidInput,
          cat("--", option->get_lnames().front(), " is for ",
              group == kForText ? "models of text" : "models of pictures", ", and ", model, " is none"),
          option->get_lnames().front());
}

}  // namespace quaver::apps
