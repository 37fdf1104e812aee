#include "models/gguf_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "models/gguf_architectures.h"

namespace quaver::models {

namespace {

struct NamePair {
  std::string_view stored, ours;
};

constexpr std::array kTopNames = {
    NamePair{"token_embd.weight", "model.embed_tokens.weight"},
    NamePair{"output_norm.weight", "model.norm.weight"},
    NamePair{"output.weight", "lm_head.weight"},
};

// Of one block, without ".weight" or ".bias".
constexpr std::array kBlockNames = {
    NamePair{"attn_norm", "input_layernorm"},
    NamePair{"attn_q", "self_attn.q_proj"},
    NamePair{"attn_k", "self_attn.k_proj"},
    NamePair{"attn_v", "self_attn.v_proj"},
    NamePair{"attn_output", "self_attn.o_proj"},
    NamePair{"attn_q_norm", "self_attn.q_norm"},
    NamePair{"attn_k_norm", "self_attn.k_norm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},
    NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"},
    NamePair{"ffn_gate_inp", "mlp.gate"},
    NamePair{"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    NamePair{"ffn_up_exps", "mlp.experts.*.up_proj"},
    NamePair{"ffn_down_exps", "mlp.experts.*.down_proj"},
};
constexpr std::array kTwoNorms = {NamePair{"ffn_norm", "post_attention_layernorm"}};
constexpr std::array kFourNorms = {NamePair{"ffn_norm", "pre_feedforward_layernorm"},
                                   NamePair{"post_attention_norm", "post_attention_layernorm"},
                                   NamePair{"post_ffw_norm", "post_feedforward_layernorm"}};

template <class Table>
std::optional<std::string_view> look_up(const Table& table, std::string_view stored) {
  for (const NamePair& pair : table)
    if (pair.stored == stored) return pair.ours;
  return std::nullopt;
}

std::optional<std::string> block_name(const GgufArchitecture& architecture, std::string_view stored) {
  std::string_view rest = stored.substr(4);  // after "blk."
  size_t dot = rest.find('.'), last = rest.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::nullopt;
  std::string_view number = rest.substr(0, dot), stem = rest.substr(dot + 1, last - dot - 1),
                   tail = rest.substr(last);
  bool whole = !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (!whole || (tail != ".weight" && tail != ".bias")) return std::nullopt;
  std::optional<std::string_view> ours = look_up(kBlockNames, stem);
  if (!ours) ours = architecture.four_norms ? look_up(kFourNorms, stem) : look_up(kTwoNorms, stem);
  if (!ours) return std::nullopt;
  return cat("model.layers.", number, ".", *ours, tail);
}

bool is_plus_one(const GgufArchitecture& architecture, std::string_view ours) {
  return architecture.norms_plus_one && ours.ends_with("norm.weight");
}

bool is_query_or_key(std::string_view ours) {
  return ours.find(".self_attn.q_proj.") != std::string_view::npos ||
         ours.find(".self_attn.k_proj.") != std::string_view::npos;
}

// The stored stem of one block's tensor, and the expert that stands for the star.
struct BlockPlace {
  std::string_view stored;
  int64_t expert = -1;
};

template <class Table>
std::optional<BlockPlace> look_up_ours(const Table& table, std::string_view ours) {
  for (const NamePair& pair : table) {
    if (pair.ours == ours) return BlockPlace{pair.stored};
    const size_t star = pair.ours.find('*');
    if (star == std::string_view::npos || !ours.starts_with(pair.ours.substr(0, star))) continue;
    int64_t expert = -1;
    const char* end = ours.data() + ours.size();
    const auto [rest, error] = std::from_chars(ours.data() + star, end, expert);
    if (error == std::errc() && expert >= 0 &&
        std::string_view(rest, static_cast<size_t>(end - rest)) == pair.ours.substr(star + 1))
      return BlockPlace{pair.stored, expert};
  }
  return std::nullopt;
}

int64_t heads_of(const GgufFile& file, const GgufArchitecture& architecture, std::string_view ours) {
  std::string prefix(architecture.name);
  int64_t heads = file.integer(prefix + ".attention.head_count");
  bool keys = ours.find(".k_proj.") != std::string_view::npos;
  return keys ? file.find_integer(prefix + ".attention.head_count_kv").value_or(heads) : heads;
}

void add_expert_sources(const GgufEntry& entry, const std::string& ours, const std::string& path,
                        std::vector<GgufTensorSource>& out) {
  const std::vector<int64_t>& shape = entry.info.shape;
  require(shape.size() == 3, ErrorKind::kBadFile, path, ": tensor '", entry.info.name, "' has shape ", shape,
          ", expected [experts, out, in]");
  size_t star = ours.find('*');
  for (int64_t e = 0; e < shape[0]; ++e)
    out.push_back({.name = cat(ours.substr(0, star), e, ours.substr(star + 1)),
                   .stored_name = entry.info.name,
                   .shape = {shape[1], shape[2]},
                   .expert = e});
}

GgufTensorSource whole_tensor(const GgufFile& file, const GgufArchitecture& architecture,
                              const GgufEntry& entry, const std::string& ours) {
  GgufTensorSource source{.name = ours, .stored_name = entry.info.name, .shape = entry.info.shape};
  source.plus_one = is_plus_one(architecture, ours);
  if (!architecture.interleaved_rope || !is_query_or_key(ours)) return source;
  source.interleaved_heads = heads_of(file, architecture, ours);
  const int64_t rows = source.shape.empty() ? 0 : source.shape[0], heads = source.interleaved_heads;
  require(heads > 0 && heads <= rows / 2 && rows % (2 * heads) == 0, ErrorKind::kBadFile,
          file.path().string(), ": tensor '", entry.info.name, "' has shape ", source.shape,
          ", whose rows don't make ", source.interleaved_heads, " heads of pairs");
  return source;
}

}  // namespace

std::vector<GgufTensorSource> name_gguf_tensors(const GgufFile& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  std::vector<GgufTensorSource> sources;
  for (const GgufEntry& entry : file.entries()) {
    const std::string& stored = entry.info.name;
    if (stored == kGgufRopeFactors) continue;  // the config says it
    std::optional<std::string> ours;
    if (stored.starts_with("blk.")) {
      ours = block_name(architecture, stored);
    } else if (auto top = look_up(kTopNames, stored)) {
      ours = std::string(*top);
    }
    require(ours.has_value(), ErrorKind::kUnsupported, file.path().string(), ": tensor '", stored,
            "' has no place in a model of architecture '", architecture.name, "'");
    if (ours->find('*') != std::string::npos)
      add_expert_sources(entry, *ours, file.path().string(), sources);
    else
      sources.push_back(whole_tensor(file, architecture, entry, *ours));
  }
  std::ranges::sort(sources, {}, &GgufTensorSource::name);
  return sources;
}

std::optional<GgufPlace> gguf_place(const GgufArchitecture& architecture, std::string_view name) {
  constexpr std::string_view kBlocks = "model.layers.";
  GgufPlace place{.interleaved = architecture.interleaved_rope && is_query_or_key(name),
                  .plus_one = is_plus_one(architecture, name),
                  .is_key = name.find(".k_proj.") != std::string_view::npos};
  for (const NamePair& pair : kTopNames)
    if (pair.ours == name) {
      place.stored_name = pair.stored;
      return place;
    }
  if (!name.starts_with(kBlocks)) return std::nullopt;
  const std::string_view rest = name.substr(kBlocks.size());
  const size_t dot = rest.find('.'), last = rest.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::nullopt;
  const std::string_view number = rest.substr(0, dot), stem = rest.substr(dot + 1, last - dot - 1),
                         tail = rest.substr(last);
  if (tail != ".weight" && tail != ".bias") return std::nullopt;
  auto found = look_up_ours(kBlockNames, stem);
  if (!found)
    found = architecture.four_norms ? look_up_ours(kFourNorms, stem) : look_up_ours(kTwoNorms, stem);
  if (!found) return std::nullopt;
  place.stored_name = cat("blk.", number, ".", found->stored, tail);
  place.expert = found->expert;
  return place;
}

}  // namespace quaver::models
