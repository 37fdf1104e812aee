#include "formats/mxfp4.h"

#include <algorithm>
#include <array>

#include "formats/module_rules.h"
#include "formats/packed_config.h"

namespace quaver {
namespace {

constexpr const char* kName = "mxfp4";
constexpr int64_t kGroup = 32, kGroupBytes = 16;
constexpr int64_t kMostExperts = 65536, kMaxExtent = int64_t{1} << 31;

// Where the rows of one expert's layer lie in a stack: first, first + step, ...
struct Projection {
  const char* name;   // "<module>.<expert>.<name>"
  const char* stack;  // "<module>.<stack>_blocks"
  int64_t first, step;
};
constexpr std::array kProjections = {Projection{"gate_proj", "gate_up_proj", 0, 2},
                                     Projection{"up_proj", "gate_up_proj", 1, 2},
                                     Projection{"down_proj", "down_proj", 0, 1}};

struct Place {
  std::string stack;  // "model.layers.0.mlp.experts.gate_up_proj"
  int64_t expert;
  const Projection* projection;
};

std::optional<Place> place_of(std::string_view layer) {
  const size_t second = layer.rfind('.');
  const size_t first = second == layer.npos || second == 0 ? layer.npos : layer.rfind('.', second - 1);
  if (first == layer.npos) return std::nullopt;
  const std::string number(layer.substr(first + 1, second - first - 1));
  constexpr size_t kMostDigits = 9;
  if (number.empty() || number.size() > kMostDigits || number.find_first_not_of("0123456789") != number.npos)
    return std::nullopt;
  for (const Projection& projection : kProjections)
    if (layer.substr(second + 1) == projection.name)
      return Place{cat(layer.substr(0, first), ".", projection.stack), std::stoll(number), &projection};
  return std::nullopt;
}

struct Settings {
  std::vector<NamePattern> plain;  // modules_to_not_convert
  std::string file;
};

std::shared_ptr<const void> read_settings(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  require(config.has_value(), ErrorKind::kBadFile, checkpoint.path().string(),
          ": has no quantization settings");
  auto settings = std::make_shared<Settings>();
  settings->file = (checkpoint.path() / config->file).string();
  constexpr const char* kKey = "modules_to_not_convert";
  if (!config->value.contains(kKey)) return settings;
  const std::string what = cat(settings->file, ": key '", kKey, "'");
  for (const std::string& name : parse_name_list(config->value.at(kKey), what))
    settings->plain.push_back(NamePattern::looks_like_expression(name) ? NamePattern::match_start(name, what)
                                                                       : NamePattern::name(name));
  return settings;
}

std::shared_ptr<const Settings> settings_of(const Checkpoint& checkpoint) {
  return std::static_pointer_cast<const Settings>(
      checkpoint.memo(kName, [&] { return read_settings(checkpoint); }));
}

bool detect(const Checkpoint& checkpoint) { return names_method(checkpoint, {kName}); }

std::string where(const Checkpoint& checkpoint, const std::string& tensor) {
  return cat(checkpoint.file_of(tensor), ": tensor '", tensor, "'");
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  LayerPlan plan{.layer = std::string(layer)};
  const auto place = place_of(layer);
  if (!place) return plan;
  const std::string blocks = place->stack + "_blocks", scales = place->stack + "_scales";
  const bool has_blocks = checkpoint.find(blocks), has_scales = checkpoint.find(scales);
  if (!has_blocks && !has_scales) return plan;
  require(has_blocks && has_scales, ErrorKind::kBadFile, where(checkpoint, has_blocks ? blocks : scales),
          " stands alone; expected '", has_blocks ? scales : blocks, "' beside it");
  const auto settings = settings_of(checkpoint);
  for (const NamePattern& pattern : settings->plain)
    require(pattern.fit(layer) == NamePattern::kNone, ErrorKind::kBadFile, where(checkpoint, blocks),
            " holds codes, but '", pattern.key(), "' in ", settings->file, " leaves layer '", layer,
            "' plain");
  plan.tensors = {blocks, scales};
  plan.scheme = {{"bits", 4}, {"group_size", kGroup}};
  return plan;
}

// [experts, rows, groups] of a stack, once both tensors are known to agree.
std::array<int64_t, 3> stack_extents(const Checkpoint& checkpoint, const std::string& stack) {
  const std::string names[] = {stack + "_blocks", stack + "_scales"};
  const TensorInfo &blocks = *checkpoint.find(names[0]), &scales = *checkpoint.find(names[1]);
  for (const TensorInfo* info : {&blocks, &scales})
    require(info->dtype == DType::kU8, ErrorKind::kBadFile, where(checkpoint, info->name), " has dtype ",
            dtype_info(info->dtype).name, ", expected u8");
  const std::vector<int64_t>& shape = blocks.shape;
  require(shape.size() == 4 && shape[3] == kGroupBytes && shape[0] <= kMostExperts &&
              std::ranges::all_of(shape, [](int64_t extent) { return extent > 0 && extent <= kMaxExtent; }),
          ErrorKind::kBadFile, where(checkpoint, names[0]), " has shape ", shape,
          ", expected [experts, out, in / 32, 16] of at most ", kMostExperts, " experts");
  const std::vector<int64_t> expected(shape.begin(), shape.end() - 1);
  require(scales.shape == expected, ErrorKind::kBadFile, where(checkpoint, names[1]), " has shape ",
          scales.shape, ", expected ", expected);
  return {shape[0], shape[1], shape[2]};
}

// One layer's rows of a stack whose rows take `row_bytes`; rows that lie together are not copied.
Buffer take_rows(const Buffer& stack, const Place& place, int64_t rows_of_expert, int64_t row_bytes) {
  const Projection& from = *place.projection;
  const auto expert_bytes = static_cast<size_t>(rows_of_expert * row_bytes);
  const auto expert = stack.bytes().subspan(static_cast<size_t>(place.expert) * expert_bytes, expert_bytes);
  if (from.step == 1) return Buffer(expert, std::make_shared<Buffer>(stack));
  const int64_t rows = rows_of_expert / from.step;
  std::byte* target = nullptr;
  Buffer taken = Buffer::allocate(static_cast<size_t>(rows * row_bytes), target);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(expert.data() + (from.first + row * from.step) * row_bytes, row_bytes,
                target + row * row_bytes);
  return taken;
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const std::optional<Place> place = place_of(plan.layer);
  const auto [experts, rows, groups] = stack_extents(checkpoint, place->stack);
  const std::string blocks = where(checkpoint, plan.tensors[0]);
  require(place->expert < experts, ErrorKind::kBadFile, blocks, " holds ", experts, " experts, layer '",
          plan.layer, "' is not among them");
  require(rows % place->projection->step == 0, ErrorKind::kBadFile, blocks, " holds ", rows,
          " rows of each expert, expected as many of the gate as of up");
  QuantWeight weight;
  weight.element = Element::kE2M1;
  weight.shape = {rows / place->projection->step, groups * kGroup};
  weight.group = {1, kGroup};
  require(plan.shape == Extent2d{} || plan.shape == weight.shape, ErrorKind::kBadFile, blocks, " holds [",
          weight.shape.rows, ", ", weight.shape.cols, "] for layer '", plan.layer, "', expected [",
          plan.shape.rows, ", ", plan.shape.cols, "]");
  weight.codes = take_rows(checkpoint.read(plan.tensors[0]).data, *place, rows, groups * kGroupBytes);
  weight.scale = {.codec = ScaleCodec::kE8M0,
                  .data = take_rows(checkpoint.read(plan.tensors[1]).data, *place, rows, groups)};
  validate(weight, cat(checkpoint.file_of(plan.tensors[0]), ": layer '", plan.layer, "'"));
  return weight;
}

std::vector<std::string> layers(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorInfo& info : checkpoint.tensors())
    for (const Projection& projection : kProjections) {
      const std::string end = cat(".", projection.stack, "_blocks");
      if (!info.name.ends_with(end)) continue;
      const std::string module = info.name.substr(0, info.name.size() - end.size());
      if (plan(checkpoint, cat(module, ".0.", projection.name)).tensors.empty()) continue;
      const int64_t experts = stack_extents(checkpoint, cat(module, ".", projection.stack))[0];
      for (int64_t e = 0; e < experts; ++e) names.push_back(cat(module, ".", e, ".", projection.name));
    }
  return names;
}

std::vector<std::string> unmatched_rules(const Checkpoint& checkpoint) {
  const auto settings = settings_of(checkpoint);
  std::vector<ModuleRule> rules;
  for (const NamePattern& pattern : settings->plain) rules.push_back({&pattern, pattern.key()});
  return unmatched_keys(checkpoint, rules);
}

}  // namespace

const Format kMxfp4Format = {
    .name = kName,
    .methods = {kName},
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .unmatched_rules = unmatched_rules,
    .layers = layers,
};

}  // namespace quaver
