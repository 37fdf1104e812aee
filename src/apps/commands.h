// The table of subcommands.
#pragma once

#include <span>
#include <string>

#include "apps/command.h"

namespace quaver::apps {

std::span<const Command> all_commands();

// What `--version` prints: version, libtorch, processor features.
std::string version_text();

std::function<int()> add_pull(CLI::App& app);
std::function<int()> add_quantize(CLI::App& app);
std::function<int()> add_serve(CLI::App& app);
std::function<int()> add_chat(CLI::App& app);
std::function<int()> add_generate(CLI::App& app);
std::function<int()> add_inspect(CLI::App& app);
std::function<int()> add_convert(CLI::App& app);
std::function<int()> add_eval(CLI::App& app);
std::function<int()> add_compare(CLI::App& app);
std::function<int()> add_bench(CLI::App& app);
std::function<int()> add_completion(CLI::App& app);

}  // namespace quaver::apps
