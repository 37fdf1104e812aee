#include "checkpoint/safetensors_index.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/contained_path.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kUsualIndex = "model.safetensors.index.json";
constexpr std::string_view kUsualFile = "model.safetensors";

struct Listing {
  std::vector<std::string> indexes, safetensors, pickles;
};

Listing list_folder(const fs::path& folder) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(kIndexEnding)) found.indexes.push_back(name);
    if (name.ends_with(".safetensors")) found.safetensors.push_back(name);
    if (is_pickle_name(name)) found.pickles.push_back(name);
  }
  require(!error, ErrorKind::kNotFound, folder.string(), ": can't be listed: ", error.message());
  for (auto* names : {&found.indexes, &found.safetensors, &found.pickles})
    std::sort(names->begin(), names->end());
  return found;
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 5; ++i) out += cat(i ? ", " : "", names[i]);
  return names.size() > 5 ? cat(out, " and ", names.size() - 5, " more") : out;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

WeightFiles read_index(const fs::path& folder, const std::string& index_name) {
  std::string what = contained_path(folder, index_name, folder.string()).string();
  json index = read_json_file(what);
  require(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
          ErrorKind::kBadFile, what, ": has no object 'weight_map'");
  WeightFiles files;
  files.index_name = index_name;
  std::set<std::string> names;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    require(file.is_string(), ErrorKind::kBadFile, what, ": weight_map entry ", printable(tensor),
            " is not a string");
    files.weight_map.emplace(tensor, file.get<std::string>());
    names.insert(file.get<std::string>());
  }
  require(!names.empty(), ErrorKind::kBadFile, what, ": 'weight_map' is empty");
  for (const std::string& name : names) {
    require(!is_pickle_name(name), ErrorKind::kUnsupported, what, ": names the pickle file ", printable(name),
            ", which could run code when loaded; convert it to safetensors first");
    contained_path(folder, name, what);
  }
  files.names.assign(names.begin(), names.end());
  return files;
}

[[noreturn]] void fail_without_safetensors(const fs::path& folder, const std::vector<std::string>& pickles) {
  require(pickles.empty(), ErrorKind::kUnsupported, folder.string(), ": holds only pickle weights (",
          join(pickles),
          "), which could run code when loaded and are never opened; convert them to safetensors in a "
          "sandbox, e.g. "
          "with transformers' save_pretrained, or take a revision that has safetensors");
  fail(ErrorKind::kNotFound, folder.string(), ": holds no safetensors file");
}

// The index that counts: the usual name, else the only one there is.
std::string choose_index(const fs::path& folder, const Listing& found) {
  if (contains(found.indexes, kUsualIndex)) return std::string(kUsualIndex);
  if (found.indexes.empty() || contains(found.safetensors, kUsualFile)) return {};
  require(found.indexes.size() == 1, ErrorKind::kBadFile, folder.string(), ": holds several indexes (",
          join(found.indexes), ") and none called ", kUsualIndex);
  return found.indexes.front();
}

WeightFiles single_file(const fs::path& folder, const Listing& found) {
  if (contains(found.safetensors, kUsualFile)) return {{std::string(kUsualFile)}, {}, {}};
  require(found.safetensors.size() == 1, ErrorKind::kBadFile, folder.string(), ": holds ",
          found.safetensors.size(), " safetensors files (", join(found.safetensors), ") but no ", kUsualIndex,
          " that says which belong");
  return {{found.safetensors.front()}, {}, {}};
}

}  // namespace

bool is_pickle_name(std::string_view file_name) {
  constexpr std::array<std::string_view, 6> kEndings = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](auto ending) { return file_name.ends_with(ending); });
}

WeightFiles find_weight_files(const fs::path& folder) {
  Listing found = list_folder(folder);
  std::string index_name = choose_index(folder, found);
  if (index_name.empty() && found.safetensors.empty()) fail_without_safetensors(folder, found.pickles);
  WeightFiles files = index_name.empty() ? single_file(folder, found) : read_index(folder, index_name);
  require(index_name != kUsualIndex || !contains(found.safetensors, kUsualFile) ||
              contains(files.names, kUsualFile),
          ErrorKind::kBadFile, folder.string(), ": holds ", kUsualFile,
          " and an index that does not name it; remove "
          "whichever is left over from an earlier export");
  std::erase_if(found.safetensors, [&](const std::string& name) { return contains(files.names, name); });
  if (!found.safetensors.empty())
    log_info(folder.string(), ": ignoring ", join(found.safetensors),
             ", which the model's weights do not name");
  if (!found.pickles.empty())
    log_info(folder.string(), ": ignoring pickle files (", join(found.pickles), ") in favour of safetensors");
  return files;
}

}  // namespace quaver
