// Files of autoencoders under the names that their makers gave the tensors, and without a config.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors_file.h"
#include "models/vae/image_vae.h"

namespace quaver::models {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEncoderLevel = "encoder.down.", kDecoderLevel = "decoder.up.";

struct NamePair {
  std::string_view original, diffusers;
};
constexpr std::array kParts = {NamePair{"mid.block_1.", "mid_block.resnets.0."},
                               NamePair{"mid.block_2.", "mid_block.resnets.1."},
                               NamePair{"mid.attn_1.norm.", "mid_block.attentions.0.group_norm."},
                               NamePair{"mid.attn_1.q.", "mid_block.attentions.0.to_q."},
                               NamePair{"mid.attn_1.k.", "mid_block.attentions.0.to_k."},
                               NamePair{"mid.attn_1.v.", "mid_block.attentions.0.to_v."},
                               NamePair{"mid.attn_1.proj_out.", "mid_block.attentions.0.to_out.0."},
                               NamePair{".block.", ".resnets."},
                               NamePair{".nin_shortcut.", ".conv_shortcut."},
                               NamePair{".downsample.", ".downsamplers.0."},
                               NamePair{".upsample.", ".upsamplers.0."},
                               NamePair{".norm_out.", ".conv_norm_out."}};

// The number at the start of what follows `prefix`; nothing where the name is another.
std::optional<int64_t> level_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t level = 0;
  const char* end = name.data() + name.size();
  const auto [rest, status] = std::from_chars(name.data() + prefix.size(), end, level);
  if (status != std::errc() || level < 0 || rest == end || *rest != '.') return std::nullopt;
  return level;
}

int64_t count_levels(const std::vector<TensorInfo>& tensors) {
  int64_t levels = 0;
  for (const TensorInfo& tensor : tensors)
    levels = std::max(levels, level_of(tensor.name, kEncoderLevel).value_or(-1) + 1);
  return levels;
}

// The decoder's levels are counted from the largest pictures down here, and up in diffusers.
std::string diffusers_name(std::string_view original, int64_t levels) {
  std::string name(original);
  if (const auto level = level_of(name, kEncoderLevel))
    name = cat("encoder.down_blocks.", *level, name.substr(cat(kEncoderLevel, *level).size()));
  else if (const auto up = level_of(name, kDecoderLevel))
    name = cat("decoder.up_blocks.", levels - 1 - *up, name.substr(cat(kDecoderLevel, *up).size()));
  for (const NamePair& part : kParts)
    if (const size_t at = name.find(part.original); at != std::string::npos)
      name.replace(at, part.original.size(), part.diffusers);
  return name;
}

// Attention's matrices are convolutions of one pixel in the makers' files.
std::vector<int64_t> diffusers_shape(std::string_view diffusers, std::vector<int64_t> shape) {
  const bool is_matrix = diffusers.find(".attentions.0.to_") != std::string_view::npos;
  if (is_matrix && shape.size() == 4 && shape[2] == 1 && shape[3] == 1) shape.resize(2);
  return shape;
}

class RenamedVae : public Checkpoint {
 public:
  explicit RenamedVae(std::unique_ptr<Checkpoint> original) : original_(std::move(original)) {
    const int64_t levels = count_levels(original_->tensors());
    for (const TensorInfo& info : original_->tensors()) {
      const std::string name = diffusers_name(info.name, levels);
      const auto [other, is_new] = originals_.emplace(name, info.name);
      require(is_new, ErrorKind::kBadFile, original_->file_of(info.name), ": tensor '", info.name,
              "' has the place of '", other->second, "', ", name);
      tensors_.push_back({name, info.dtype, diffusers_shape(name, info.shape), info.size_bytes});
    }
    std::ranges::sort(tensors_, {}, &TensorInfo::name);
  }

