#include "quantize/online.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "formats/format.h"
#include "models/dit/dit.h"
#include "models/llm/causal_lm.h"
#include "nn/tensor_bridge.h"
#include "quantize/model_layers.h"
#include "quantize/recipe.h"
#include "quantize/round_to_nearest.h"
#include "quantize/scheme.h"

namespace quaver::quantize {
namespace {

struct OnlineName {
  std::string_view name, scheme;
};

constexpr std::array kOnlineNames = {
    OnlineName{"fp8", "FP8_DYNAMIC"}, OnlineName{"int8", "W8A16"},  OnlineName{"int4", "W4A16"},
    OnlineName{"mxfp4", "MXFP4"},     OnlineName{"mxfp8", "MXFP8"}, OnlineName{"nvfp4", "NVFP4"},
};

const OnlineName* find_online(std::string_view name) {
  const auto* found = std::ranges::find(kOnlineNames, name, &OnlineName::name);
  return found == kOnlineNames.end() ? nullptr : found;
}

std::string online_names() {
  std::string names;
  for (const OnlineName& row : kOnlineNames) names += cat(names.empty() ? "" : ", ", row.name);
  return names;
}

// "a, b and c"
std::string listed(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += cat(i == 0 ? "" : i + 1 == words.size() ? " and " : ", ", words[i]);
  return text;
}

// What a model tells before any weight is read.
struct OnlineModel {
  std::vector<LayerShape> layers;
  int64_t num_blocks = 0;
  std::vector<std::string> block_lists;  // "model.layers"
  std::string head;                      // empty: it has none
};

OnlineModel online_language_model(const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .plain_values = true});
  const std::unique_ptr<models::CausalLm> shell = models::make_causal_lm_shell(shapes);
  const models::CausalLmInfo& info = shell->info();
  return {quantizable_layers(*shell, checkpoint), info.num_layers, {info.blocks_prefix}, info.head};
}

// Layers of modulation stay: without calibration their errors ruin the picture.
OnlineModel online_picture_model(const Checkpoint& checkpoint) {
  nn::WeightSource shapes(checkpoint, {.device = at::kMeta, .plain_values = true});
  const std::unique_ptr<models::Dit> shell = models::make_dit_shell(shapes);
  OnlineModel model{quantizable_layers(*shell, checkpoint), shell->info().num_blocks, shell->block_lists(),
                    ""};
  std::erase_if(model.layers, [](const LayerShape& layer) { return layer.modulation; });
  return model;
}

// Components of pipelines name their class, language models their architecture.
OnlineModel online_model(const Checkpoint& checkpoint) {
  return checkpoint.config().contains("_class_name") ? online_picture_model(checkpoint)
                                                     : online_language_model(checkpoint);
}

// What rounds one model's layers.
class OnlineRounding {
 public:
  OnlineRounding(const Checkpoint& checkpoint, const OnlineName& wanted)
      : checkpoint_(checkpoint), wanted_(wanted), scheme_(scheme_from_name(wanted.scheme)) {
    model_ = online_model(checkpoint);
    plan(std::move(model_.layers));
  }

  std::optional<QuantWeight> round(const std::string& layer, const at::Tensor& weight) {
    auto found = rounded_.find(layer);
    if (found == rounded_.end()) return std::nullopt;
    const bool two_levels = scheme_.data_type == DataType::kNvFp;
    QuantWeight quant =
        round_to_nearest(weight, scheme_, two_levels ? largest_of(found->second) : 0.0f, where(layer));
    quant.activation = stored_scheme(scheme_).activation;
    quant.activation.super_per_row = two_levels;
    return quant;
  }

  // "--quantization int4: 28 layers of 4 blocks rounded to W4A16 g128 sym; embed_tokens and lm_head stay
  // bf16"
  std::string summary() const {
    std::string text = cat("--quantization ", wanted_.name, ": ", rounded_.size(), " layers of ",
                           model_.num_blocks, " blocks rounded to ", to_string(scheme_));
    if (!left_out_.empty())
      text += cat("; ", left_out_.size(), " more are not (", left_out_.front().name, ": ",
                  left_out_.front().reason, ")");
    const std::vector<std::string> plain = plain_names();
    return cat(text, "; ", listed(plain), plain.size() == 1 ? " stays " : " stay ", plain_dtype());
  }

