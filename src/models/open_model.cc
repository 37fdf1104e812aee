// A model's files by path, whichever layout they have.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "checkpoint/diffusers_folder.h"
#include "models/gguf_checkpoint.h"
#include "models/llm/causal_lm.h"
#include "models/model_path.h"

namespace quaver::models {

namespace fs = std::filesystem;

namespace {

bool names_family(const json& config, const CausalLmFamily& family) {
  if (const auto type = config.find("model_type"); type != config.end() && !type->is_null())
    return *type == family.model_type;
  const auto architectures = config.find("architectures");
  return architectures != config.end() && architectures->is_array() &&
         std::ranges::find(*architectures, json(family.architecture)) != architectures->end();
}

std::unique_ptr<Checkpoint> presented(std::unique_ptr<Checkpoint> folder) {
  if (!folder->config().is_object()) return folder;
  for (const CausalLmFamily& family : causal_lm_families())
    if (family.present && names_family(folder->config(), family)) return family.present(std::move(folder));
  return folder;
}

}  // namespace

fs::path find_gguf(const fs::path& path) {
  if (path.extension() == ".gguf" && fs::is_regular_file(path)) return path;
  if (!fs::is_directory(path) || fs::exists(path / "config.json")) return {};
  fs::path found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".gguf") continue;
    require(found.empty(), ErrorKind::kInvalidInput, path.string(),
            ": holds several .gguf files; name one of them");
    found = entry.path();
  }
  return found;
}

std::unique_ptr<Checkpoint> open_model(const std::string& folder_or_file) {
  fs::path path = folder_or_file;
  require(fs::exists(path), ErrorKind::kNotFound, folder_or_file, ": does not exist");
  if (fs::path gguf = find_gguf(path); !gguf.empty()) return open_gguf_checkpoint(gguf);
  require(fs::is_directory(path), ErrorKind::kUnsupported, folder_or_file,
          ": is neither a folder nor a .gguf file");
  require(!DiffusersFolder::is(path), ErrorKind::kUnsupported, folder_or_file,
          ": holds a pipeline that makes pictures, and what was asked takes a language model");
  std::unique_ptr<Checkpoint> folder = open_hugging_face_folder(path);
  if (const auto name = folder->config().find("_class_name"); name != folder->config().end())
    throw Error(ErrorKind::kUnsupported,
                cat((path / "config.json").string(), ": key '_class_name' is ", name->dump(),
                    ": this is one component of a pipeline; name the folder that holds model_index.json"),
                "_class_name");
  return presented(std::move(folder));
}

}  // namespace quaver::models
