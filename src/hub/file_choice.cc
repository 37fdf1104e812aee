#include "hub/file_choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "checkpoint/printable.h"

namespace quaver::hub {
namespace {

// Patterns of files that Quaver never opens when safetensors are there, and what to call them.
struct Needless {
  const char* pattern;
  const char* reason;
};
constexpr std::array kNeedless = {
    Needless{"*.bin", "pickled weights"},
    Needless{"*.pt", "pickled weights"},
    Needless{"*.pth", "pickled weights"},
    Needless{"*.ckpt", "pickled weights"},
    Needless{"*.pkl", "pickled weights"},
    Needless{"*.h5", "weights for other frameworks"},
    Needless{"*.msgpack", "weights for other frameworks"},
    Needless{"*.ot", "weights for other frameworks"},
    Needless{"*.tflite", "weights for other frameworks"},
    Needless{"*.onnx", "weights for other frameworks"},
    Needless{"*.onnx_data*", "weights for other frameworks"},
    Needless{"onnx/*", "weights for other frameworks"},
    Needless{"openvino/*", "weights for other frameworks"},
    Needless{"coreml/*", "weights for other frameworks"},
    Needless{"*.mlpackage/*", "weights for other frameworks"},
    Needless{"*.gguf", "the same weights as GGUF"},
    Needless{"original/*", "the same weights as first published"},
};

bool fits(std::string pattern, const std::string& path) {
  if (pattern.ends_with('/')) pattern += '*';
  return ::fnmatch(pattern.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

bool fits_any(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return fits(p, path); });
}

bool has(const std::vector<RepoFile>& files, const char* pattern) {
  return std::any_of(files.begin(), files.end(), [&](const RepoFile& f) { return fits(pattern, f.path); });
}

const char* needless_reason(const std::string& path, bool has_model_files) {
  for (const Needless& row : kNeedless)
    if (fits(row.pattern, path)) return row.reason;
  return has_model_files && fits("consolidated*.safetensors", path) ? "the same weights as first published"
                                                                    : nullptr;
}

void check_one_gguf(const std::vector<RepoFile>& wanted, std::string_view what) {
  std::string names;
  int count = 0;
  for (const RepoFile& file : wanted)
    if (fits("*.gguf", file.path) && ++count <= 20) names += cat("\n  ", printable(file.path, 200));
  if (count > 20) names += "\n  ...";
  require(count <= 1, ErrorKind::kInvalidInput, what, ": holds ", count,
          " .gguf files; name one as ORG/NAME:FILE, or choose with --include:", names);
}

FileChoice one_file(const std::vector<RepoFile>& files, std::string_view only, std::string_view what) {
  for (const RepoFile& file : files)
    if (file.path == only) return {.wanted = {file}};
  std::string names;
  for (const RepoFile& file : files)
    if (names.size() < 400 && fits("*.gguf", file.path)) names += cat(names.empty() ? "" : ", ", file.path);
  fail(ErrorKind::kNotFound, what, ": has no file ", printable(only),
       names.empty() ? "" : cat("; it has ", printable(names, 500)));
}

// Empty: the file is wanted.
std::string reason_to_skip(const RepoFile& file, const FilePatterns& patterns, bool has_safetensors,
                           bool has_model_files) {
  if (fits_any(patterns.exclude, file.path)) return "excluded";
  if (!patterns.include.empty()) return fits_any(patterns.include, file.path) ? "" : "not included";
  const char* needless = has_safetensors ? needless_reason(file.path, has_model_files) : nullptr;
  return needless != nullptr ? needless : "";
}

}  // namespace

FileChoice choose_files(const std::vector<RepoFile>& files, const FilePatterns& patterns,
                        std::string_view only, std::string_view what) {
  if (!only.empty()) return one_file(files, only, what);
  bool has_safetensors = has(files, "*.safetensors"), has_model_files = has(files, "model*.safetensors");
  FileChoice choice;
  for (const RepoFile& file : files) {
    std::string reason = reason_to_skip(file, patterns, has_safetensors, has_model_files);
    if (reason.empty())
      choice.wanted.push_back(file);
    else
      choice.skipped.push_back({file, reason});
  }
  require(!choice.wanted.empty(), ErrorKind::kNotFound, what, ": no file is left to download of ",
          files.size(), files.empty() ? "" : cat(", such as ", printable(files.front().path)));
  if (patterns.include.empty() && !has_safetensors) check_one_gguf(choice.wanted, what);
  return choice;
}

}  // namespace quaver::hub
