#include "pipeline/check_image_memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/log.h"
#include "pipeline/image_memory.h"
#include "pipeline/memory_budget.h"

namespace quaver::pipeline {

namespace {

MemoryLimit limit_on(at::Device device, const std::string& text) {
  const int64_t free = free_memory(device);
  return parse_memory_limit(text, free,
                            device.is_cpu() ? std::numeric_limits<int64_t>::max() : available_host_memory());
}

// One flag at a time; and where none of them is enough, all together.
std::vector<MemoryRemedy> image_remedies(const DiffusersFolder& folder,
                                         const diffusion::ImagePipelineOptions& options,
                                         const ImageMemory& model, const ImageUse& use,
                                         const MemoryLimit& limit) {
  std::vector<MemoryRemedy> out;
  ImageMemory smaller = model;
  ImageUse careful = use;
  std::string all;
  const auto add = [&](const char* flag, const ImageMemory& changed, const ImageUse& used) {
    out.push_back({flag, plan_memory(changed, used)});
    all += cat(all.empty() ? "" : " ", flag);
  };
  if (!use.tiling) {
    careful.tiling = true;
    ImageUse tiled = use;
    tiled.tiling = true;
    add("--vae-use-tiling", model, tiled);
  }
  if (!use.offload && !model.on_host) {
    careful.offload = true;
    ImageUse offloaded = use;
    offloaded.offload = true;
    add("--offload", model, offloaded);
  }
  if (!options.load.round_plain && model.transformer.roundable > 0)
    add("--quantization int4", smaller = as_int4(model), use);
  const auto enough = [&](const MemoryRemedy& one) { return fits(one.plan, limit); };
  const MemoryPlan together = plan_memory(smaller, careful);
  const auto better = [&](const MemoryRemedy& one) { return together.peak() < one.plan.peak(); };
  if (std::ranges::none_of(out, enough) && std::ranges::all_of(out, better) && out.size() > 1)
    out.push_back({all, together});
  if (!model.on_host && model.dtype == at::kFloat) {
    diffusion::ImagePipelineOptions half = options;
    half.load.compute_dtype = at::kBFloat16;
    out.push_back({"--dtype bfloat16", plan_memory(image_memory(folder, half), use)});
  }
  return out;
}

// What is smaller than the picture that was asked for.
void add_smaller_size(std::vector<MemoryRemedy>& remedies, const ImageMemory& model, ImageUse use,
                      const MemoryLimit& limit) {
  const int64_t pixels = largest_picture(model, use, limit.device);
  if (use.width == 0 || pixels == 0 || pixels >= use.width * use.height) return;
  int64_t side = model.unit();
  while ((side + model.unit()) * (side + model.unit()) <= pixels) side += model.unit();
  use.width = use.height = side;
  remedies.push_back({cat("--size ", side, "x", side), plan_memory(model, use)});
}

std::string largest_text(const ImageMemory& model, const ImageUse& use, const MemoryLimit& limit,
                         int64_t max_pixels) {
  const int64_t pixels = max_pixels > 0 ? largest_picture(model, use, limit.device) : 0;
  if (pixels == 0 || pixels >= max_pixels) return "";
  return cat("\n  pictures of up to ", pixels, " pixels fit; --max-generated-image-size allows ", max_pixels);
}

void warn_of_batches(const ImageMemory& model, ImageUse use, const MemoryLimit& limit) {
  const int64_t asked = use.pictures;
  while (use.pictures > 1 && plan_memory(model, use).peak() > limit.device) --use.pictures;
  if (use.pictures < asked)
    log_warning(asked, " pictures at once may not fit in memory, and then requests fail; --max-num-seqs ",
                use.pictures, " fits");
}

}  // namespace

void check_image_memory(const DiffusersFolder& folder, const diffusion::ImagePipelineOptions& options,
                        const ImageMemoryCheck& check) {
  const at::Device device = options.load.device;
  const MemoryLimit limit = limit_on(device, check.limit);
  const ImageMemory model = image_memory(folder, options);
  const ImageUse use{.width = check.width,
                     .height = check.height,
                     .pictures = check.pictures,
                     .tiling = options.vae.tile,
                     .offload = options.load.offload,
                     .ranks = options.ranks ? options.ranks->sizes() : nn::RankSizes()};
  ImageUse least = use;
  least.pictures = 1;
  if (check.tell)
    log_info(memory_table(plan_memory(model, use), device.str(), limit),
             largest_text(model, least, limit, check.max_pixels));
  const MemoryPlan plan = plan_memory(model, least);
  if (!fits(plan, limit)) {
    std::vector<MemoryRemedy> remedies = image_remedies(folder, options, model, least, limit);
    add_smaller_size(remedies, model, least, limit);
    check_memory(plan, folder.path().string(), device.str(), limit, remedies);
  }
  warn_of_batches(model, use, limit);
}

}  // namespace quaver::pipeline
