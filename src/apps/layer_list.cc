#include "apps/layer_list.h"

#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <variant>

namespace quaver::apps {
namespace {

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

}  // namespace

Layer layer_of(std::string name, const nn::Linear& linear) {
  return {.name = std::move(name),
          .storage = storage_of(linear),
          .kernel = linear.kernel_name(),
          .input = input_of(linear),
          .out = linear.out_features(),
          .in = linear.in_features(),
          .bytes = static_cast<int64_t>(linear.size_bytes())};
}

json layers_json(const std::vector<Layer>& layers) {
  json list = json::array();
  for (const Layer& layer : layers)
    list.push_back({{"name", layer.name},
                    {"shape", {layer.out, layer.in}},
                    {"storage", layer.storage},
                    {"input", layer.input.empty() ? json() : json(layer.input)},
                    {"bytes", layer.bytes},
                    {"kernel", layer.kernel}});
  return list;
}

void print_layers(const std::vector<Layer>& layers, int64_t total_bytes) {
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

}  // namespace quaver::apps
