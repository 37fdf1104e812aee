#include "checkpoint/diffusers_folder.h"

#include <algorithm>
#include <utility>

#include "checkpoint/contained_path.h"
#include "checkpoint/printable.h"
#include "checkpoint/tensor_file.h"

namespace quaver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model_index.json";
constexpr const char* kQuantization = "quantization_config";

// A component under settings that stand at the root of its pipeline.
class UnderRootSettings : public Checkpoint {
 public:
  UnderRootSettings(std::unique_ptr<Checkpoint> component, json settings)
      : component_(std::move(component)), config_(component_->config()) {
    config_[kQuantization] = std::move(settings);
  }
  const fs::path& path() const override { return component_->path(); }
  const json& config() const override { return config_; }
  json sidecar(std::string_view file_name) const override { return component_->sidecar(file_name); }
  std::string metadata(std::string_view key) const override { return component_->metadata(key); }
  const std::vector<TensorInfo>& tensors() const override { return component_->tensors(); }
  TensorView read(std::string_view name) const override { return component_->read(name); }
  DType stored_type(std::string_view name) const override { return component_->stored_type(name); }
  TensorView read_stored(std::string_view name) const override { return component_->read_stored(name); }
  void release(std::string_view name) const override { component_->release(name); }
  std::string file_of(std::string_view name) const override { return component_->file_of(name); }

 private:
  std::unique_ptr<Checkpoint> component_;
  json config_;
};

bool has_settings(const Checkpoint& component) {
  return component.config().contains(kQuantization) ||
         !component.sidecar(cat(kQuantization, ".json")).is_null();
}

}  // namespace

bool DiffusersFolder::is(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / kIndex, none);
}

DiffusersFolder DiffusersFolder::open(const fs::path& folder) {
  std::error_code none;
  require(fs::is_directory(folder, none), ErrorKind::kNotFound, folder.string(), ": is no folder");
  require(is(folder), ErrorKind::kNotFound, folder.string(), ": has no ", kIndex,
          "; expected a folder in the diffusers layout");
  DiffusersFolder out;
  out.path_ = folder;
  const std::string file = (folder / kIndex).string();
  out.index_ = read_json_file(contained_path(folder, kIndex, folder.string()).string());
  require(out.index_.is_object(), ErrorKind::kBadFile, file, ": is not a JSON object");
  json_required<std::string>(out.index_, "_class_name", file);
  return out;
}

std::string DiffusersFolder::class_name() const { return index_.at("_class_name").get<std::string>(); }

bool DiffusersFolder::has(std::string_view component) const { return !component_class(component).empty(); }

std::string DiffusersFolder::component_class(std::string_view component) const {
  const auto entry = index_.find(component);
  if (entry == index_.end() || !entry->is_array() || entry->size() != 2 || !entry->at(1).is_string())
    return {};
  return entry->at(1).get<std::string>();
}

fs::path DiffusersFolder::component_path(std::string_view component) const {
  require(has(component), ErrorKind::kNotFound, (path_ / kIndex).string(), ": names no component ",
          printable(component));
  const fs::path folder = contained_path(path_, component, (path_ / kIndex).string());
  require(fs::is_directory(folder), ErrorKind::kBadFile, folder.string(),
          ": is a file, expected the folder of ", component_class(component));
  return folder;
}

json DiffusersFolder::component_file(std::string_view component, std::string_view file_name) const {
  const fs::path folder = component_path(component);
  check_contained_name(file_name, folder.string());
  std::error_code none;
  if (!fs::exists(fs::symlink_status(folder / file_name, none))) return nullptr;
  return read_json_file(contained_path(path_, cat(component, "/", file_name), folder.string()).string());
}

void DiffusersFolder::use_file(std::string_view component, const fs::path& file) {
  component_path(component);
  std::error_code none;
  require(fs::is_regular_file(file, none), ErrorKind::kNotFound, file.string(), ": is no file");
  files_[std::string(component)] = file;
}

// What stands for the component's folder of weights; empty: nothing does.
fs::path DiffusersFolder::file_of(std::string_view component) const {
  if (const auto given = files_.find(component); given != files_.end()) return given->second;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(component_path(component))) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".bin") return {};
    if (extension == ".gguf") found.push_back(entry.path());
  }
  require(found.size() <= 1, ErrorKind::kInvalidInput, component_path(component).string(),
          ": holds several .gguf files; name one of them, or leave one");
  if (found.empty()) return {};
  return contained_path(path_, cat(component, "/", found.front().filename().string()), path_.string());
}

std::unique_ptr<Checkpoint> DiffusersFolder::component(std::string_view component) const {
  if (const fs::path file = file_of(component); !file.empty()) {
    json config = component_file(component, "config.json");
    require(config.is_object(), ErrorKind::kNotFound, component_path(component).string(),
            ": has no config.json, which tells the shape of what ", file.string(), " holds");
    config.erase(kQuantization);  // of the weights that the file replaces
    return open_tensor_file(file, std::move(config));
  }
  std::unique_ptr<Checkpoint> files = open_hugging_face_folder(component_path(component));
  if (!component.starts_with("transformer") || has_settings(*files)) return files;
  json settings = root_quantization();
  if (settings.is_null()) return files;
  return std::make_unique<UnderRootSettings>(std::move(files), std::move(settings));
}

std::vector<std::string> DiffusersFolder::components() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : index_.items())
    if (has(name)) names.push_back(name);
  return names;
}

json DiffusersFolder::root_quantization() const {
  if (const auto found = index_.find(kQuantization); found != index_.end()) return *found;
  const std::string file = cat(kQuantization, ".json");
  std::error_code none;
  if (!fs::exists(fs::symlink_status(path_ / file, none))) return nullptr;
  return read_json_file(contained_path(path_, file, path_.string()).string());
}

}  // namespace quaver
