// Defaults, checks and cache sizes of the text pipeline.
#include "pipeline/engine_limits.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "pipeline/memory_budget.h"

namespace quaver::pipeline {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

models::CausalLmInfo small_model() {
  return {.num_layers = 30,
          .hidden_size = 576,
          .vocab_size = 49152,
          .num_heads = 9,
          .num_kv_heads = 3,
          .head_dim = 64,
          .max_position_embeddings = 8192};
}

constexpr int64_t kBlockBytes = 2 * 30 * 3 * 64 * 16 * 2;  // of that model in bfloat16

llm::EngineOptions limits(const TextPipelineOptions& options, int64_t available = 64 * kGiB) {
  return engine_limits(options, small_model(), at::kCPU, available);
}

std::string field_of(const TextPipelineOptions& options, int64_t available = 64 * kGiB) {
  try {
    limits(options, available);
  } catch (const Error& error) {
    return error.field();
  }
  return "";
}

TEST(EngineLimits, DefaultsOnTheCpu) {
  llm::EngineOptions engine = limits({});
  EXPECT_EQ(engine.scheduler.max_num_seqs, 64);
  EXPECT_EQ(engine.scheduler.max_num_batched_tokens, 512);
  EXPECT_EQ(engine.scheduler.max_model_len, 8192);
  EXPECT_EQ(engine.kv_cache_dtype, at::kBFloat16);
  EXPECT_EQ(engine.num_blocks, 4 * kGiB / kBlockBytes);  // 64 sequences of 8192 tokens would take 11 GiB
  EXPECT_TRUE(engine.scheduler.chunked_prefill && engine.prefix_caching);
}

TEST(EngineLimits, TakesNoMoreThanCanBeUsed) {
  EXPECT_EQ(limits({.max_model_len = 100, .max_num_seqs = 2}).num_blocks, 14);
  EXPECT_EQ(limits({.kv_cache_memory = kGiB, .max_model_len = 100, .max_num_seqs = 2}).num_blocks, 14);
}

TEST(EngineLimits, ObeysTheBudget) {
  EXPECT_EQ(limits({.kv_cache_memory = 1000 * kBlockBytes + 5}).num_blocks, 1000);
  EXPECT_EQ(limits({}, 8 * kGiB).num_blocks, 2 * kGiB / kBlockBytes);
}

TEST(EngineLimits, ASmallCacheShortensTheContextOrRefusesIt) {
  llm::EngineOptions engine = limits({.kv_cache_memory = 64 * kBlockBytes});
  EXPECT_EQ(engine.num_blocks, 64);
  EXPECT_EQ(engine.scheduler.max_model_len, 1024);
  EXPECT_EQ(field_of({.kv_cache_memory = 64 * kBlockBytes, .max_model_len = 1025}), "max_model_len");
  EXPECT_EQ(field_of({.kv_cache_memory = 64 * kBlockBytes, .max_model_len = 1024}), "");
  EXPECT_EQ(field_of({.kv_cache_memory = kBlockBytes - 1}), "kv_cache_memory");
}

TEST(EngineLimits, NamesTheOptionAtFault) {
  EXPECT_EQ(field_of({.max_model_len = 8193}), "max_model_len");
  EXPECT_EQ(field_of({.max_model_len = -1}), "max_model_len");
  EXPECT_EQ(field_of({.max_num_seqs = int64_t{1} << 40}), "max_num_seqs");
  EXPECT_EQ(field_of({.max_num_batched_tokens = -5}), "max_num_batched_tokens");
  EXPECT_EQ(field_of({.block_size = -16}), "block_size");
  EXPECT_EQ(field_of({.max_queue = -1}), "max_queue");
  EXPECT_EQ(field_of({.kv_cache_memory = -1}), "kv_cache_memory");
  EXPECT_EQ(field_of({.kv_cache_dtype = "fp8_e5m2"}), "kv_cache_dtype");
  EXPECT_THROW(check_dtypes({.dtype = "half"}), Error);
}

TEST(EngineLimits, StepsHoldWhatTheOptionsNeed) {
  EXPECT_EQ(limits({.max_num_seqs = 1000}).scheduler.max_num_batched_tokens, 1000);
  EXPECT_EQ(limits({.enable_chunked_prefill = false}).scheduler.max_num_batched_tokens, 8192);
}

TEST(EngineLimits, Dtypes) {
  json bf16 = {{"torch_dtype", "bfloat16"}}, f16 = {{"dtype", "float16"}};
  EXPECT_EQ(compute_dtype({}, bf16, at::kCPU), at::kFloat);
  EXPECT_EQ(compute_dtype({}, bf16, at::kCUDA), at::kBFloat16);
  EXPECT_EQ(compute_dtype({}, f16, at::kCUDA), at::kHalf);
  EXPECT_EQ(compute_dtype({.dtype = "float32"}, f16, at::kCUDA), at::kFloat);
  EXPECT_EQ(limits({.dtype = "float32"}).kv_cache_dtype, at::kFloat);
  EXPECT_EQ(limits({.dtype = "float32", .kv_cache_dtype = "float16"}).kv_cache_dtype, at::kHalf);
  EXPECT_EQ(limits({.dtype = "float16"}).kv_cache_dtype, at::kHalf);
  EXPECT_EQ(limits({.dtype = "float16", .kv_cache_dtype = "fp8"}).kv_cache_dtype, at::kFloat8_e4m3fn);
}

TEST(EngineLimits, TheCacheIsWhatTheCheckpointAsksFor) {
  models::CausalLmInfo info = small_model();
  info.quantized_kv_cache = true;
  auto dtype = [&](const TextPipelineOptions& options) {
    return engine_limits(options, info, at::kCPU, 64 * kGiB).kv_cache_dtype;
  };
  EXPECT_EQ(dtype({}), at::kFloat8_e4m3fn);
  EXPECT_EQ(dtype({.dtype = "float32"}), at::kFloat8_e4m3fn);
  EXPECT_EQ(dtype({.kv_cache_dtype = "bfloat16"}), at::kBFloat16);
}

TEST(MemoryBudget, LeavesRoomForTheRest) {
  EXPECT_EQ(default_cache_bytes(100, 1000, true), 100);
  EXPECT_EQ(default_cache_bytes(1000, 1000, true), 250);
  EXPECT_EQ(default_cache_bytes(100 * kGiB, 100 * kGiB, true), 4 * kGiB);
  EXPECT_EQ(default_cache_bytes(100 * kGiB, 100 * kGiB, false), 100 * kGiB / 100 * 85);
  EXPECT_GT(available_host_memory(), 0);
  EXPECT_LT(available_host_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace quaver::pipeline
