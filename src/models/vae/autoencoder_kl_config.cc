#include "models/vae/autoencoder_kl_config.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace quaver::models {

namespace {

constexpr int64_t kMaxChannels = 1 << 16, kMaxLayers = 64;
constexpr size_t kMaxLevels = 8;

void check_block_types(const ConfigReader& config, const char* key, const char* known, size_t levels) {
  const std::vector<std::string> types = config.texts(key);
  if (types.empty()) config.bad(key, "is missing");
  if (types.size() != levels)
    config.bad(key, "names ", types.size(), " blocks, expected one for each of block_out_channels, ", levels);
  for (const std::string& type : types)
    if (type != known) config.unsupported(key, "names '", type, "', expected ", known, " alone");
}

std::vector<int64_t> read_channels(const ConfigReader& config, int64_t groups) {
  const std::vector<int64_t> channels = config.numbers("block_out_channels");
  if (channels.empty() || channels.size() > kMaxLevels)
    config.bad("block_out_channels", "lists ", channels.size(), " levels, expected 1 to ", kMaxLevels);
  for (int64_t count : channels)
    if (count < 1 || count > kMaxChannels || count % groups != 0)
      config.bad("block_out_channels", "holds ", count, ", expected multiples of norm_num_groups, ", groups);
  return channels;
}

int64_t read_sample_pixels(const ConfigReader& config) {
  if (!config.has("sample_size") || !config.object().at("sample_size").is_array())
    return config.count_or("sample_size", 32);
  const std::vector<int64_t> sides = config.numbers("sample_size");  // height and width
  if (sides.empty() || *std::ranges::min_element(sides) < 1)
    config.bad("sample_size", "must hold height and width");
  return sides[0];
}

double finite_or(const ConfigReader& config, const char* key, double fallback) {
  if (!config.has(key)) return fallback;
  const json& value = config.object().at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) config.bad(key, "must be a finite number");
  return value.get<double>();
}

std::vector<double> per_channel(const ConfigReader& config, const char* key, int64_t channels) {
  const json& list = config.object().at(key);
  if (!list.is_array() || static_cast<int64_t>(list.size()) != channels)
    config.bad(key, "must list one number for each of latent_channels, ", channels);
  std::vector<double> values;
  for (const json& item : list) {
    if (!item.is_number() || !std::isfinite(item.get<double>()))
      config.bad(key, "must list finite numbers, got ", item.dump(-1, ' ', true), " in it");
    values.push_back(item.get<double>());
  }
  return values;
}

// Where a mean and a deviation per channel are given, they alone count, as in GLM-Image.
void read_latent_scale(const ConfigReader& config, KlConfig& out) {
  if (config.has("latents_mean") != config.has("latents_std"))
    config.bad(config.has("latents_mean") ? "latents_std" : "latents_mean",
               "is missing: both are given, or none");
  if (config.has("latents_mean")) {
    out.latents_mean = per_channel(config, "latents_mean", out.latent_channels);
    out.latents_std = per_channel(config, "latents_std", out.latent_channels);
    if (*std::ranges::min_element(out.latents_std) <= 0)
      config.bad("latents_std", "must list numbers above zero");
    return;
  }
  out.latents_mean = {finite_or(config, "shift_factor", 0)};
  out.latents_std = {1 / config.positive_or("scaling_factor", 0.18215)};
}

}  // namespace

KlConfig read_autoencoder_kl(const ConfigReader& config) {
  KlConfig out;
  out.in_channels = config.count_or("in_channels", 3, kMaxChannels);
  out.out_channels = config.count_or("out_channels", 3, kMaxChannels);
  if (out.in_channels != out.out_channels)
    config.unsupported("out_channels", "is ", out.out_channels, ", expected that of in_channels, ",
                       out.in_channels);
  out.latent_channels = config.count_or("latent_channels", 4, kMaxChannels);
  out.groups = config.count_or("norm_num_groups", 32, kMaxChannels);
  out.channels = read_channels(config, out.groups);
  check_block_types(config, "down_block_types", "DownEncoderBlock2D", out.channels.size());
  check_block_types(config, "up_block_types", "UpDecoderBlock2D", out.channels.size());
  if (const std::string act = config.text("act_fn", "silu"); act != "silu" && act != "swish")
    config.unsupported("act_fn", "is '", act, "', expected silu");
  out.layers_per_block = config.count_or("layers_per_block", 1, kMaxLayers);
  out.sample_pixels = read_sample_pixels(config);
  out.mid_attention = config.flag("mid_block_add_attention", true);
  out.quant_conv = config.flag("use_quant_conv", true);
  out.post_quant_conv = config.flag("use_post_quant_conv", true);
  out.force_upcast = config.flag("force_upcast", true);
  read_latent_scale(config, out);
  return out;
}

int64_t decoder_values_per_pixel(const KlConfig& config) {
  const auto levels = std::ssize(config.channels);
  int64_t in = config.channels.back(), most = 0;
  for (int64_t level = levels - 1; level >= 0; --level) {
    const int64_t out = config.channels[static_cast<size_t>(level)], pixels = int64_t{1} << (2 * level);
    const int64_t doubled = level + 1 < levels ? in * 9 / 4 : 0;  // what led to this level
    most = std::max(most, std::max({2 * in + out, in + 3 * out, doubled}) / pixels);
    in = out;
  }
  return most;
}

}  // namespace quaver::models
