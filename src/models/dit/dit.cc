#include "models/dit/dit.h"

#include <algorithm>
#include <utility>

#include "models/llm/config_reader.h"
#include "models/llm/decoder_config.h"

namespace quaver::models {

std::vector<std::string> Dit::block_lists() const {
  std::vector<std::string> lists;
  for (int64_t block = 0; block < info().num_blocks; ++block) {
    const std::string name = block_name(block);
    std::string list = name.substr(0, name.rfind('.'));
    if (std::ranges::find(lists, list) == lists.end()) lists.push_back(std::move(list));
  }
  return lists;
}

void Dit::load_blocks(nn::WeightSource& source) {
  blocks_.clear();
  for (int64_t i = 0; i < info().num_blocks; ++i) blocks_.push_back(make_block(i, source));
}

void Dit::prepare() const {
  for (const auto& block : blocks_) block->prepare();
}

at::Tensor Dit::forward(const DitInput& input) const {
  const DitContext shared = context(input);
  DitState state = embed(input);
  for (const auto& block : blocks_) state = block->forward(state, shared);
  return output(state, shared);
}

std::unique_ptr<Dit> make_dit_shell(nn::WeightSource& source) {
  const ConfigReader config = config_of(source.checkpoint());
  const std::string name = config.text("_class_name", "");
  std::string known;
  for (const DitFamily& family : dit_families()) {
    if (name == family.class_name) return family.make_shell(source);
    known += cat(known.empty() ? "" : ", ", family.class_name);
  }
  config.unsupported("_class_name", "is '", name, "', expected one of: ", known);
}

std::unique_ptr<Dit> load_dit(nn::WeightSource& source) {
  std::unique_ptr<Dit> model = make_dit_shell(source);
  model->load_blocks(source);
  source.finish("");
  return model;
}

}  // namespace quaver::models
