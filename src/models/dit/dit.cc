#include "models/dit/dit.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "models/dit/offloaded_block.h"
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

IndexRun Dit::own(int64_t tokens) const {
  if (!sequence_ranks_) return {0, tokens};
  const std::vector<int64_t> parts = nn::even_split(tokens, sequence_ranks_->size());
  const auto part = parts.begin() + sequence_ranks_->rank();
  return {std::accumulate(parts.begin(), part, int64_t{0}), *part};
}

DitContext Dit::context(const DitInput& input) const {
  DitContext context{.condition = condition(input), .rope = input.rope};
  if (!sequence_ranks_) return context;
  const int64_t text_tokens = input.text.size(1), image_tokens = input.latents.size(1);
  IndexRun text = own(text_tokens), image = own(image_tokens);
  image.first += text_tokens;
  const std::array runs = {text, image};
  context.rope = {nn::taken(input.rope.cos, 0, runs), nn::taken(input.rope.sin, 0, runs)};
  context.image_tokens = nn::even_split(image_tokens, sequence_ranks_->size());
  context.tokens = {sequence_ranks_, nn::even_split(text_tokens, sequence_ranks_->size())};
  for (size_t r = 0; r < context.image_tokens.size(); ++r)
    context.tokens.tokens[r] += context.image_tokens[r];
  return context;
}

DitState Dit::embed(const DitInput& input) const {
  const IndexRun text = own(input.text.size(1)), image = own(input.latents.size(1));
  return embed_tokens(input.latents.narrow(1, image.first, image.count),
                      input.text.narrow(1, text.first, text.count));
}

at::Tensor Dit::output(const DitState& state, const DitContext& context) const {
  at::Tensor part = project_out(state.image, context.condition);
  return sequence_ranks_ ? sequence_ranks_->all_gather(part, 1, context.image_tokens) : part;
}

void Dit::load_blocks(nn::WeightSource& source) {
  blocks_.clear();
  if (source.options().offload) offload_ = std::make_unique<nn::LayerOffload>(source.options().device);
  for (int64_t i = 0; i < info().num_blocks; ++i) {
    std::unique_ptr<DitBlock> block = make_block(i, source);
    blocks_.push_back(offload_ ? offloaded(std::move(block), *offload_) : std::move(block));
  }
}

std::vector<NamedLinear> Dit::linears() {
  std::vector<NamedLinear> all = outer_linears();
  for (int64_t i = 0; i < info().num_blocks; ++i)
    for (NamedLinear& layer : block(i).linears()) {
      layer.name = cat(block_name(i), ".", layer.name);
      all.push_back(std::move(layer));
    }
  return all;
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

void check_dit_ranks(const DitInfo& info, int64_t tensor, int64_t sequence) {
  require(tensor * sequence <= info.num_heads, ErrorKind::kInvalidInput, "--tensor-parallel-size ", tensor,
          " times --ulysses-degree ", sequence, " is more than the ", info.num_heads,
          " attention heads of this transformer; each rank needs one");
}

std::unique_ptr<Checkpoint> open_dit(const DiffusersFolder& folder) {
  std::unique_ptr<Checkpoint> stored = folder.component("transformer");
  const auto name = stored->config().find("_class_name");
  for (const DitFamily& family : dit_families())
    if (family.present && name != stored->config().end() && *name == family.class_name)
      return family.present(std::move(stored));
  return stored;
}

std::unique_ptr<Dit> make_dit_shell(nn::WeightSource& source) {
  const ConfigReader config = config_of(source.checkpoint());
  const std::string name = config.text("_class_name", "");
  std::string known;
  for (const DitFamily& family : dit_families()) {
    if (name == family.class_name) {
      std::unique_ptr<Dit> shell = family.make_shell(source);
      const auto size = [](const nn::RankGroup* ranks) { return ranks ? ranks->size() : 1; };
      check_dit_ranks(shell->info(), size(source.options().tensor_ranks),
                      size(source.options().sequence_ranks));
      return shell;
    }
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
