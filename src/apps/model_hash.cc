#include "apps/model_hash.h"

#include <algorithm>
#include <span>

#include "hub/hasher.h"

namespace quaver::apps {
namespace {

constexpr size_t kBytesOfTensor = 64;

void hash_text(hub::Hasher& hasher, std::string_view text) {
  const std::string framed = cat(text.size(), ":", text);  // so that no two lists run into one text
  hasher.update(std::as_bytes(std::span(framed)));
}

void hash_component(hub::Hasher& hasher, const Checkpoint& files) {
  hash_text(hasher, files.config().dump());
  for (const TensorInfo& tensor : files.tensors()) {
    hash_text(hasher, cat(tensor.name, " ", dtype_info(tensor.dtype).name, " ", tensor.shape, " ",
                          files.stored_bytes(tensor)));
    const TensorView view = files.read_stored(tensor.name);
    hasher.update(view.data.bytes().first(std::min(kBytesOfTensor, view.data.bytes().size())));
  }
}

}  // namespace

std::string model_hash(const DiffusersFolder& folder) {
  hub::Hasher hasher(std::string(64, '0'), 0);  // the kind of checksum, by its number of digits
  hash_text(hasher, folder.index().dump());
  for (const std::string& name : folder.components()) {
    hash_text(hasher, name);
    if (!folder.component_file(name, "config.json").is_null())
      hash_component(hasher, *folder.component(name));
    hash_text(hasher, folder.component_file(name, "scheduler_config.json").dump());
  }
  return hasher.finish();
}

}  // namespace quaver::apps
