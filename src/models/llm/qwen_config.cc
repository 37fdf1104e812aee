#include "models/llm/qwen_config.h"

#include "models/llm/rope_config.h"

namespace quaver::models {

DecoderConfig read_qwen(const ConfigReader& config, const DecoderDefaults& defaults) {
  DecoderConfig decoder = read_common(config, defaults);
  decoder.rope = decoder.window_rope = read_rope(
      config, {.head_dim = decoder.info.head_dim, .max_positions = decoder.info.max_position_embeddings});
  return decoder;
}

int64_t read_qwen_window(const ConfigReader& config) {
  return config.flag("use_sliding_window", false) ? config.count_or("sliding_window", 4096) : 0;
}

void read_qwen_windows(const ConfigReader& config, DecoderConfig& decoder) {
  int64_t window = read_qwen_window(config);
  if (config.has("layer_types")) return read_layer_types(config, window, decoder);
  if (window == 0) return;
  constexpr int64_t kDefaultFirst = 28;
  int64_t first = config.whole_or("max_window_layers", kDefaultFirst);
  for (size_t i = 0; i < decoder.windows.size(); ++i)
    if (static_cast<int64_t>(i) >= first) decoder.windows[i] = window;
}

}  // namespace quaver::models
