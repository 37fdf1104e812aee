#include "quantize/export.h"

#include <set>

#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "formats/format.h"
#include "models/tokenizer_files.h"
#include "quantize/output_folder.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

std::vector<TensorInfo> tensors_of_result(const ExportedModel& model) {
  std::vector<TensorInfo> tensors = model.staged.tensors();
  std::set<std::string> staged;
  for (const TensorInfo& info : tensors) staged.insert(info.name);
  for (const TensorInfo& info : model.source.tensors())
    if (!staged.contains(info.name) && !model.is_replaced(info.name)) tensors.push_back(info);
  return tensors;
}

void write_weights(const ExportedModel& model, const std::vector<TensorInfo>& tensors,
                   const fs::path& folder) {
  std::set<std::string> staged;
  for (const TensorInfo& info : model.staged.tensors()) staged.insert(info.name);
  std::string last;  // its pages may go once the next tensor is asked for
  auto read = [&](const TensorInfo& info) {
    if (!last.empty()) model.source.release(last);
    last = staged.contains(info.name) ? "" : info.name;
    return staged.contains(info.name) ? model.staged.read(info.name) : model.source.read(info.name);
  };
  write_safetensors(folder, tensors, read, {.max_shard_bytes = model.max_shard_bytes});
  if (!last.empty()) model.source.release(last);
}

void write_json(const fs::path& path, const json& value) {
  write_file_atomically(path, value.dump(2) + "\n");
}

// A single-file source has no sidecars to copy: they are written from what the file carries.
void write_sidecars(const ExportedModel& model, const fs::path& folder) {
  write_file_atomically(folder / "tokenizer.json",
                        models::open_tokenizer(model.source_path)->to_tokenizer_json());
  for (const char* name : {"generation_config.json", "tokenizer_config.json"}) {
    json value = model.source.sidecar(name);
    if (value.is_null()) continue;
    write_json(folder / name, value);
    if (value.contains("chat_template") && value["chat_template"].is_string())
      write_file_atomically(folder / "chat_template.jinja", value["chat_template"].get<std::string>());
  }
}

void read_back(const fs::path& folder) {
  std::unique_ptr<Checkpoint> written = open_hugging_face_folder(folder);
  const Format* format = detect_format(*written);
  if (format == nullptr) return;
  for (const std::string& layer : quantized_layers(*written, *format)) {
    LayerPlan plan = format->plan(*written, layer);
    validate(format->unpack(plan, *written), cat(folder.string(), ": ", layer));
    for (const std::string& tensor : plan.tensors) written->release(tensor);
  }
}

void write_settings_file(const ExportedModel& model, const fs::path& folder) {
  const json& settings = model.config.at("quantization_config");
  auto* layout = model.format->settings_of_file;
  write_json(folder / model.format->settings_file, layout ? layout(settings) : settings);
}

}  // namespace

std::string writable_format_names() {
  std::string names;
  for (const Format& format : all_formats())
    if (format.pack != nullptr)
      names += cat(names.empty() ? "" : ", ", format.tool_name ? format.tool_name : format.name);
  return names;
}

int64_t export_model(const ExportedModel& model, const fs::path& folder) {
  if (fs::is_directory(model.source_path)) {
    for (const std::string& code : copy_sidecars(model.source_path, folder))
      log_warning(code, " holds code and was not copied");
  } else {
    write_sidecars(model, folder);
  }
  write_json(folder / "config.json", model.config);
  if (model.format != nullptr) write_settings_file(model, folder);
  std::vector<TensorInfo> tensors = tensors_of_result(model);
  write_weights(model, tensors, folder);
  try {
    read_back(folder);
  } catch (const Error& e) {
    fail(ErrorKind::kInternal, "what was written can't be read back: ", e.what());
  }
  int64_t bytes = 0;
  for (const TensorInfo& info : tensors) bytes += static_cast<int64_t>(info.size_bytes);
  return bytes;
}

}  // namespace quaver::quantize
