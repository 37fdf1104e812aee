#include "quantize/gguf_export.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_types.h"
#include "models/gguf_checkpoint.h"
#include "models/gguf_special_tokens.h"
#include "models/llm/causal_lm.h"
#include "models/model_path.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

std::string_view type_name(DType type) { return gguf_tensor_type(type)->name; }

// The number that stands for a file of mostly this type.
uint32_t file_type_of(DType type) {
  const auto* mix = models::find_gguf_mix(type_name(type));
  constexpr uint32_t kAllF32 = 0, kGuessed = 1024;
  return mix ? mix->file_type : type == DType::kF32 ? kAllF32 : kGuessed;
}

class GgufExporter {
 public:
  GgufExporter(GgufModel& model, const GgufExportOptions& options, ProgressSink& progress)
      : model_(model), options_(options), progress_(progress) {
    if (options.mix.empty()) return;
    mix_ = models::find_gguf_mix(options.mix);
    require(mix_ != nullptr, ErrorKind::kInvalidInput, "a GGUF can be one of ", models::gguf_mix_names(),
            "; got '", options.mix, "'");
  }

  GgufExportReport run() {
    plan();
    GgufMetadata metadata;
    model_.add_metadata(metadata, /*rounded=*/mix_ != nullptr);
    complete(metadata);
    size_t done = 0;
    auto source = [&](const TensorInfo& info) {
      GgufBlocks blocks = model_.blocks(done, info.dtype);
      if (info.shape.size() > 1) ++fates_[blocks.fate];
      progress_.update(static_cast<int64_t>(++done), static_cast<int64_t>(infos_.size()), info.name);
      return TensorView{info.dtype, info.shape, std::move(blocks.bytes)};
    };
    write_gguf(options_.output, metadata, infos_, source,
               [this](const fs::path& partial) { check_written(partial); });
    return report();
  }

 private:
  DType type_of(size_t index, const models::GgufModelFacts& facts) {
    const GgufStoredTensor& tensor = model_.tensors()[index];
    if (mix_ == nullptr) return model_.kept_type(index);
    const auto choice = models::choose_gguf_type(*mix_, facts, tensor.name, tensor.shape);
    if (choice.type != choice.wanted)
      ++fallbacks_[cat(type_name(choice.type), " in place of ", type_name(choice.wanted))];
    return choice.type;
  }

  void plan() {
    const models::GgufModelFacts facts = model_.facts();
    for (size_t i = 0; i < model_.tensors().size(); ++i) {
      const GgufStoredTensor& tensor = model_.tensors()[i];
      TensorInfo info{tensor.name, type_of(i, facts), tensor.shape, 0};
      const DTypeInfo& type = dtype_info(info.dtype);
      uint64_t elements = 1;
      for (int64_t extent : info.shape) elements *= static_cast<uint64_t>(extent);
      info.size_bytes =
          elements / static_cast<uint64_t>(type.block_elements) * static_cast<uint64_t>(type.block_bytes);
      if (info.shape.size() > 1) types_[info.dtype] += elements;
      infos_.push_back(std::move(info));
    }
  }

  void complete(GgufMetadata& metadata) const {
    if (!metadata.has("general.type")) metadata.add_string("general.type", "model");
    fs::path name = fs::absolute(options_.model).lexically_normal();
    if (!name.has_filename()) name = name.parent_path();
    if (!metadata.has("general.name")) metadata.add_string("general.name", name.filename().string());
    const auto most = std::ranges::max_element(types_, {}, [](const auto& type) { return type.second; });
    const DType main_type = most == types_.end() ? DType::kF32 : most->first;
    metadata.add_u32("general.file_type", mix_ ? mix_->file_type : file_type_of(main_type));
    const bool blocks =
        std::ranges::any_of(types_, [](const auto& type) { return is_gguf_block_type(type.first); });
    constexpr uint32_t kQuantizationVersion = 2;
    if (blocks) metadata.add_u32("general.quantization_version", kQuantizationVersion);
  }

  void check_written(const fs::path& partial) const {
    try {
      models::open_gguf_checkpoint(partial);
      const GgufFile file = GgufFile::open(partial);
      if (model_.makes_vocabulary() && file.find("tokenizer.ggml.model"))
        tokenizer_from_gguf(models::gguf_vocabulary(file), partial.string());
    } catch (const Error& error) {
      fail(ErrorKind::kInternal, "what was written can't be read back: ", error.what());
    }
  }

  GgufExportReport report() const {
    constexpr std::array<std::string_view, 4> kWords = {
        "copied as they were", "with the same values",
        "with the same codes, scales rounded to half precision", "rounded"};
    GgufExportReport report;
    for (const TensorInfo& info : infos_) report.bytes += static_cast<int64_t>(info.size_bytes);
    report.what = mix_ ? std::string(mix_->name) : "as it was";
    std::string_view before = ": ";
    for (const auto& [fate, count] : fates_) {
      report.what +=
          cat(before, count, before == ": " ? " matrices " : " ", kWords[static_cast<size_t>(fate)]);
      before = ", ";
    }
    std::string types;
    for (const auto& [words, count] : fallbacks_)
      types += cat(types.empty() ? "" : ", ", words, " (", count, ")");
    if (!types.empty())
      report.notes.push_back("rows that don't fill the blocks of a type have another: " + types);
    return report;
  }

  GgufModel& model_;
  const GgufExportOptions& options_;
  ProgressSink& progress_;
  const models::GgufMix* mix_ = nullptr;
  std::vector<TensorInfo> infos_;
  std::map<DType, uint64_t> types_;  // elements of matrices
  std::map<ValueFate, int64_t> fates_;
  std::map<std::string, int64_t> fallbacks_;
};

void check_output(const GgufExportOptions& options) {
  require(options.output.extension() == ".gguf", ErrorKind::kInvalidInput,
          "a GGUF is one file: --output must end in "
          ".gguf, got '",
          options.output.string(), "'");
  if (!fs::exists(options.output)) return;
  require(fs::is_regular_file(options.output) && options.overwrite, ErrorKind::kInvalidInput,
          options.output.string(), " exists; choose another --output or give --overwrite");
  const fs::path source = models::find_gguf(options.model);
  require(!fs::equivalent(options.output, source.empty() ? fs::path(options.model) : source),
          ErrorKind::kInvalidInput, "--output ", options.output.string(), " is the model itself");
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

GgufExportReport export_gguf(GgufModel& model, const GgufExportOptions& options, ProgressSink& progress) {
  return GgufExporter(model, options, progress).run();
}

GgufExportReport export_gguf(const GgufExportOptions& options, ProgressSink& progress) {
  check_output(options);
  const fs::path gguf = models::find_gguf(options.model);
  std::unique_ptr<GgufModel> model =
      gguf.empty()
          ? gguf_model_of_folder({.checkpoint = models::open_model(options.model), .path = options.model})
          : gguf_model_of_file(gguf.string());
  return export_gguf(*model, options, progress);
}

std::optional<std::string> gguf_mix_of(std::string_view target) {
  std::string name(target);
  std::ranges::transform(name, name.begin(), lower);
  if (name == "gguf") return "";
  if (!name.starts_with("gguf:") || name.size() == 5) return std::nullopt;
  return name.substr(5);
}

}  // namespace quaver::quantize