 private:
  void plan(std::vector<LayerShape> layers) {
    std::map<std::string, std::string> fused;
    for (LayerShape& layer : layers) fused[layer.name] = std::exchange(layer.fused, {});
    for (const LayerDecision& decision : decide_layers({.base = scheme_}, layers)) {
      planned_.push_back(decision.name);
      if (decision.scheme.bits == 16) {
        left_out_.push_back(decision);
        continue;
      }
      rounded_[decision.name] = fused.at(decision.name);
      members_[fused.at(decision.name)].push_back(decision.name);
    }
  }

  std::string where(const std::string& layer) const {
    const std::string tensor = layer + ".weight";
    return cat(checkpoint_.file_of(tensor), ": tensor '", tensor, "'");
  }

  // Layers that engines fuse have one scale over their groups' scales, so that of the largest weight.
  float largest_of(const std::string& fused) {
    auto [known, is_new] = largest_.try_emplace(fused, 0.0f);
    if (!is_new) return known->second;
    for (const std::string& layer : members_.at(fused)) {
      const std::string tensor = layer + ".weight";
      const at::Tensor weight = nn::tensor_over(checkpoint_.read(tensor), where(layer));
      known->second = std::max(known->second, largest_magnitude(weight));
      checkpoint_.release(tensor);
    }
    return known->second;
  }

  // Of a module inside the blocks its name there, of others the last part; empty for blocks that are not
  // used.
  std::string short_name(const std::string& module) const {
    for (const std::string& list : model_.block_lists) {
      if (!module.starts_with(list + ".")) continue;
      int64_t index = -1;
      const char* end = module.data() + module.size();
      const char* rest = std::from_chars(module.data() + list.size() + 1, end, index).ptr;
      return index < 0 || index >= model_.num_blocks || rest == end ? "" : std::string(rest + 1, end);
    }
    return module.substr(module.rfind('.') + 1);
  }

  std::vector<std::string> plain_names() const {
    std::vector<std::string> names;
    std::map<std::string, int64_t> count;
    for (const std::string& module : plain_modules(checkpoint_, planned_, model_.head))
      if (std::string name = short_name(module); !name.empty() && ++count[name] == 1) names.push_back(name);
    for (std::string& name : names)
      if (count[name] > 1) name = cat(count[name], " ", name);
    return names;
  }

  std::string plain_dtype() const {
    std::set<std::string_view> dtypes;
    for (const std::string& module : plain_modules(checkpoint_, planned_, model_.head))
      if (const TensorInfo* info = checkpoint_.find(module + ".weight"); info && !short_name(module).empty())
        dtypes.insert(dtype_info(checkpoint_.stored_type(info->name)).name);
    return dtypes.size() == 1 ? std::string(*dtypes.begin()) : "as they are";
  }

  const Checkpoint& checkpoint_;
  OnlineName wanted_;
  Scheme scheme_;
  OnlineModel model_;
  std::vector<std::string> planned_;                         // every layer that a quantizer may touch
  std::vector<LayerDecision> left_out_;                      // of them: sizes that don't fit
  std::map<std::string, std::string> rounded_;               // layer -> the group that it is fused in
  std::map<std::string, std::vector<std::string>> members_;  // of such a group
  std::map<std::string, float> largest_;                     // magnitude in such a group
};

}  // namespace

std::string online_schemes() {
  std::string text;
  for (const OnlineName& row : kOnlineNames)
    text += cat(text.empty() ? "" : ", ", row.name, " = ", row.scheme);
  return text;
}

void check_online_name(std::string_view name) {
  require(find_online(name) || format_called(name), ErrorKind::kInvalidInput, "quantization '", name,
          "' is not known; known are ", online_names(),
          ", and for a checkpoint that is quantized the name of its own method");
}

nn::RoundPlain online_rounding(const Checkpoint& checkpoint, const std::string& name) {
  check_online_name(name);
  const OnlineName* wanted = find_online(name);
  const Format* format = detect_format(checkpoint);
  if (format && (!format->has_plain_values || !wanted)) {
    require(format_called(name) == format, ErrorKind::kInvalidInput, checkpoint.path().string(),
            " is quantized already, as ", format->name, "; leave --quantization ", name, " out");
    return nullptr;
  }
  require(wanted, ErrorKind::kInvalidInput, checkpoint.path().string(), " is plain, not ", name,
          "; --quantization rounds plain weights to ", online_names());
  auto rounding = std::make_shared<OnlineRounding>(checkpoint, *wanted);
  log_info(checkpoint.path().string(), ": ", rounding->summary());
  return [rounding](const std::string& layer, const at::Tensor& weight) {
    return rounding->round(layer, weight);
  };
}

}  // namespace quaver::quantize
