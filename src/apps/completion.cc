// quaver completion: a shell completion script made from the table of commands and their flags.
#include <cstdio>
#include <map>

#include "apps/commands.h"
#include "base/error.h"

namespace quaver::apps {
namespace {

// Command -> its flags, from the very declarations that parsing uses.
std::map<std::string, std::string> flags_of_commands() {
  std::map<std::string, std::string> flags;
  for (const Command& command : all_commands()) {
    CLI::App app;
    command.add(app);
    std::string& text = flags[command.name];
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) text += cat(text.empty() ? "" : " ", "--", name);
  }
  return flags;
}

std::string command_names() {
  std::string names;
  for (const Command& command : all_commands()) names += cat(names.empty() ? "" : " ", command.name);
  return names;
}

std::string bash_script() {
  std::string script = cat("_quaver() {\n  local current=${COMP_WORDS[COMP_CWORD]}\n  local words=\"",
                           command_names(), " --help --version\"\n  case ${COMP_WORDS[1]} in\n");
  for (const auto& [name, flags] : flags_of_commands())
    script += cat("    ", name, ") words=\"", flags, "\" ;;\n");
  return script + "  esac\n  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\"" + command_names() +
         " --help --version\"; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- "
         "\"$current\"))\n}\n"
         "complete -F _quaver quaver\n";
}

std::string fish_script() {
  std::string script;
  for (const Command& command : all_commands())
    script +=
        cat("complete -c quaver -n __fish_use_subcommand -a ", command.name, " -d '", command.summary, "'\n");
  for (const auto& [name, flags] : flags_of_commands())
    for (size_t at = 0; at < flags.size();) {
      size_t end = std::min(flags.find(' ', at), flags.size());
      script += cat("complete -c quaver -n '__fish_seen_subcommand_from ", name, "' -l ",
                    std::string_view(flags).substr(at + 2, end - at - 2), "\n");
      at = end + 1;
    }
  return script;
}

}  // namespace

std::function<int()> add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell] {
    std::string script = *shell == "fish" ? fish_script() : bash_script();
    if (*shell == "zsh") script = "autoload -U +X bashcompinit && bashcompinit\n" + script;
    std::fputs(script.c_str(), stdout);
    return 0;
  };
}

}  // namespace quaver::apps
