// What every subcommand has in common: a table row, flags in both spellings, and environment variables.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/cat.h"

namespace quaver::apps {

// One row of the table in commands.cc. `add` declares the flags on `app` and returns the job, which gives the
// exit status (0 done, 1 failed); wrong usage is status 2 and is handled before the job runs.
struct Command {
  const char* name;
  const char* summary;
  std::function<int()> (*add)(CLI::App& app);
};

// "--batch_size,--batch-size": the underscore spelling of auto-round and the hyphen spelling of everybody
// else.
inline std::string both_spellings(std::string_view name) {
  std::string hyphens(name), underscores(name);
  std::replace(hyphens.begin(), hyphens.end(), '_', '-');
  std::replace(underscores.begin(), underscores.end(), '-', '_');
  return hyphens == underscores ? cat("--", name) : cat("--", hyphens, ",--", underscores);
}

template <class T>
CLI::Option* add_flag(CLI::App& app, std::string_view name, T& value, const std::string& help) {
  return app.add_option(both_spellings(name), value, help)->capture_default_str();
}

inline CLI::Option* add_switch(CLI::App& app, std::string_view name, bool& value, const std::string& help) {
  return app.add_flag(both_spellings(name), value, help);
}

// "--enable-x" and "--no-enable-x", as vLLM has them; the last one given counts.
inline CLI::Option* add_on_off(CLI::App& app, std::string_view name, bool& value, const std::string& help) {
  auto negated = [](std::string spellings) {
    for (size_t at = 0; (at = spellings.find("--", at)) != std::string::npos; at += 3)
      spellings.replace(at, 2, "!--");
    return spellings;
  };
  return app.add_flag(cat(both_spellings(name), ",", negated(both_spellings(cat("no-", name)))), value, help)
      ->default_str(value ? "on" : "off");
}

// "QUAVER_MAX_NUM_SEQS" for max-num-seqs; set on every option of a server-like command.
inline void name_environment_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    std::string name = cat("QUAVER_", option->get_lnames().front());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    option->envname(name);
  }
}

// The model argument: positional, or --model / --model_name as auto-round spells it.
inline void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL,--model,--model_name,--model-name", model,
                 "a folder in Hugging Face layout, a .gguf file, or a repository id: ORG/NAME, ORG/NAME:FILE")
      ->required();
}

}  // namespace quaver::apps
