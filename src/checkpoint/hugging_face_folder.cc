// A model folder in the Hugging Face layout: config.json, safetensors with or without an index, JSON files
// beside.
#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/contained_path.h"
#include "checkpoint/file_holes.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_index.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

class HuggingFaceFolder : public Checkpoint {
 public:
  explicit HuggingFaceFolder(const fs::path& folder) : folder_(folder) {
    config_ = sidecar("config.json");
    require(!config_.is_null(), ErrorKind::kNotFound, folder.string(),
            ": has no config.json; expected a model folder in the Hugging Face layout");
    require(config_.is_object(), ErrorKind::kBadFile, (folder / "config.json").string(),
            ": is not a JSON object");
    WeightFiles files = find_weight_files(folder);
    for (const std::string& name : files.names) {
      shards_.push_back(SafetensorsFile::open(contained_path(folder, name, folder.string())));
      warn_about_holes(shards_.back());
    }
    gather();
    if (!files.index_name.empty()) check_against_index(files);
  }

  const fs::path& path() const override { return folder_; }
  const json& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  json sidecar(std::string_view file_name) const override {
    check_contained_name(file_name, folder_.string());
    std::error_code none;
    if (!fs::exists(fs::symlink_status(folder_ / file_name, none))) return nullptr;
    return read_json_file(contained_path(folder_, file_name, folder_.string()).string());
  }

  std::string metadata(std::string_view key) const override {
    const SafetensorsFile* first = nullptr;
    std::string text;
    for (const SafetensorsFile& shard : shards_) {
      const auto found = shard.metadata().find(std::string(key));
      if (found == shard.metadata().end()) continue;
      require(!first || text == found->second, ErrorKind::kBadFile, shard.path().string(), ": its header's ",
              printable(key), " is not that of ", first ? first->path().string() : "");
      first = &shard;
      text = found->second;
    }
    return text;
  }

  TensorView read(std::string_view name) const override { return shard_of(name).read(name); }
  void release(std::string_view name) const override {
    const SafetensorsFile& shard = shard_of(name);
    shard.release(*shard.find(name));
  }
  std::string file_of(std::string_view name) const override { return shard_of(name).path().string(); }

 private:
  const SafetensorsFile& shard_of(std::string_view name) const {
    const TensorInfo* info = find(name);
    require(info != nullptr, ErrorKind::kNotFound, folder_.string(), ": has no tensor ", printable(name));
    return shards_[shard_numbers_[static_cast<size_t>(info - tensors_.data())]];
  }

  // All shards' tensors in one list by name; the same name in two shards is an error.
  void gather() {
    std::vector<std::pair<const TensorInfo*, size_t>> all;
    for (size_t shard = 0; shard < shards_.size(); ++shard)
      for (const auto& entry : shards_[shard].entries()) all.emplace_back(&entry.info, shard);
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.first->name < b.first->name; });
    for (const auto& [info, shard] : all) {
      if (!tensors_.empty() && tensors_.back().name == info->name)
        fail(ErrorKind::kBadFile, shards_[shard].path().string(), ": tensor ", printable(info->name),
             " stands in ", shards_[shard_numbers_.back()].path().string(), " too");
      tensors_.push_back(*info);
      shard_numbers_.push_back(shard);
    }
  }

  void check_against_index(const WeightFiles& files) const {
    std::string index = (folder_ / files.index_name).string();
    for (const auto& [tensor, file] : files.weight_map) {
      const TensorInfo* info = find(tensor);
      require(info != nullptr, ErrorKind::kBadFile, (folder_ / file).string(), ": has no tensor ",
              printable(tensor), ", which ", index, " promises");
      require(file_of(tensor) == (folder_ / file).string(), ErrorKind::kBadFile, index, ": looks for tensor ",
              printable(tensor), " in ", printable(file), ", but it stands in ", file_of(tensor));
    }
    for (const TensorInfo& info : tensors_)
      require(files.weight_map.contains(info.name), ErrorKind::kBadFile, file_of(info.name), ": tensor ",
              printable(info.name), " is not listed in ", index);
  }

  fs::path folder_;
  json config_;
  std::vector<SafetensorsFile> shards_;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> shard_numbers_;  // beside tensors_
};

}  // namespace

std::unique_ptr<Checkpoint> open_hugging_face_folder(const fs::path& folder) {
  std::error_code none;
  require(fs::exists(folder, none), ErrorKind::kNotFound, folder.string(), ": does not exist");
  bool is_file = !fs::is_directory(folder, none);
  require(!is_file || !is_pickle_name(folder.filename().string()), ErrorKind::kUnsupported, folder.string(),
          ": is a pickle file, which could run code when loaded and is never opened; convert it to "
          "safetensors first");
  require(!is_file, ErrorKind::kBadFile, folder.string(), ": is a file, expected a model folder");
  return std::make_unique<HuggingFaceFolder>(folder);
}

}  // namespace quaver
