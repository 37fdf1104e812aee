#include "quantize/output_folder.h"

#include <algorithm>
#include <array>

#include "base/mapped_file.h"
#include "base/remove_tree.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "job.json";  // what an interrupted run was begun with

bool occupied(const fs::path& folder) {
  return fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder));
}

void require_same_job(const fs::path& record, const json& fingerprint, const fs::path& partial) {
  json before = read_json_file(record.string());
  for (const auto& [key, value] : fingerprint.items())
    require(before.contains(key) && before.at(key) == value, ErrorKind::kInvalidInput,
            "can't resume: ", partial.string(), " was begun with another ", key, " (",
            before.value(key, json()).dump().substr(0, 80), ", now ", value.dump().substr(0, 80),
            "); give the same arguments, or --overwrite to start over");
}

fs::path without_trailing_slash(const fs::path& path) {
  fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path with_suffix(fs::path path, const char* suffix) {
  path += suffix;
  return path;
}

bool is_weight_file(const fs::path& path) {
  constexpr std::array kEndings = {".safetensors", ".bin", ".pt",      ".pth", ".ckpt",
                                   ".gguf",        ".h5",  ".msgpack", ".onnx"};
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end() ||
         path.filename().string().ends_with(".index.json");
}

bool is_replaced(const fs::path& relative) {
  constexpr std::array kNames = {"config.json",          "quantization_config.json", "hf_quant_config.json",
                                 "quantize_config.json", "quant_config.json",        "report.json",
                                 "report.html"};
  return std::find(kNames.begin(), kNames.end(), relative.string()) != kNames.end();
}

bool is_hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(),
                     [](const fs::path& p) { return p.string().starts_with("."); });
}

fs::path partial_of(const fs::path& target) { return with_suffix(target, ".partial"); }

}  // namespace

void require_free_output(const fs::path& target, bool resume, bool overwrite) {
  const fs::path folder = without_trailing_slash(target), partial = partial_of(folder);
  require(!occupied(folder) || overwrite, ErrorKind::kInvalidInput, folder.string(),
          " exists and is not empty; choose another --output_dir or give --overwrite");
  require(!fs::exists(partial / kRecord) || resume || overwrite, ErrorKind::kInvalidInput, partial.string(),
          " holds an interrupted run; --resume continues it, --overwrite starts over");
}

OutputFolder::OutputFolder(const fs::path& target, const json& fingerprint, bool resume, bool overwrite)
    : target_(without_trailing_slash(target)), partial_(partial_of(target_)) {
  require_free_output(target_, resume, overwrite);
  fs::path record = partial_ / kRecord;
  if (resume && fs::exists(record)) {
    require_same_job(record, fingerprint, partial_);
    return;
  }
  remove_tree(partial_);
  fs::create_directories(partial_);
  write_file_atomically(record, fingerprint.dump(1) + "\n");
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!resumable_ && fs::exists(partial_, ignored)) remove_tree(partial_);
}

void OutputFolder::publish() {
  fs::path replaced = with_suffix(target_, ".replaced");
  if (fs::exists(target_)) fs::rename(target_, replaced);
  fs::rename(result(), target_);
  remove_tree(replaced);
  remove_tree(partial_);
}

MadeFolders::MadeFolders(const fs::path& folder) {
  for (fs::path path = fs::absolute(without_trailing_slash(folder)); !fs::exists(path);
       path = path.parent_path())
    made_.push_back(path);
  fs::create_directories(folder);
}

MadeFolders::~MadeFolders() {
  std::error_code not_empty;
  for (const fs::path& path : made_) fs::remove(path, not_empty);
}

void copy_pipeline(const fs::path& source, const std::set<std::string>& components, const fs::path& target) {
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (!entry.is_regular_file()) continue;
    const fs::path relative = fs::relative(entry.path(), source);
    if (components.contains(relative.begin()->string()) || is_hidden(relative)) continue;
    if (relative.extension() == ".py") continue;
    if (relative.parent_path().empty() && is_replaced(relative)) continue;
    fs::create_directories((target / relative).parent_path());
    fs::copy_file(entry.path(), target / relative, fs::copy_options::overwrite_existing);
  }
}

std::vector<std::string> copy_sidecars(const fs::path& source, const fs::path& target) {
  std::vector<std::string> left_out;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (!entry.is_regular_file()) continue;
    fs::path relative = fs::relative(entry.path(), source);
    if (is_weight_file(relative) || is_replaced(relative) || is_hidden(relative)) continue;
    if (relative.extension() == ".py") {
      left_out.push_back(relative.string());
      continue;
    }
    fs::create_directories((target / relative).parent_path());
    fs::copy_file(entry.path(), target / relative, fs::copy_options::overwrite_existing);
  }
  std::sort(left_out.begin(), left_out.end());
  return left_out;
}

}  // namespace quaver::quantize