  const fs::path& path() const override { return original_->path(); }
  const json& config() const override { return original_->config(); }
  json sidecar(std::string_view file_name) const override { return original_->sidecar(file_name); }
  std::string metadata(std::string_view key) const override { return original_->metadata(key); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void release(std::string_view name) const override { original_->release(original_name(name)); }
  std::string file_of(std::string_view name) const override {
    return original_->file_of(original_name(name));
  }
  TensorView read(std::string_view name) const override {
    TensorView view = original_->read(original_name(name));
    view.shape = diffusers_shape(name, std::move(view.shape));
    return view;
  }

 private:
  std::string_view original_name(std::string_view name) const {
    const auto found = originals_.find(name);
    require(found != originals_.end(), ErrorKind::kNotFound, path().string(), ": has no tensor '", name, "'");
    return found->second;
  }

  std::unique_ptr<Checkpoint> original_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string, std::less<>> originals_;  // by the name in diffusers
};

// The largest pictures' channels first.
std::vector<int64_t> level_channels(const SafetensorsFile& file, int64_t levels) {
  std::vector<int64_t> channels;
  for (int64_t level = 0; level < levels; ++level) {
    const std::string name = cat(kEncoderLevel, level, ".block.0.conv1.weight");
    const SafetensorsEntry* entry = file.find(name);
    require(entry && entry->info.shape.size() == 4, ErrorKind::kBadFile, file.path().string(), ": tensor '",
            name, "' ", entry ? "has no four dimensions" : "is missing");
    channels.push_back(entry->info.shape[0]);
  }
  return channels;
}

int64_t blocks_of_first_level(const SafetensorsFile& file) {
  int64_t count = 0;
  while (file.find(cat(kEncoderLevel, "0.block.", count, ".conv1.weight"))) ++count;
  return count;
}

// FLUX.1's, which BAGEL takes over. Other autoencoders of this shape have other scales and come with configs.
json flux_vae_config(const SafetensorsFile& file, int64_t levels) {
  const auto count = static_cast<size_t>(levels);
  constexpr int64_t kLatentChannels = 16;
  const SafetensorsEntry* latents = file.find("decoder.conv_in.weight");
  require(levels > 0 && latents && latents->info.shape.size() == 4 &&
              latents->info.shape[1] == kLatentChannels && !file.find("quant_conv.weight"),
          ErrorKind::kUnsupported, file.path().string(),
          ": is no autoencoder as FLUX.1's makers publish it (tensors encoder.down.*, ", kLatentChannels,
          " latent channels, no quant_conv); expected one, or a folder with a config.json");
  return {{"_class_name", "AutoencoderKL"},
          {"in_channels", 3},
          {"out_channels", 3},
          {"latent_channels", kLatentChannels},
          {"block_out_channels", level_channels(file, levels)},
          {"down_block_types", std::vector<std::string>(count, "DownEncoderBlock2D")},
          {"up_block_types", std::vector<std::string>(count, "UpDecoderBlock2D")},
          {"layers_per_block", blocks_of_first_level(file)},
          {"norm_num_groups", 32},
          {"sample_size", 1024},
          {"scaling_factor", 0.3611},
          {"shift_factor", 0.1159},
          {"use_quant_conv", false},
          {"use_post_quant_conv", false}};
}

class VaeFile : public Checkpoint {
 public:
  explicit VaeFile(const fs::path& path) : file_(SafetensorsFile::open(path)) {
    for (const SafetensorsEntry& entry : file_.entries()) tensors_.push_back(entry.info);
    config_ = flux_vae_config(file_, count_levels(tensors_));
  }
  const fs::path& path() const override { return file_.path(); }
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  TensorView read(std::string_view name) const override { return file_.read(name); }
  void release(std::string_view name) const override { file_.release(*file_.find(name)); }
  std::string file_of(std::string_view) const override { return path().string(); }

 private:
  SafetensorsFile file_;
  json config_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::unique_ptr<Checkpoint> present_image_vae(std::unique_ptr<Checkpoint> component) {
  if (count_levels(component->tensors()) == 0) return component;
  return std::make_unique<RenamedVae>(std::move(component));
}

std::unique_ptr<Checkpoint> open_image_vae_file(const fs::path& file) {
  return present_image_vae(std::make_unique<VaeFile>(file));
}

}  // namespace quaver::models
