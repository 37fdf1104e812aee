// quaver inspect: what a model is made of, layer by layer, and which kernel would run it.
#include <cstdio>
#include <map>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/json.h"
#include "models/llm/causal_lm.h"

namespace quaver::apps {
namespace {

struct InspectFlags {
  std::string model, quantization;
  bool as_json = false;
};

struct Layer {
  std::string name, storage, kernel;  // storage: "int4 g128 sym" or "bf16"
  std::string input;                  // "e4m3fn per token"; empty when it is not quantized
  int64_t out = 0, in = 0, bytes = 0;
};

std::string storage_of(const nn::Linear& linear) {
  std::shared_ptr<const QuantWeight> quant = linear.quant_weight();
  if (quant == nullptr) return std::string(c10::toString(linear.dense_weight().scalar_type()));
  bool whole_row = quant->group.cols >= quant->shape.cols;
  std::string offset = std::holds_alternative<std::monostate>(quant->offset) ? "sym" : "asym";
  return cat(element_info(quant->element).name, " ", whole_row ? "per row" : cat("g", quant->group.cols), " ",
             offset, quant->permutation.empty() ? "" : ", act-order");
}

std::string input_of(const nn::Linear& linear) {
  const nn::InputQuant& input = linear.input_quant();
  return input.active() ? nn::describe(input.quant()) : "";
}

Layer layer_of(std::string name, const nn::Linear& linear) {
  return {.name = std::move(name),
          .storage = storage_of(linear),
          .kernel = linear.kernel_name(),
          .input = input_of(linear),
          .out = linear.out_features(),
          .in = linear.in_features(),
          .bytes = static_cast<int64_t>(linear.size_bytes())};
}

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
  json list = json::array();
  for (const Layer& layer : layers)
    list.push_back({{"name", layer.name},
                    {"shape", {layer.out, layer.in}},
                    {"storage", layer.storage},
                    {"input", layer.input.empty() ? json() : json(layer.input)},
                    {"bytes", layer.bytes},
                    {"kernel", layer.kernel}});
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
          {"linears", list}};
}

void print_layers(const models::CausalLmInfo& info, const std::string& format,
                  const std::vector<Layer>& layers, int64_t total_bytes) {
  std::printf("%s, %s: %ld layers, hidden %ld, %ld/%ld heads of %ld, vocabulary %ld, context %ld%s\n",
              info.family.c_str(), format.c_str(), info.num_layers, info.hidden_size, info.num_heads,
              info.num_kv_heads, info.head_dim, info.vocab_size, info.max_position_embeddings,
              info.tied_embeddings ? ", tied embeddings" : "");
  int64_t linear_bytes = 0;
  std::map<std::string, int> kinds;
  for (const Layer& layer : layers) {
    const std::string kind =
        layer.input.empty() ? layer.storage : cat(layer.storage, ", input ", layer.input);
    std::printf("  %-52s [%6ld, %6ld]  %-18s %9.3f MB  %s\n", layer.name.c_str(), layer.out, layer.in,
                kind.c_str(), static_cast<double>(layer.bytes) / 1e6, layer.kernel.c_str());
    linear_bytes += layer.bytes;
    ++kinds[kind];
  }
  for (const auto& [storage, count] : kinds) std::printf("%5d layers %s\n", count, storage.c_str());
  std::printf("%.1f MB in linear layers, %.1f MB in all tensors\n", static_cast<double>(linear_bytes) / 1e6,
              static_cast<double>(total_bytes) / 1e6);
}

int run_inspect(const InspectFlags& flags) {
  std::unique_ptr<Checkpoint> checkpoint = models::open_model(resolve_model(flags.model));
  nn::LoadOptions options;
  if (!flags.quantization.empty())
    options.round_plain = quantize::online_rounding(*checkpoint, flags.quantization);
  nn::WeightSource source(*checkpoint, options);
  std::unique_ptr<models::CausalLm> model = models::load_causal_lm(source);
  std::string format = source.format() != nullptr ? source.format()->name : "plain";
  if (options.round_plain) format += cat(", rounded to ", flags.quantization, " while loading");
  int64_t total_bytes = 0;
  for (const TensorInfo& tensor : checkpoint->tensors())
    total_bytes += static_cast<int64_t>(checkpoint->stored_bytes(tensor));
  std::vector<Layer> layers = layers_of(*model);
  if (flags.as_json)
    std::printf("%s\n", to_json(model->info(), format, layers, total_bytes).dump(1).c_str());
  else
    print_layers(model->info(), format, layers, total_bytes);
  return 0;
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
