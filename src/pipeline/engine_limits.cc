// Defaults, checks, and the size of the KV cache.
#include "pipeline/engine_limits.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "nn/paged_attention.h"
#include "pipeline/dtype_names.h"
#include "pipeline/memory_budget.h"

namespace quaver::pipeline {
namespace {

template <class... Args>
void check(bool good, ErrorKind kind, const char* field, const Args&... message) {
  if (!good) throw Error(kind, cat(field, " ", message...), field);
}

std::optional<at::ScalarType> parse_cache_dtype(const std::string& text) {
  if (text == "fp8" || text == "fp8_e4m3") return at::kFloat8_e4m3fn;
  const bool plain = text == "auto" || text == "float32" || text == "float16" || text == "bfloat16";
  check(plain, ErrorKind::kInvalidInput, "kv_cache_dtype",
        "must be auto, float32, float16, bfloat16, fp8 or fp8_e4m3, got '", text, "'");
  return parse_dtype(text, "kv_cache_dtype");
}

at::ScalarType cache_dtype(const TextPipelineOptions& options, const models::CausalLmInfo& info) {
  if (auto asked = parse_cache_dtype(options.kv_cache_dtype)) {
    if (*asked == at::kFloat8_e4m3fn && !info.quantized_kv_cache)
      log_warning("kv_cache_dtype ", options.kv_cache_dtype,
                  ": the checkpoint brings no scales for keys and values; they are 1");
    return *asked;
  }
  if (info.quantized_kv_cache) return at::kFloat8_e4m3fn;
  return parse_dtype(options.dtype, "dtype").value_or(at::kBFloat16);
}

// 0 stands for `fallback`.
int32_t size_option(int64_t value, int64_t fallback, const char* field) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  check(value >= 0 && value <= kMost, ErrorKind::kInvalidInput, field, "must be between 1 and ", kMost,
        ", got ", value);
  return static_cast<int32_t>(value == 0 ? std::min(fallback, kMost) : value);
}

llm::SchedulerOptions scheduler_options(const TextPipelineOptions& options, const models::CausalLmInfo& info,
                                        bool on_host) {
  llm::SchedulerOptions scheduler;
  scheduler.max_num_seqs = size_option(options.max_num_seqs, on_host ? 64 : 256, "max_num_seqs");
  scheduler.chunked_prefill = options.enable_chunked_prefill;
  scheduler.max_model_len = size_option(options.max_model_len, info.max_position_embeddings, "max_model_len");
  check(scheduler.max_model_len <= info.max_position_embeddings, ErrorKind::kInvalidInput, "max_model_len",
        "must be at most the model's ", info.max_position_embeddings, " positions, got ",
        options.max_model_len);
  return scheduler;
}

// How many blocks a sequence of full length takes, and what that allows for the cache as a whole.
int32_t choose_blocks(const TextPipelineOptions& options, const llm::EngineOptions& engine,
                      const nn::PagedCacheOptions& cache, int64_t available) {
  int64_t per_sequence = (engine.scheduler.max_model_len - 1) / engine.block_size + 1;
  int64_t most =
      std::min<int64_t>(per_sequence * engine.scheduler.max_num_seqs, std::numeric_limits<int32_t>::max());
  int64_t per_block = cache.bytes_per_block(), bytes = options.kv_cache_memory;
  check(bytes >= 0, ErrorKind::kInvalidInput, "kv_cache_memory", "must be positive, got ", bytes);
  if (bytes == 0) bytes = default_cache_bytes(most * per_block, available, cache.device.is_cpu());
  int64_t blocks = std::min(most, bytes / per_block);
  check(blocks >= 1, ErrorKind::kOutOfMemory, "kv_cache_memory", "of ", bytes,
        " bytes holds not even one block of ", per_block, " bytes");
  return static_cast<int32_t>(blocks);
}

// A context that the cache can't hold is refused when it was asked for, else cut.
void fit_context(const TextPipelineOptions& options, llm::EngineOptions& engine) {
  int64_t capacity = int64_t{engine.num_blocks} * engine.block_size;
  int32_t& length = engine.scheduler.max_model_len;
  if (length <= capacity) return;
  check(options.max_model_len == 0, ErrorKind::kOutOfMemory, "max_model_len", length,
        " does not fit: the KV cache holds ", capacity, " tokens (see kv_cache_memory)");
  log_warning("the KV cache holds ", capacity, " tokens, less than the model's context of ", length,
              "; max_model_len is ", capacity, " now");
  length = static_cast<int32_t>(capacity);
}

}  // namespace

void check_dtypes(const TextPipelineOptions& options) {
  parse_dtype(options.dtype, "dtype");
  parse_cache_dtype(options.kv_cache_dtype);
}

at::ScalarType compute_dtype(const TextPipelineOptions& options, const json& config, at::Device device) {
  if (auto asked = parse_dtype(options.dtype, "dtype")) return *asked;
  if (device.is_cpu()) return at::kFloat;
  for (const char* key : {"dtype", "torch_dtype"})
    if (auto it = config.find(key); it != config.end() && *it == "float16") return at::kHalf;
  return at::kBFloat16;
}

llm::EngineOptions engine_limits(const TextPipelineOptions& options, const models::CausalLmInfo& info,
                                 at::Device device, int64_t available) {
  llm::EngineOptions engine;
  engine.scheduler = scheduler_options(options, info, device.is_cpu());
  engine.block_size = size_option(options.block_size, 16, "block_size");
  engine.kv_cache_dtype = cache_dtype(options, info);
  engine.prefix_caching = options.enable_prefix_caching;
  engine.max_queue = size_option(options.max_queue, 1024, "max_queue");
  nn::PagedCacheOptions cache{.num_layers = info.num_layers,
                              .num_kv_heads = info.num_kv_heads,
                              .head_dim = info.head_dim,
                              .block_size = engine.block_size,
                              .dtype = engine.kv_cache_dtype,
                              .device = device};
  engine.num_blocks = choose_blocks(options, engine, cache, available);
  fit_context(options, engine);
  llm::SchedulerOptions& scheduler = engine.scheduler;
  int64_t usual = device.is_cpu() ? 512 : 8192;
  int64_t least = std::max(scheduler.max_num_seqs, scheduler.chunked_prefill ? 0 : scheduler.max_model_len);
  scheduler.max_num_batched_tokens =
      size_option(options.max_num_batched_tokens, std::max(usual, least), "max_num_batched_tokens");
  return engine;
}

}  // namespace quaver::pipeline
