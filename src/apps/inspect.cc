// quaver inspect: what a model is made of, layer by layer, and which kernel would run it.
#include <cstdio>

#include "apps/commands.h"
#include "apps/layer_list.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/json.h"
#include "checkpoint/diffusers_folder.h"
#include "formats/pipeline_components.h"
#include "models/dit/dit.h"
#include "models/llm/causal_lm.h"

namespace quaver::apps {
namespace {

struct InspectFlags {
  std::string model, quantization;
  bool as_json = false;
};

// Those of the blocks, and the head where it is quantized.
std::vector<Layer> layers_of(models::CausalLm& model) {
  std::vector<Layer> layers;
  for (int64_t i = 0; i < model.info().num_layers; ++i)
    for (auto& linear : model.block(i).linears())
      layers.push_back(layer_of(cat(model.info().blocks_prefix, ".", i, ".", linear.name), *linear.linear));
  const nn::Linear* head = model.head();
  if (head && head->quant_weight()) layers.push_back(layer_of(model.info().head, *head));
  return layers;
}

json to_json(const models::CausalLmInfo& info, const std::string& format, const std::vector<Layer>& layers,
             int64_t total_bytes) {
  return {{"family", info.family},
          {"format", format},
          {"layers", info.num_layers},
          {"hidden_size", info.hidden_size},
          {"vocab_size", info.vocab_size},
          {"heads", info.num_heads},
          {"kv_heads", info.num_kv_heads},
          {"head_dim", info.head_dim},
          {"max_position_embeddings", info.max_position_embeddings},
          {"tied_embeddings", info.tied_embeddings},
          {"bytes", total_bytes},
          {"linears", layers_json(layers)}};
}

void print_headline(const models::CausalLmInfo& info, const std::string& format) {
  std::printf("%s, %s: %ld layers, hidden %ld, %ld/%ld heads of %ld, vocabulary %ld, context %ld%s\n",
              info.family.c_str(), format.c_str(), info.num_layers, info.hidden_size, info.num_heads,
              info.num_kv_heads, info.head_dim, info.vocab_size, info.max_position_embeddings,
              info.tied_embeddings ? ", tied embeddings" : "");
}

int64_t stored_bytes(const Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors())
    bytes += static_cast<int64_t>(checkpoint.stored_bytes(tensor));
  return bytes;
}

const char* format_name(const PipelineComponent& part) { return part.format ? part.format->name : "plain"; }

std::vector<Layer> layers_of(const models::Dit& model) {
  std::vector<Layer> layers;
  for (int64_t i = 0; i < model.info().num_blocks; ++i)
    for (const models::NamedLinear& linear : model.block(i).linears())
      layers.push_back(layer_of(cat(model.block_name(i), ".", linear.name), *linear.linear));
  return layers;
}

json to_json(const DiffusersFolder& folder, const models::DitInfo& info,
             const std::vector<PipelineComponent>& components, const std::vector<Layer>& layers) {
  json parts = json::object();
  for (const PipelineComponent& part : components)
    parts[part.name] = {{"class", part.class_name}, {"format", format_name(part)}, {"bytes", part.bytes}};
  return {{"family", info.family},     {"pipeline", folder.class_name()},
          {"components", parts},       {"blocks", info.num_blocks},
          {"width", info.width},       {"heads", info.num_heads},
          {"head_dim", info.head_dim}, {"linears", layers_json(layers)}};
}

int inspect_pipeline(const InspectFlags& flags, const DiffusersFolder& folder) {
  const std::unique_ptr<Checkpoint> files = models::open_dit(folder);
  nn::LoadOptions options;
  if (!flags.quantization.empty())
    options.round_plain = quantize::online_rounding(*files, flags.quantization);
  nn::WeightSource source(*files, options);
  const std::unique_ptr<models::Dit> model = models::load_dit(source);
  const models::DitInfo& info = model->info();
  const std::vector<PipelineComponent> components = pipeline_components(folder);
  const std::vector<Layer> layers = layers_of(*model);
  if (flags.as_json) {
    std::printf("%s\n", to_json(folder, info, components, layers).dump(1).c_str());
    return 0;
  }
  int64_t total = 0;
  std::printf("%s, %s: transformer of %ld blocks, width %ld, %ld heads of %ld\n", info.family.c_str(),
              folder.class_name().c_str(), info.num_blocks, info.width, info.num_heads, info.head_dim);
  for (const PipelineComponent& part : components) {
    std::printf("  %-18s %-30s %-20s %10.3f MB\n", part.name.c_str(), part.class_name.c_str(),
                format_name(part), static_cast<double>(part.bytes) / 1e6);
    total += part.bytes;
  }
  print_layers(layers, total);
  return 0;
}

int inspect_language_model(const InspectFlags& flags, const std::string& path) {
  std::unique_ptr<Checkpoint> checkpoint = models::open_model(path);
  nn::LoadOptions options;
  if (!flags.quantization.empty())
    options.round_plain = quantize::online_rounding(*checkpoint, flags.quantization);
  nn::WeightSource source(*checkpoint, options);
  std::unique_ptr<models::CausalLm> model = models::load_causal_lm(source);
  std::string format = source.format() != nullptr ? source.format()->name : "plain";
  if (options.round_plain) format += cat(", rounded to ", flags.quantization, " while loading");
  const int64_t total_bytes = stored_bytes(*checkpoint);
  std::vector<Layer> layers = layers_of(*model);
  if (flags.as_json) {
    std::printf("%s\n", to_json(model->info(), format, layers, total_bytes).dump(1).c_str());
    return 0;
  }
  print_headline(model->info(), format);
  print_layers(layers, total_bytes);
  return 0;
}

int run_inspect(const InspectFlags& flags) {
  const std::string path = resolve_model(flags.model);
  return DiffusersFolder::is(path) ? inspect_pipeline(flags, DiffusersFolder::open(path))
                                   : inspect_language_model(flags, path);
}

}  // namespace

std::function<int()> add_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  add_model(app, flags->model);
  add_quantization(app, flags->quantization);
  app.add_flag("--json", flags->as_json, "print JSON");
  return [flags] { return run_inspect(*flags); };
}

}  // namespace quaver::apps
