#include "models/llm/causal_lm.h"

#include <algorithm>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

namespace {

std::string known_types() {
  std::string text;
  for (const CausalLmFamily& family : causal_lm_families())
    text += cat(text.empty() ? "" : ", ", family.model_type);
  return text;
}

const CausalLmFamily& find_family(const ConfigReader& config) {
  std::string type = config.text("model_type", "");
  std::vector<std::string> architectures = config.texts("architectures");
  auto named = [&](const CausalLmFamily& family) {
    return architectures.empty() ||
           std::ranges::find(architectures, family.architecture) != architectures.end();
  };
  if (type.empty() && architectures.empty()) config.bad("model_type", "is missing");
  for (const CausalLmFamily& family : causal_lm_families()) {
    if (type.empty() ? !named(family) : type != family.model_type) continue;
    if (named(family)) return family;
    config.unsupported("architectures", "is ", config.object().at("architectures").dump(), "; ",
                       family.model_type, " is known as ", family.architecture);
  }
  const char* key = type.empty() ? "architectures" : "model_type";
  config.unsupported(key, "is ", config.object().at(key).dump(), "; known model types are ", known_types());
}

}  // namespace

void CausalLm::load_blocks(nn::WeightSource& source) {
  blocks_.clear();
  for (int64_t i = 0; i < info().num_layers; ++i) blocks_.push_back(make_block(i, source));
}

void CausalLm::prepare() const {
  prepare_head();
  for (const auto& block : blocks_) block->prepare();
}

at::Tensor CausalLm::forward(const at::Tensor& token_ids, const StepContext& step) const {
  nn::RopeCache rope;
  StepContext own = step;
  own.rope = &rope;
  at::Tensor hidden = embed(token_ids);
  for (const auto& block : blocks_) hidden = block->forward(hidden, own);
  return hidden;
}

std::unique_ptr<CausalLm> make_causal_lm_shell(nn::WeightSource& source) {
  return find_family(config_of(source.checkpoint())).make_shell(source);
}

std::unique_ptr<CausalLm> load_causal_lm(nn::WeightSource& source) {
  std::unique_ptr<CausalLm> model = make_causal_lm_shell(source);
  model->load_blocks(source);
  source.finish("");
  return model;
}

}  // namespace quaver::models
