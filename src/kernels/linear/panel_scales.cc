#include "kernels/linear/panel_scales.h"

#include <cstring>

namespace quaver::kernels {

ScalePlan plan_scales(const ScaleView& scales, const WeightView& weight, const BlockPlan& blocks) {
  ScalePlan plan;
  if (scales.codes == nullptr) return plan;
  const int64_t groups = weight.groups();
  plan.decoded = scales.super && scales.share % groups != 0 && groups % scales.share != 0;
  plan.codec = plan.decoded ? ScaleCodec::kF32 : scales.codec;
  plan.bytes = scale_codec_info(plan.codec).bytes;
  if (!scales.super || plan.decoded) return plan;
  plan.divides = scales.divides;
  plan.columns = scales.share % groups == 0 ? 1 : groups / scales.share;
  for (const ChannelBlock& block : blocks.blocks)
    plan.super_of.push_back(plan.columns == 1 ? 0 : static_cast<int32_t>(block.group / scales.share));
  return plan;
}

void write_scale(const ScalePlan& plan, const ScaleView& scales, int64_t index, std::byte* target) {
  const auto bytes = static_cast<size_t>(plan.bytes);
  if (!plan.decoded) {
    std::memcpy(target, scales.codes + index * plan.bytes, bytes);
    return;
  }
  const float value = scales.at(index);
  std::memcpy(target, &value, bytes);
}

void write_super(const ScalePlan& plan, const ScaleView& scales, int64_t index, float* target,
                 int64_t stride) {
  for (int64_t column = 0; column < plan.columns; ++column)
    target[column * stride] = scales.super[index / scales.share + column];
}

}  // namespace quaver::kernels
