#include "models/dit/flux_original_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/printable.h"
#include "checkpoint/row_parts.h"

namespace quaver::models {

namespace {

constexpr std::string_view kWholeModel = "model.diffusion_model.";

struct OriginalBlocks {
  std::string_view original, diffusers;  // in front of the blocks' numbers
};
constexpr std::array kOriginalBlocks = {OriginalBlocks{"double_blocks.", "transformer_blocks."},
                                        OriginalBlocks{"single_blocks.", "single_transformer_blocks."}};

// A module relative to its block, or as a whole outside of them, and the layers whose rows it holds one after
// the other: each has as many as the module has columns, the last one what remains.
struct OriginalModule {
  std::string_view original;
  std::array<std::string_view, 4> layers;
  bool halves_swapped = false;
};
constexpr std::array kDoubleModules = {
    OriginalModule{"img_mod.lin", {"norm1.linear"}},
    OriginalModule{"txt_mod.lin", {"norm1_context.linear"}},
    OriginalModule{"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}},
    OriginalModule{"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}},
    OriginalModule{"img_attn.norm.query_norm", {"attn.norm_q"}},
    OriginalModule{"img_attn.norm.key_norm", {"attn.norm_k"}},
    OriginalModule{"txt_attn.norm.query_norm", {"attn.norm_added_q"}},
    OriginalModule{"txt_attn.norm.key_norm", {"attn.norm_added_k"}},
    OriginalModule{"img_attn.proj", {"attn.to_out.0"}},
    OriginalModule{"txt_attn.proj", {"attn.to_add_out"}},
    OriginalModule{"img_mlp.0", {"ff.net.0.proj"}},
    OriginalModule{"img_mlp.2", {"ff.net.2"}},
    OriginalModule{"txt_mlp.0", {"ff_context.net.0.proj"}},
    OriginalModule{"txt_mlp.2", {"ff_context.net.2"}}};
constexpr std::array kSingleModules = {
    OriginalModule{"modulation.lin", {"norm.linear"}},
    OriginalModule{"linear1", {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}},
    OriginalModule{"linear2", {"proj_out"}}, OriginalModule{"norm.query_norm", {"attn.norm_q"}},
    OriginalModule{"norm.key_norm", {"attn.norm_k"}}};
constexpr std::array kOuterModules = {
    OriginalModule{"img_in", {"x_embedder"}}, OriginalModule{"txt_in", {"context_embedder"}},
    OriginalModule{"time_in.in_layer", {"time_text_embed.timestep_embedder.linear_1"}},
    OriginalModule{"time_in.out_layer", {"time_text_embed.timestep_embedder.linear_2"}},
    OriginalModule{"guidance_in.in_layer", {"time_text_embed.guidance_embedder.linear_1"}},
    OriginalModule{"guidance_in.out_layer", {"time_text_embed.guidance_embedder.linear_2"}},
    OriginalModule{"vector_in.in_layer", {"time_text_embed.text_embedder.linear_1"}},
    OriginalModule{"vector_in.out_layer", {"time_text_embed.text_embedder.linear_2"}},
    OriginalModule{"final_layer.linear", {"proj_out"}},
    // Shift and scale there, scale and shift here.
    OriginalModule{"final_layer.adaLN_modulation.1", {"norm_out.linear"}, true}};

// "double_blocks.7.img_attn.qkv.weight" in its pieces.
struct OriginalName {
  std::string place;  // "transformer_blocks.7."
  const OriginalModule* module;
  std::string_view suffix;  // "weight", "bias"
};

const OriginalModule* find_module(std::span<const OriginalModule> modules, std::string_view name) {
  const auto found = std::ranges::find(modules, name, &OriginalModule::original);
  return found == modules.end() ? nullptr : &*found;
}

std::optional<OriginalName> parse(std::string_view name) {
  OriginalName out{};
  std::span<const OriginalModule> modules = kOuterModules;
  for (const OriginalBlocks& blocks : kOriginalBlocks) {
    if (!name.starts_with(blocks.original)) continue;
    const size_t dot = name.find('.', blocks.original.size());
    if (dot == std::string_view::npos) return std::nullopt;
    out.place = cat(blocks.diffusers, name.substr(blocks.original.size(), dot + 1 - blocks.original.size()));
    name.remove_prefix(dot + 1);
    modules = &blocks == kOriginalBlocks.data() ? std::span<const OriginalModule>(kDoubleModules)
                                                : std::span<const OriginalModule>(kSingleModules);
    break;
  }
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  out.suffix = name.substr(dot + 1) == "scale" ? "weight" : name.substr(dot + 1);
  out.module = find_module(modules, name.substr(0, dot));
  return out.module ? std::optional(out) : std::nullopt;
}

class OriginalFlux {
 public:
  explicit OriginalFlux(const Checkpoint& stored) : stored_(stored) {
    const auto is_of_whole = [](const TensorInfo& info) { return info.name.starts_with(kWholeModel); };
    if (std::ranges::any_of(stored.tensors(), is_of_whole)) prefix_ = kWholeModel;
  }

  bool is() const {
    const std::string blocks = cat(prefix_, kOriginalBlocks.front().original);
    return !prefix_.empty() || std::ranges::any_of(stored_.tensors(), [&](const TensorInfo& info) {
      return info.name.starts_with(blocks);
    });
  }

  std::vector<RowPart> parts() const {
    std::vector<RowPart> out;
    for (const TensorInfo& info : stored_.tensors())
      if (info.name.starts_with(prefix_)) add(info, out);
    return out;
  }

 private:
  void add(const TensorInfo& info, std::vector<RowPart>& out) const {
    const std::optional<OriginalName> name = parse(std::string_view(info.name).substr(prefix_.size()));
    require(name.has_value(), ErrorKind::kUnsupported, stored_.file_of(info.name), ": tensor ",
            printable(info.name), " has no place in this transformer");
    const auto& layers = name->module->layers;
    const auto count = std::ranges::count_if(layers, [](std::string_view layer) { return !layer.empty(); });
    const auto part_of = [&](std::string_view layer) {
      return RowPart{.name = cat(name->place, layer, ".", name->suffix),
                     .stored = info.name,
                     .halves_swapped = name->module->halves_swapped};
    };
    if (count == 1) return out.push_back(part_of(layers[0]));
    const int64_t width = columns_of(info), rows = info.shape.empty() ? 0 : info.shape[0];
    const int64_t last = rows - (count - 1) * width;
    require(last > 0, ErrorKind::kBadFile, stored_.file_of(info.name), ": tensor ", printable(info.name),
            " has ", rows, " rows, expected more than ", count - 1, " times its ", width, " columns");
    for (int64_t i = 0; i < count; ++i) {
      RowPart part = part_of(layers[static_cast<size_t>(i)]);
      part.first = i * width;
      part.count = i + 1 < count ? width : last;
      out.push_back(std::move(part));
    }
  }

  // Of the weight that the tensor is, or is the bias of.
  int64_t columns_of(const TensorInfo& info) const {
    const std::string weight = info.name.substr(0, info.name.rfind('.')) + ".weight";
    const TensorInfo* found = stored_.find(weight);
    require(found && found->shape.size() == 2, ErrorKind::kBadFile, stored_.file_of(info.name), ": tensor ",
            printable(weight), found ? " is no matrix" : " is missing");
    return found->shape[1];
  }

  const Checkpoint& stored_;
  std::string_view prefix_;
};

}  // namespace

std::unique_ptr<Checkpoint> present_flux(std::unique_ptr<Checkpoint> stored) {
  const std::string architecture = stored->metadata("general.architecture");
  require(architecture.empty() || architecture == "flux", ErrorKind::kBadFile, stored->path().string(),
          ": general.architecture is ", printable(architecture), ", expected flux");
  const OriginalFlux original(*stored);
  if (!original.is()) return stored;
  return present_row_parts(std::move(stored), original.parts());
}

}  // namespace quaver::models
