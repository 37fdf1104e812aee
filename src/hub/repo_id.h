// What a user calls a model on the hub: org/name, with a revision and a file if wanted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quaver::hub {

struct RepoName {
  std::string id;                 // "org/name", or a bare "name" as the oldest models have it
  std::string revision = "main";  // a branch, a tag, or a commit
  std::string file;               // one file of the repository; empty = the model as a whole
};

// "org/name", "org/name@revision", "org/name:file.gguf", "org/name@revision:folder/file.gguf". Nothing when
// the text is not of that form: 1 to 96 of A-Z a-z 0-9 - _ . in one or two parts, none of which begins or
// ends with - or ., and without "--", ".." or a final ".git", which is what the hub allows.
std::optional<RepoName> parse_repo_name(std::string_view text);

// True for what can stand as a folder below refs/ and in a URL: no "..", no absolute path, no control
// character.
bool is_revision(std::string_view text);

// The 40 hexadecimal digits of a commit.
bool is_commit(std::string_view text);

}  // namespace quaver::hub
