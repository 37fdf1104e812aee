// Linear kernels on the shapes of a small language model: time, GB/s of weights, GOP/s.
// linear_bench --benchmark_filter='decode|prefill' gives whole-model figures in tokens per second.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/linear/kernel.h"

namespace quaver::kernels {
namespace {

struct Shape {
  int64_t n, k;
};

// One random weight, prepacked for one kernel.
struct Layer {
  LinearProblem problem;
  const LinearKernel* kernel;
  std::unique_ptr<Prepacked> weight;
  std::vector<float> y;

  Layer(Shape shape, bool quantized, int bits, const std::string& kernel_name, int64_t m) {
    problem = {.n = shape.n,
               .k = shape.k,
               .quantized = quantized,
               .plain = DType::kBF16,
               .element = integer_element(bits),
               .group = 128};
    kernel = &choose_linear_kernel(problem);
    for (const LinearKernel& row : linear_kernels())
      if (row.name == kernel_name && row.supports(problem, cpu_features())) kernel = &row;
    std::vector<std::byte> codes(static_cast<size_t>(shape.n * shape.k * (quantized ? bits : 16) / 8));
    std::minstd_rand random(7);
    for (auto& byte : codes) byte = static_cast<std::byte>(random() >> 8 & (quantized ? 0xff : 0x3f));
    std::vector<float> scales(static_cast<size_t>(shape.n * ((shape.k + 127) / 128)), 0.01f);
    weight = kernel->prepack({problem, codes, ScaleView::of(scales.data())});
    y.resize(static_cast<size_t>(m * shape.n));
  }
};

// Layers that share one x, run in one call.
struct Group {
  std::vector<Layer> layers;
  std::vector<LinearPart> parts() {
    std::vector<LinearPart> all;
    for (Layer& l : layers) all.push_back({&l.problem, l.weight.get(), l.y.data(), l.problem.n, nullptr});
    return all;
  }
};

struct Model {
  std::vector<Group> groups;
  int64_t bytes = 0, multiplications = 0;
  Buffer workspace;
  std::byte* memory = nullptr;
  std::vector<float> x;

  void add(std::vector<Shape> shapes, bool quantized, int bits, const std::string& kernel, int64_t m) {
    Group group;
    for (Shape s : shapes) {
      group.layers.emplace_back(s, quantized, bits, kernel, m);
      bytes += static_cast<int64_t>(group.layers.back().weight->size_bytes());
      multiplications += s.n * s.k;
    }
    groups.push_back(std::move(group));
  }
  void finish(int64_t m) {
    size_t size = 0;
    int64_t k = 0;
    for (Group& g : groups)
      for (Layer& l : g.layers) {
        size = std::max(size, l.kernel->workspace_bytes(l.problem, m));
        k = std::max(k, l.problem.k);
      }
    workspace = Buffer::allocate(size, memory);
    x.resize(static_cast<size_t>(m * k));
    std::minstd_rand random(3);
    for (float& v : x) v = static_cast<float>(random() % 2000) / 1000.0f - 1.0f;
  }
  void run(int64_t m) {
    for (Group& g : groups) {
      auto parts = g.parts();
      g.layers[0].kernel->run_parts(parts,
                                    {x.data(), g.layers[0].problem.k, m, memory, &global_thread_pool()});
    }
  }
};

void report(benchmark::State& state, const Model& model, int64_t m) {
  auto rounds = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(model.bytes) * rounds / 1e9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(model.multiplications * m) * rounds,
                                               benchmark::Counter::kIsRate);
  state.counters["tok/s"] = benchmark::Counter(static_cast<double>(m) * rounds, benchmark::Counter::kIsRate);
}

// All linear layers of 30 blocks 576 wide, and a head where `head_bits` is not 0.
void whole_model(benchmark::State& state, int64_t m, bool quantized, int bits, int head_bits,
                 std::string kernel) {
  Model model;
  for (int i = 0; i < 30; ++i) {
    model.add({{576, 576}, {192, 576}, {192, 576}}, quantized, bits, kernel, m);
    model.add({{576, 576}}, quantized, bits, kernel, m);
    model.add({{1536, 576}, {1536, 576}}, quantized, bits, kernel, m);
    model.add({{576, 1536}}, quantized, bits, kernel, m);
  }
  if (head_bits != 0) model.add({{49152, 576}}, head_bits < 16, head_bits < 16 ? head_bits : 8, kernel, m);
  model.finish(m);
  for (auto _ : state) model.run(m);
  report(state, model, m);
}

void one_layer(benchmark::State& state, Shape shape, int64_t m, bool quantized, int bits,
               std::string kernel) {
  Model model;
  model.add({shape}, quantized, bits, kernel, m);
  model.finish(m);
  for (auto _ : state) model.run(m);
  report(state, model, m);
}

void add_benchmarks() {
  auto named = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime();
  };
  for (std::string kernel :
       {"best", "int_a8_vnni", "int_a8_avx512", "int_a8_avx2", "int_a32_avx512", "int_a32_avx2"}) {
    named("decode/w4/" + kernel, [=](benchmark::State& s) { whole_model(s, 1, true, 4, 8, kernel); });
    named("prefill512/w4/" + kernel, [=](benchmark::State& s) { whole_model(s, 512, true, 4, 0, kernel); });
  }
  named("decode/w8/best", [](benchmark::State& s) { whole_model(s, 1, true, 8, 8, "best"); });
  named("decode/w4_bf16head/best", [](benchmark::State& s) { whole_model(s, 1, true, 4, 16, "best"); });
  named("prefill512/w8/best", [](benchmark::State& s) { whole_model(s, 512, true, 8, 0, "best"); });
  for (std::string kernel : {"plain_avx512", "plain_avx2"}) {
    named("decode/bf16/" + kernel, [=](benchmark::State& s) { whole_model(s, 1, false, 8, 16, kernel); });
    named("prefill512/bf16/" + kernel,
          [=](benchmark::State& s) { whole_model(s, 512, false, 8, 0, kernel); });
  }
  named("bf16/49152x576/m1", [](benchmark::State& s) { one_layer(s, {49152, 576}, 1, false, 8, "best"); });
  for (Shape shape : {Shape{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {4096, 4096}})
    for (int64_t m : {1, 4, 8, 512})
      named("w4/" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + "/m" + std::to_string(m),
            [=](benchmark::State& s) { one_layer(s, shape, m, true, 4, "best"); });
}

}  // namespace
}  // namespace quaver::kernels

int main(int argc, char** argv) {
  quaver::kernels::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
