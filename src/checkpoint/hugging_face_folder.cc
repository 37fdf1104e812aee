// A model folder in the Hugging Face layout: config.json, safetensors or else PyTorch's files, with or
// without an index, JSON files beside.
#include <algorithm>
#include <variant>

#include "checkpoint/checkpoint.h"
#include "checkpoint/contained_path.h"
#include "checkpoint/file_holes.h"
#include "checkpoint/pickle_file.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/weight_files.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

// One file of weights, of either kind.
class Shard {
 public:
  static Shard open(const fs::path& path, bool pickled) {
    Shard shard;
    if (pickled)
      shard.file_ = PickleFile::open(path);
    else
      shard.file_ = SafetensorsFile::open(path);
    return shard;
  }

  const fs::path& path() const {
    return std::visit([](const auto& file) -> const fs::path& { return file.path(); }, file_);
  }
  const std::map<std::string, std::string>& metadata() const {
    return std::visit(
        [](const auto& file) -> const auto& { return file.metadata(); }, file_);
  }
  size_t size() const {
    return std::visit([](const auto& file) { return file.entries().size(); }, file_);
  }
  const TensorInfo& info(size_t entry) const {
    return std::visit([&](const auto& file) -> const TensorInfo& { return file.entries()[entry].info; },
                      file_);
  }
  std::string_view listed_name(size_t entry) const {
    const auto* pickled = std::get_if<PickleFile>(&file_);
    if (pickled == nullptr || pickled->entries()[entry].part_of.empty()) return info(entry).name;
    return pickled->entries()[entry].part_of;
  }
  TensorView read(size_t entry) const {
    return std::visit([&](const auto& file) { return file.read(file.entries()[entry]); }, file_);
  }
  void release(size_t entry) const {
    std::visit([&](const auto& file) { file.release(file.entries()[entry]); }, file_);
  }
  std::vector<TensorRange> ranges() const {
    std::vector<TensorRange> ranges;
    const auto add_all = [&](const auto& file) {
      for (const auto& entry : file.entries())
        ranges.push_back({entry.info.name, entry.offset, entry.info.size_bytes});
    };
    std::visit(add_all, file_);
    return ranges;
  }

 private:
  std::variant<SafetensorsFile, PickleFile> file_;
};

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
      shards_.push_back(Shard::open(contained_path(folder, name, folder.string()), files.pickled));
      warn_about_holes(shards_.back().path(), shards_.back().ranges());
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
    const Shard* first = nullptr;
    std::string text;
    for (const Shard& shard : shards_) {
      const auto found = shard.metadata().find(std::string(key));
      if (found == shard.metadata().end()) continue;
      require(!first || text == found->second, ErrorKind::kBadFile, shard.path().string(), ": its header's ",
              printable(key), " is not that of ", first ? first->path().string() : "");
      first = &shard;
      text = found->second;
    }
    return text;
  }

  TensorView read(std::string_view name) const override {
    const Place place = place_of(name);
    return shards_[place.shard].read(place.entry);
  }
  void release(std::string_view name) const override {
    const Place place = place_of(name);
    shards_[place.shard].release(place.entry);
  }
  std::string file_of(std::string_view name) const override {
    return shards_[place_of(name).shard].path().string();
  }

 private:
  struct Place {
    size_t shard, entry;
  };

  Place place_of(std::string_view name) const {
    const TensorInfo* info = find(name);
    require(info != nullptr, ErrorKind::kNotFound, folder_.string(), ": has no tensor ", printable(name));
    return places_[static_cast<size_t>(info - tensors_.data())];
  }

  const TensorInfo& info_at(Place place) const { return shards_[place.shard].info(place.entry); }

  // All shards' tensors in one list by name; the same name in two shards is an error.
  void gather() {
    for (size_t shard = 0; shard < shards_.size(); ++shard)
      for (size_t entry = 0; entry < shards_[shard].size(); ++entry) places_.push_back({shard, entry});
    std::sort(places_.begin(), places_.end(),
              [&](Place a, Place b) { return info_at(a).name < info_at(b).name; });
    for (size_t i = 0; i < places_.size(); ++i) {
      const TensorInfo& info = info_at(places_[i]);
      if (i > 0 && tensors_.back().name == info.name)
        fail(ErrorKind::kBadFile, shards_[places_[i].shard].path().string(), ": tensor ",
             printable(info.name), " stands in ", shards_[places_[i - 1].shard].path().string(), " too");
      tensors_.push_back(info);
    }
  }

  // The names that an index knows, and where they stand: parts of a tensor under the tensor's own.
  std::map<std::string_view, size_t> shard_by_listed_name() const {
    std::map<std::string_view, size_t> shards;
    for (const Place& place : places_)
      shards.emplace(shards_[place.shard].listed_name(place.entry), place.shard);
    return shards;
  }

  void check_against_index(const WeightFiles& files) const {
    const std::string index = (folder_ / files.index_name).string();
    const auto listed = shard_by_listed_name();
    for (const auto& [tensor, file] : files.weight_map) {
      const auto found = listed.find(tensor);
      require(found != listed.end(), ErrorKind::kBadFile, (folder_ / file).string(), ": has no tensor ",
              printable(tensor), ", which ", index, " promises");
      const fs::path& stands_in = shards_[found->second].path();
      require(stands_in == folder_ / file, ErrorKind::kBadFile, index, ": looks for tensor ",
              printable(tensor), " in ", printable(file), ", but it stands in ", stands_in.string());
    }
    for (const auto& [name, shard] : listed)
      require(files.weight_map.contains(name), ErrorKind::kBadFile, shards_[shard].path().string(),
              ": tensor ", printable(name), " is not listed in ", index);
  }

  fs::path folder_;
  json config_;
  std::vector<Shard> shards_;
  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;  // beside tensors_
};

}  // namespace

std::unique_ptr<Checkpoint> open_hugging_face_folder(const fs::path& folder) {
  std::error_code none;
  require(fs::exists(folder, none), ErrorKind::kNotFound, folder.string(), ": does not exist");
  require(fs::is_directory(folder, none), ErrorKind::kBadFile, folder.string(),
          ": is a file, expected a model folder");
  return std::make_unique<HuggingFaceFolder>(folder);
}

}  // namespace quaver
