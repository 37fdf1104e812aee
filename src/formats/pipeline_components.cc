#include "formats/pipeline_components.h"

#include <memory>

namespace quaver {

std::vector<PipelineComponent> pipeline_components(const DiffusersFolder& folder) {
  std::vector<PipelineComponent> out;
  for (const std::string& name : folder.components()) {
    if (folder.component_file(name, "config.json").is_null()) continue;
    const std::unique_ptr<Checkpoint> files = folder.component(name);
    PipelineComponent part{
        .name = name, .class_name = folder.component_class(name), .format = detect_format(*files)};
    for (const TensorInfo& tensor : files->tensors())
      part.bytes += static_cast<int64_t>(files->stored_bytes(tensor));
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace quaver
