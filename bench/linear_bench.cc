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

// How a weight is stored.
struct Kind {
  std::string name;
  bool quantized = true;  // else bf16
  Element element = Element::kInt4;
  int64_t group = 128, group_rows = 1;
  ScaleCodec codec = ScaleCodec::kF32;
  bool second = false;  // a second level of scales: one number
  bool mins = false;
};
const Kind kBF16 = {"bf16", false};
Kind integer(int bits) { return {"w" + std::to_string(bits), true, integer_element(bits)}; }

// A random weight as a checkpoint has it.
struct Stored {
  LinearProblem problem;
  std::vector<std::byte> codes, scales;
  float super = 1.0f;
  const Kind& kind;

  Stored(Shape shape, const Kind& of) : kind(of) {
    problem = {.n = shape.n,
               .k = shape.k,
               .quantized = kind.quantized,
               .plain = DType::kBF16,
               .element = kind.element,
               .group = kind.group,
               .group_rows = kind.group_rows,
               .has_mins = kind.mins};
    int bits = kind.quantized ? element_info(kind.element).bits : 16;
    codes.resize(static_cast<size_t>(shape.n * shape.k * bits / 8));
    std::minstd_rand random(7);
    // Neither NaN nor infinity, whatever the bytes mean, nor subnormal bf16: products with those are slow.
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] =
          static_cast<std::byte>(bits == 16 && i % 2 == 1 ? 0x3c : random() >> 8 & (bits < 8 ? 0xff : 0x3f));
    scales.resize(static_cast<size_t>(groups() * scale_codec_info(kind.codec).bytes), std::byte{0x38});
  }
  int64_t groups() const {
    return (problem.n + kind.group_rows - 1) / kind.group_rows * ((problem.k + kind.group - 1) / kind.group);
  }
  WeightView view() const {
    ScaleView level = {.codec = kind.codec,
                       .codes = scales.data(),
                       .super = kind.second ? &super : nullptr,
                       .share = groups()};
    return {.problem = problem, .codes = codes, .scales = level, .mins = kind.mins ? level : ScaleView()};
  }
};

const LinearKernel& kernel_of(const LinearProblem& problem, const std::string& name) {
  for (const LinearKernel& row : linear_kernels())
    if (row.name == name && row.supports(problem, cpu_features())) return row;
  return choose_linear_kernel(problem);
}

// Prepacked for one kernel.
struct Layer {
  LinearProblem problem;
  const LinearKernel* kernel;
  std::unique_ptr<Prepacked> weight;
  std::vector<float> y;

