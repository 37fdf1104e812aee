#include "checkpoint/weight_files.h"

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

// The two kinds of weights, and what their usual files are called.
struct Kind {
  std::string_view ending;
  std::vector<std::string_view> files;  // the index of each has the same name with ".index.json"
};

const Kind kSafetensors = {".safetensors", {"model.safetensors", "diffusion_pytorch_model.safetensors"}};
const Kind kPickled = {".bin", {"pytorch_model.bin", "diffusion_pytorch_model.bin"}};
constexpr std::string_view kIndexEnding = ".index.json";

struct Listing {
  std::vector<std::string> safetensors, safetensors_indexes, pickles, pickle_indexes;
};

bool is_pickle_name(std::string_view file_name) {
  constexpr std::array<std::string_view, 6> kEndings = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](auto ending) { return file_name.ends_with(ending); });
}

Listing list_folder(const fs::path& folder) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(cat(kSafetensors.ending, kIndexEnding))) found.safetensors_indexes.push_back(name);
    if (name.ends_with(cat(kPickled.ending, kIndexEnding))) found.pickle_indexes.push_back(name);
    if (name.ends_with(kSafetensors.ending)) found.safetensors.push_back(name);
    if (is_pickle_name(name)) found.pickles.push_back(name);
  }
  require(!error, ErrorKind::kNotFound, folder.string(), ": can't be listed: ", error.message());
  for (auto* names : {&found.safetensors, &found.safetensors_indexes, &found.pickles, &found.pickle_indexes})
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

WeightFiles read_index(const fs::path& folder, const std::string& index_name, const Kind& kind) {
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
    check_contained_name(name, what);
    require(name.ends_with(kind.ending), ErrorKind::kUnsupported, what, ": names ", printable(name),
            ", expected files that end in '", kind.ending, "'");
    contained_path(folder, name, what);
  }
  files.names.assign(names.begin(), names.end());
  return files;
}

[[noreturn]] void fail_without_weights(const fs::path& folder, const std::vector<std::string>& pickles) {
  require(pickles.empty(), ErrorKind::kUnsupported, folder.string(), ": holds pickle files (", join(pickles),
          ") but no safetensors, no ", kPickled.files[0], " and no ", kPickled.files[0], kIndexEnding,
          " that says which belong; convert them to safetensors, or take a revision that has them");
  fail(ErrorKind::kNotFound, folder.string(), ": holds no safetensors file");
}

// The usual file that stands in the folder; empty when none does.
std::string usual_file(const Kind& kind, const std::vector<std::string>& files) {
  for (const std::string_view name : kind.files)
    if (contains(files, name)) return std::string(name);
  return {};
}

// The index that counts: that of a usual name, else the only one there is.
std::string choose_index(const fs::path& folder, const Kind& kind, const std::vector<std::string>& indexes,
                         const std::vector<std::string>& files) {
  for (const std::string_view name : kind.files)
    if (contains(indexes, cat(name, kIndexEnding))) return cat(name, kIndexEnding);
  if (indexes.empty() || !usual_file(kind, files).empty()) return {};
  require(indexes.size() == 1, ErrorKind::kBadFile, folder.string(), ": holds several indexes (",
          join(indexes), ") and none called ", kind.files[0], kIndexEnding);
  return indexes.front();
}

WeightFiles single_safetensors(const fs::path& folder, const Listing& found) {
  if (const std::string usual = usual_file(kSafetensors, found.safetensors); !usual.empty())
    return {.names = {usual}};
  require(found.safetensors.size() == 1, ErrorKind::kBadFile, folder.string(), ": holds ",
          found.safetensors.size(), " safetensors files (", join(found.safetensors), ") but no ",
          kSafetensors.files[0], kIndexEnding, " that says which belong");
  return {.names = {found.safetensors.front()}};
}

void check_leftover(const fs::path& folder, const Kind& kind, const std::vector<std::string>& found,
                    const WeightFiles& files) {
  const std::string usual = usual_file(kind, found);
  require(usual.empty() || files.index_name != cat(usual, kIndexEnding) || contains(files.names, usual),
          ErrorKind::kBadFile, folder.string(), ": holds ", usual,
          " and an index that does not name it; remove "
          "whichever is left over from an earlier export");
}

WeightFiles find_pickles(const fs::path& folder, const Listing& found) {
  const std::string index = choose_index(folder, kPickled, found.pickle_indexes, found.pickles);
  const std::string usual = usual_file(kPickled, found.pickles);
  if (index.empty() && usual.empty()) fail_without_weights(folder, found.pickles);
  WeightFiles files = index.empty() ? WeightFiles{.names = {usual}} : read_index(folder, index, kPickled);
  files.pickled = true;
  check_leftover(folder, kPickled, found.pickles, files);
  log_info(folder.string(), ": reading tensors from pickles (", join(files.names),
           "); nothing in them is run");
  return files;
}

bool has_usual_pickles(const Listing& found) {
  return !usual_file(kPickled, found.pickles).empty() ||
         std::any_of(kPickled.files.begin(), kPickled.files.end(), [&](std::string_view name) {
           return contains(found.pickle_indexes, cat(name, kIndexEnding));
         });
}

void log_ignored(const fs::path& folder, const Listing& found, const WeightFiles& files) {
  std::vector<std::string> others = found.safetensors;
  std::erase_if(others, [&](const std::string& name) { return contains(files.names, name); });
  if (!others.empty())
    log_info(folder.string(), ": ignoring ", join(others), ", which the model's weights do not name");
  if (!found.pickles.empty())
    log_info(folder.string(), ": ignoring pickle files (", join(found.pickles), ") in favour of safetensors");
}

}  // namespace

WeightFiles find_weight_files(const fs::path& folder) {
  const Listing found = list_folder(folder);
  const std::string index = choose_index(folder, kSafetensors, found.safetensors_indexes, found.safetensors);
  const bool usual = !index.empty() || !usual_file(kSafetensors, found.safetensors).empty();
  if (!usual && (found.safetensors.empty() || has_usual_pickles(found))) return find_pickles(folder, found);
  WeightFiles files =
      index.empty() ? single_safetensors(folder, found) : read_index(folder, index, kSafetensors);
  check_leftover(folder, kSafetensors, found.safetensors, files);
  log_ignored(folder, found, files);
  return files;
}

}  // namespace quaver
