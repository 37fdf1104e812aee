// Paged attention at the shape of a small language model (9 heads of 64 on 3 kv heads): time, GB/s, GFLOP/s.
#include <benchmark/benchmark.h>

#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"

namespace quaver::kernels {
namespace {

constexpr int64_t kHeads = 9, kKvHeads = 3, kHeadDim = 64, kBlockSize = 16;

// `queries` new tokens of each of `sequences` sequences, each `context` long with them.
void attend(benchmark::State& state, int64_t sequences, int64_t queries, int64_t context, CpuFeatures cpu) {
  int64_t blocks = (context + kBlockSize - 1) / kBlockSize * sequences;
  std::vector<uint16_t> keys(static_cast<size_t>(blocks * kKvHeads * kBlockSize * kHeadDim), 0x3800),
      values = keys;
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  std::vector<float> q(static_cast<size_t>(sequences * queries * kHeads * kHeadDim), 0.1f), y = q;
  std::vector<AttentionSequence> all;
  for (int64_t i = 0; i < sequences; ++i)
    all.push_back({i * queries, queries, context, table.data() + i * (blocks / sequences)});
  for (auto _ : state)
    paged_attention(
        {.shape = {.heads = kHeads, .scale = 0.125f},
         .cache = {keys.data(), values.data(), DType::kF16, blocks, kKvHeads, kBlockSize, kHeadDim},
         .q = q.data(),
         .q_stride = kHeads * kHeadDim,
         .y = y.data(),
         .y_stride = kHeads * kHeadDim,
         .sequences = all,
         .pool = &global_thread_pool()},
        cpu);
  auto rounds = static_cast<double>(state.iterations());
  double pairs = static_cast<double>(sequences * queries) *
                 (static_cast<double>(context) - 0.5 * static_cast<double>(queries - 1));
  state.counters["GB/s"] =
      benchmark::Counter(rounds * static_cast<double>(sequences * context * kKvHeads * kHeadDim * 4) / 1e9,
                         benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(rounds * pairs * kHeads * kHeadDim * 4 / 1e9, benchmark::Counter::kIsRate);
}

void add_benchmarks() {
  const std::pair<const char*, CpuFeatures> levels[] = {{"avx2", {.avx2 = true}},
                                                        {"avx512", {.avx2 = true, .avx512 = true}}};
  for (auto [name, cpu] : levels) {
    auto add = [&, features = cpu](const std::string& what, int64_t sequences, int64_t queries,
                                   int64_t context) {
      benchmark::RegisterBenchmark((what + "/" + name).c_str(), [=](benchmark::State& state) {
        attend(state, sequences, queries, context, features);
      })->UseRealTime();
    };
    add("decode/context256", 1, 1, 256);
    add("decode/context4096", 1, 1, 4096);
    add("decode/8x256", 8, 1, 256);
    add("prefill512", 1, 512, 512);
    add("prefill2048", 1, 2048, 2048);
  }
}

}  // namespace
}  // namespace quaver::kernels

int main(int argc, char** argv) {
  quaver::kernels::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