  Layer(Shape shape, const Kind& kind, const std::string& kernel_name, int64_t m) {
    Stored stored(shape, kind);
    problem = stored.problem;
    kernel = &kernel_of(problem, kernel_name);
    weight = kernel->prepack(stored.view());
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

  void add(std::vector<Shape> shapes, const Kind& kind, const std::string& kernel, int64_t m) {
    Group group;
    for (Shape s : shapes) {
      group.layers.emplace_back(s, kind, kernel, m);
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

// All linear layers of 30 blocks 576 wide, and a head where one is given.
void whole_model(benchmark::State& state, int64_t m, const Kind& kind, const Kind* head,
                 const std::string& kernel) {
  Model model;
  for (int i = 0; i < 30; ++i) {
    model.add({{576, 576}, {192, 576}, {192, 576}}, kind, kernel, m);
    model.add({{576, 576}}, kind, kernel, m);
    model.add({{1536, 576}, {1536, 576}}, kind, kernel, m);
    model.add({{576, 1536}}, kind, kernel, m);
  }
  if (head) model.add({{49152, 576}}, *head, kernel, m);
  model.finish(m);
  for (auto _ : state) model.run(m);
  report(state, model, m);
}

void one_layer(benchmark::State& state, Shape shape, int64_t m, const Kind& kind, const std::string& kernel) {
  Model model;
  model.add({shape}, kind, kernel, m);
  model.finish(m);
  for (auto _ : state) model.run(m);
  report(state, model, m);
}

// Laying a weight out while a model is loaded.
void prepack(benchmark::State& state, Shape shape, const Kind& kind) {
  Stored stored(shape, kind);
  const LinearKernel& kernel = choose_linear_kernel(stored.problem);
  for (auto _ : state) benchmark::DoNotOptimize(kernel.prepack(stored.view()));
  state.counters["weights/s"] =
      benchmark::Counter(static_cast<double>(shape.n * shape.k * static_cast<int64_t>(state.iterations())),
                         benchmark::Counter::kIsRate);
}

// What checkpoints hold; bf16 is what a layer would be expanded to.
const Kind kStored[] = {
    kBF16,
    {.name = "w2", .element = Element::kInt2, .group = 64, .codec = ScaleCodec::kF16},
    {.name = "w4", .codec = ScaleCodec::kF16},
    {.name = "w4_minima", .group = 32, .codec = ScaleCodec::kU6, .second = true, .mins = true},
    {.name = "fp8_blocks", .element = Element::kE4M3FN, .group_rows = 128},
    {.name = "mxfp8", .element = Element::kE5M2, .group = 32, .codec = ScaleCodec::kE8M0},
    {.name = "mxfp6", .element = Element::kE3M2, .group = 32, .codec = ScaleCodec::kE8M0},
    {.name = "mxfp4", .element = Element::kE2M1, .group = 32, .codec = ScaleCodec::kE8M0},
    {.name = "nvfp4", .element = Element::kE2M1, .group = 16, .codec = ScaleCodec::kE4M3FN, .second = true},
    {.name = "nf4", .element = Element::kNF4, .group = 64},
};

void add_benchmarks() {
  auto named = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime();
  };
  static const Kind w4 = integer(4), w8 = integer(8);
  for (std::string kernel :
       {"best", "int_a8_vnni", "int_a8_avx512", "int_a8_avx2", "int_a32_avx512", "int_a32_avx2"}) {
    named("decode/w4/" + kernel, [=](benchmark::State& s) { whole_model(s, 1, w4, &w8, kernel); });
    named("prefill512/w4/" + kernel, [=](benchmark::State& s) { whole_model(s, 512, w4, nullptr, kernel); });
  }
  named("decode/w8/best", [](benchmark::State& s) { whole_model(s, 1, w8, &w8, "best"); });
  named("decode/w4_bf16head/best", [](benchmark::State& s) { whole_model(s, 1, w4, &kBF16, "best"); });
  named("prefill512/w8/best", [](benchmark::State& s) { whole_model(s, 512, w8, nullptr, "best"); });
  for (std::string kernel : {"plain_avx512", "plain_avx2"}) {
    named("decode/bf16/" + kernel, [=](benchmark::State& s) { whole_model(s, 1, kBF16, &kBF16, kernel); });
    named("prefill512/bf16/" + kernel,
          [=](benchmark::State& s) { whole_model(s, 512, kBF16, nullptr, kernel); });
  }
  named("bf16/49152x576/m1", [](benchmark::State& s) { one_layer(s, {49152, 576}, 1, kBF16, "best"); });
  for (const Kind& kind : kStored)
    named("prepack/" + kind.name, [&kind](benchmark::State& s) { prepack(s, {2048, 2048}, kind); });
  for (const Kind& kind : kStored)
    for (int64_t m : {1, 8, 128})
      for (std::string kernel : {"avx512", "avx2"})
        named("stored/" + kind.name + "/m" + std::to_string(m) + "/" + kernel,
              [&kind, m, kernel](benchmark::State& s) {
                std::string row = !kind.quantized                      ? "plain_"
                                  : element_info(kind.element).integer ? "int_a32_"
                                                                       : "float_a32_";
                one_layer(s, {8192, 4096}, m, kind, row + kernel);
              });
  for (Shape shape : {Shape{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {4096, 4096}})
    for (int64_t m : {1, 4, 8, 512})
      named("w4/" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + "/m" + std::to_string(m),
            [=](benchmark::State& s) { one_layer(s, shape, m, w4, "best"); });
}

}  // namespace
}  // namespace quaver::kernels

int main(int argc, char** argv) {
  quaver::kernels::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
