#include "checkpoint/staged_tensors.h"

#include <algorithm>
#include <cctype>

#include "base/remove_tree.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_writer.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kEnding = ".safetensors";

bool is_part_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

TensorInfo info_of(const NamedTensor& named) {
  return {named.name, named.tensor.dtype, named.tensor.shape, named.tensor.data.size_bytes()};
}

}  // namespace

StagedTensors::StagedTensors(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, ErrorKind::kBadFile, folder.string(), ": can't be created: ", error.message());
  std::vector<fs::path> partial;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".partial")) partial.push_back(entry.path());
    if (!name.ends_with(kEnding)) continue;
    name.resize(name.size() - kEnding.size());
    parts_.emplace(name, SafetensorsFile::open(entry.path()));
  }
  for (const fs::path& path : partial) fs::remove(path);
}

std::vector<std::string> StagedTensors::parts() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : parts_) names.push_back(name);
  return names;
}

void StagedTensors::write(std::string_view part, const std::vector<NamedTensor>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  require(is_part_name(part), ErrorKind::kInternal, "part name ", printable(part),
          " is not a plain file name");
  drop(part);
  std::map<std::string, const NamedTensor*> by_name;
  std::vector<TensorInfo> infos;
  for (const NamedTensor& named : tensors) {
    const SafetensorsFile* other = find_file(named.name);
    require(other == nullptr, ErrorKind::kInvalidInput, "tensor ", printable(named.name),
            " is staged already");
    by_name[named.name] = &named;
    infos.push_back(info_of(named));
  }
  fs::path path = folder_ / cat(part, kEnding);
  write_safetensors_file(
      path, infos, [&](const TensorInfo& info) { return by_name.at(info.name)->tensor; }, metadata);
  parts_.emplace(part, SafetensorsFile::open(path));
}

const std::map<std::string, std::string>& StagedTensors::metadata(std::string_view part) const {
  auto it = parts_.find(part);
  require(it != parts_.end(), ErrorKind::kNotFound, folder_.string(), ": has no part ", printable(part));
  return it->second.metadata();
}

void StagedTensors::drop(std::string_view part) {
  auto it = parts_.find(part);
  if (it == parts_.end()) return;
  fs::remove(it->second.path());
  parts_.erase(it);
}

std::vector<TensorInfo> StagedTensors::tensors() const {
  std::vector<TensorInfo> all;
  for (const auto& [name, file] : parts_)
    for (const auto& entry : file.entries()) all.push_back(entry.info);
  return all;
}

const SafetensorsFile* StagedTensors::find_file(std::string_view name) const {
  for (const auto& [part, file] : parts_)
    if (file.find(name) != nullptr) return &file;
  return nullptr;
}

TensorView StagedTensors::read(std::string_view name) const {
  const SafetensorsFile* file = find_file(name);
  require(file != nullptr, ErrorKind::kNotFound, folder_.string(), ": no part has a tensor ",
          printable(name));
  TensorView view = file->read(name);
  view.data = Buffer::copy_of(view.data.bytes());
  file->release(*file->find(name));
  return view;
}

void StagedTensors::clear() {
  parts_.clear();
  remove_tree(folder_);
}

}  // namespace quaver
