#include "formats/gguf.h"

#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "base/error.h"
#include "checkpoint/gguf_block.h"
#include "formats/bitstream.h"

namespace quaver {
namespace {

Element element_of(const GgufBlockForm& form) {
  if (form.code == GgufCode::kIQ4NL) return Element::kIQ4NL;
  return form.code == GgufCode::kE2M1 ? Element::kE2M1 : integer_element(form.bits);
}

ScaleCodec codec_of(GgufScale scale) {
  switch (scale) {
    case GgufScale::kF16:
      return ScaleCodec::kF16;
    case GgufScale::kE8M0:
      return ScaleCodec::kE8M0;
    case GgufScale::kU4:
      return ScaleCodec::kU4;
    case GgufScale::kU6:
      return ScaleCodec::kU6;
    case GgufScale::kI8:
      return ScaleCodec::kI8;
  }
  fail(ErrorKind::kInternal, "no such scale of a GGUF block");
}

Buffer allocate(int64_t bytes, std::byte*& writable) {
  return Buffer::allocate(static_cast<size_t>(bytes), writable);
}

// One kind of number of all groups (scales or minima), with its second level where the form has one.
class Level {
 public:
  Level(const GgufBlockForm& form, int64_t blocks, int64_t groups_per_block)
      : groups_(groups_per_block), wide_(form.scale == GgufScale::kF16 ? 2 : 1) {
    scales_.codec = codec_of(form.scale);
    scales_.data = allocate(blocks * groups_ * wide_, entries_);
    if (!form.two_levels()) return;
    scales_.super = std::make_unique<Scales>();
    scales_.super->codec = ScaleCodec::kF16;
    scales_.super->data = allocate(blocks * 2, above_);
  }

  void put(int64_t block, const uint8_t* of_groups, uint16_t of_block) {
    if (!scales_.super) {
      std::memcpy(entries_ + block * wide_, &of_block, static_cast<size_t>(wide_));
      return;
    }
    std::memcpy(entries_ + block * groups_, of_groups, static_cast<size_t>(groups_));
    std::memcpy(above_ + block * 2, &of_block, 2);
  }

  Scales take() { return std::move(scales_); }

 private:
  int64_t groups_, wide_;  // bytes of an entry
  Scales scales_;
  std::byte *entries_ = nullptr, *above_ = nullptr;
};

// Files may hold any codes under a scale of zero; here they are zero by themselves.
void clear_empty_groups(const GgufBlockForm& form, GgufBlock& parts, size_t groups) {
  if (form.has_minimum || form.code != GgufCode::kInteger) return;
  const bool block_is_zero = (parts.scale & 0x7fff) == 0;
  for (size_t group = 0; group < groups; ++group)
    if (block_is_zero || (form.two_levels() && parts.scales[group] == 0))
      std::fill_n(parts.codes.begin() + static_cast<int64_t>(group) * form.group, form.group,
                  static_cast<uint8_t>(form.middle));
}

QuantWeight from_blocks(const GgufBlockForm& form, std::span<const std::byte> bytes, Extent2d shape) {
  const DTypeInfo& info = dtype_info(form.dtype);
  const int64_t size = info.block_elements, groups = size / form.group;
  const int64_t blocks = shape.rows * shape.cols / size, code_bytes = size * form.bits / 8;
  QuantWeight weight;
  weight.element = element_of(form);
  weight.shape = shape;
  weight.group = {1, form.group};
  std::byte* codes = nullptr;
  weight.codes = allocate(blocks * code_bytes, codes);
  Level scales(form, blocks, groups), minima(form, form.has_minimum ? blocks : 0, groups);
  GgufBlock parts{};
  for (int64_t b = 0; b < blocks; ++b) {
    form.split(bytes.data() + b * info.block_bytes, parts);
    clear_empty_groups(form, parts, static_cast<size_t>(groups));
    pack_codes(parts.codes.data(), form.bits, size, codes + b * code_bytes);
    scales.put(b, parts.scales.data(), parts.scale);
    // One level is added in the file and subtracted here.
    const auto minimum = static_cast<uint16_t>(form.two_levels() ? parts.minimum : parts.minimum ^ 0x8000);
    if (form.has_minimum) minima.put(b, parts.minima.data(), minimum);
  }
  weight.scale = scales.take();
  if (form.has_minimum) weight.offset = RealMins{minima.take()};
  return weight;
}

const GgufBlockForm* form_of(const Checkpoint& checkpoint, std::string_view tensor) {
  const TensorInfo* info = checkpoint.find(tensor);
  return info && info->shape.size() == 2 ? gguf_block_form(checkpoint.stored_type(tensor)) : nullptr;
}

bool detect(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [&](const TensorInfo& info) {
    return form_of(checkpoint, info.name) != nullptr;
  });
}

LayerPlan plan(const Checkpoint& checkpoint, std::string_view layer) {
  LayerPlan plan = {.layer = std::string(layer)};
  std::string tensor = cat(layer, ".weight");
  if (const GgufBlockForm* form = form_of(checkpoint, tensor)) {
    plan.scheme = {{"type", dtype_info(form->dtype).name}};
    plan.tensors = {std::move(tensor)};
  }
  return plan;
}

QuantWeight unpack(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const std::string& name = plan.tensors[0];
  const std::string what = cat(checkpoint.file_of(name), ": tensor '", name, "'");
  const std::vector<int64_t>& extents = checkpoint.find(name)->shape;
  const Extent2d shape = {extents.at(0), extents.at(1)};
  require(shape.rows > 0 && shape.cols > 0, ErrorKind::kBadFile, what, " has shape ", extents,
          ", which holds nothing");
  require(plan.shape == Extent2d{} || plan.shape == shape, ErrorKind::kBadFile, what, " has shape [",
          shape.rows, ", ", shape.cols, "], expected [", plan.shape.rows, ", ", plan.shape.cols, "]");
  const TensorView stored = checkpoint.read_stored(name);
  QuantWeight weight = from_blocks(*gguf_block_form(stored.dtype), stored.data.bytes(), shape);
  validate(weight, what);
  return weight;
}

// Linear layers alone: the table of embeddings may lie in blocks as well.
std::vector<std::string> layers(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorInfo& info : checkpoint.tensors())
    if (std::string module = info.name.substr(0, info.name.rfind('.'));
        !module.ends_with("embed_tokens") && !plan(checkpoint, module).tensors.empty())
      names.push_back(std::move(module));
  return names;
}

std::vector<std::string> unmatched_rules(const Checkpoint&) { return {}; }

}  // namespace

const Format kGgufFormat = {
    .name = "gguf",
    .methods = {"gguf"},
    .detect = detect,
    .plan = plan,
    .unpack = unpack,
    .unmatched_rules = unmatched_rules,
    .layers = layers,
    .has_plain_values = true,
};

}  // namespace quaver
