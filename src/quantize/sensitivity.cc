#include "quantize/sensitivity.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"
#include "nn/attention_context.h"
#include "quantize/aten_threads.h"

namespace quaver::quantize {
namespace {

using Linears = std::vector<models::DecoderBlock::NamedLinear>;

// One multiplication of one layer: what went in, and the loss's gradient in what came out.
struct Call {
  at::Tensor input, gradient;  // [tokens, in], [tokens, out]; the gradient is undefined where there is none
};

// Listens to a block's layers while it lives; each thread hears of its own calls.
class Calls {
 public:
  explicit Calls(Linears linears) : linears_(std::move(linears)) {
    for (size_t i = 0; i < linears_.size(); ++i) {
      linears_[i].linear->set_input_observer(
          [this, i](const at::Tensor& x) { of(i).push_back({.input = x.detach()}); });
      linears_[i].linear->set_output_observer([this, i](const at::Tensor& y) {
        if (y.requires_grad())
          y.register_hook([&call = of(i).back()](const at::Tensor& gradient) { call.gradient = gradient; });
      });
    }
  }
  ~Calls() {
    for (auto& linear : linears_) {
      linear.linear->set_input_observer(nullptr);
      linear.linear->set_output_observer(nullptr);
    }
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Entries stay where they are until `clear`.
  std::deque<Call>& of(size_t layer) { return of_thread()[layer]; }
  void clear() {
    for (auto& calls : of_thread()) calls.clear();
  }

 private:
  std::vector<std::deque<Call>>& of_thread() {
    std::lock_guard lock(mutex_);
    auto [entry, is_new] = calls_.try_emplace(std::this_thread::get_id());
    if (is_new) entry->second.resize(linears_.size());
    return entry->second;
  }

  Linears linears_;
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<std::deque<Call>>> calls_;  // by layer
};

// A layer under one scheme.
struct Rounded {
  at::Tensor error;  // rounded - original, [out, in]; undefined: none
  ActivationQuant activation;
};

class Sensitivity {
 public:
  Sensitivity(const SensitivityProblem& problem, ProgressSink& progress)
      : p_(problem),
        progress_(progress),
        positions_(at::arange(problem.tokens.size(1), problem.tokens.options())) {}

  std::map<std::string, std::vector<double>> measure() {
    at::Tensor hidden = forward();
    gradients_.resize(static_cast<size_t>(rows()));
    for_each_row([&](int64_t row) {
      gradients_[static_cast<size_t>(row)] = head_gradient(hidden.select(0, row), row);
    });
    for (int64_t block = p_.shell.info().num_layers - 1; block >= 0; --block) {
      backward(block);
      report(2 * p_.shell.info().num_layers - 1 - block);
    }
    for (auto& [layer, losses] : losses_)
      for (double& loss : losses) loss /= 2 * static_cast<double>(p_.tokens.numel());
    return std::move(losses_);
  }

 private:
  int64_t rows() const { return p_.tokens.size(0); }

  // Rows are independent: on the CPU each runs on one thread from end to end, as in BatchRunner. What they
  // give is added up in their order, so that no number depends on that of the threads.
  void for_each_row(const std::function<void(int64_t row)>& body) const {
    const auto run_all = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row);
    };
    if (!p_.tokens.is_cpu()) return run_all(0, rows());
    const int threads = std::max(1, global_thread_pool().num_threads() / static_cast<int>(rows()));
    global_thread_pool().parallel_for(rows(), 1, [&](int64_t begin, int64_t end) {
      AtenThreads guard(threads);
      run_all(begin, end);
    });
  }

  void report(int64_t done) {
    progress_.update(done + 1, 2 * p_.shell.info().num_layers, "measuring layers");
  }

  at::Tensor run(const models::DecoderBlock& block, const at::Tensor& row) const {
    nn::DenseAttention attention({row.size(0)});
    return block.forward(row, {.positions = positions_, .attention = &attention});
  }

  // Keeps what goes into each block.
  at::Tensor forward() {
    at::NoGradGuard no_grad;
    const int64_t seqlen = p_.tokens.size(1);
    at::Tensor hidden = p_.shell.embed(p_.tokens.flatten()).unflatten(0, {rows(), seqlen});
    for (int64_t index = 0; index < p_.shell.info().num_layers; ++index) {
      const auto block = p_.load_block(index);
      Calls calls(block->linears());
      inputs_.push_back(hidden);
      at::Tensor next = at::zeros_like(hidden);
      const size_t num_linears = block->linears().size();
      std::vector<std::vector<at::Tensor>> squares(static_cast<size_t>(rows()));  // by row and layer, [in]
      for_each_row([&](int64_t row) {
        at::NoGradGuard in_this_thread;
        next.select(0, row).copy_(run(*block, hidden.select(0, row)));
        std::vector<at::Tensor>& own = squares[static_cast<size_t>(row)];
        own.resize(num_linears);
        for (size_t i = 0; i < own.size(); ++i)
          for (const Call& call : calls.of(i)) add_to(own[i], squares_of(call.input));
        calls.clear();
      });
      importance_.emplace_back(num_linears);
      for (const auto& own : squares)
        for (size_t i = 0; i < own.size(); ++i) add_to(importance_.back()[i], own[i]);
      hidden = next;
      report(index);
    }
    return hidden;
  }

  // Undefined without tokens.
  static at::Tensor squares_of(const at::Tensor& input) {
    return input.size(0) == 0 ? at::Tensor() : input.to(at::kFloat).square().sum(0);
  }

  static void add_to(at::Tensor& sum, const at::Tensor& more) {
    if (more.defined()) sum = sum.defined() ? sum + more : more;
  }

  // Of -log p(drawn token), summed over the row: p - 1 at that token, back through head and final norm.
  at::Tensor head_gradient(const at::Tensor& hidden, int64_t row) const {
    at::AutoGradMode with_gradients(true);
    at::Generator random = at::make_generator<at::CPUGeneratorImpl>(p_.seed + static_cast<uint64_t>(row));
    at::Tensor leaf = hidden.detach().requires_grad_();
    at::Tensor logits = p_.shell.logits(leaf);
    at::Tensor share = at::softmax(logits.detach(), -1);
    at::Tensor drawn = at::multinomial(share.cpu(), 1, /*replacement=*/false, random).to(share.device());
    share.scatter_add_(1, drawn, at::zeros_like(drawn, share.options()) - 1);
    return torch::autograd::grad({logits}, {leaf}, {share}).front();
  }

  void backward(int64_t index) {
    const auto block = p_.load_block(index);
    const Linears linears = block->linears();
    std::vector<std::vector<Rounded>> rounded;
    for (size_t i = 0; i < linears.size(); ++i)
      rounded.push_back(roundings(linears[i], importance_[static_cast<size_t>(index)][i]));
    Calls calls(linears);
    std::vector<std::vector<std::vector<double>>> losses(
        static_cast<size_t>(rows()));  // by row, layer, scheme
    for_each_row([&](int64_t row) {
      at::AutoGradMode with_gradients(true);
      at::Tensor leaf = inputs_.back().select(0, row).detach().requires_grad_();
      at::Tensor& gradient = gradients_[static_cast<size_t>(row)];
      gradient = torch::autograd::grad({run(*block, leaf)}, {leaf}, {gradient}).front();
      for (size_t i = 0; i < linears.size(); ++i)
        losses[static_cast<size_t>(row)].push_back(losses_of(*linears[i].linear, rounded[i], calls.of(i)));
      calls.clear();
    });
    for (const auto& of_layer : losses)
      for (size_t i = 0; i < linears.size(); ++i)
        add_losses(cat(p_.shell.info().blocks_prefix, ".", index, ".", linears[i].name), of_layer[i]);
    inputs_.pop_back();
  }

  void add_losses(const std::string& layer, const std::vector<double>& of_row) {
    std::vector<double>& sums = losses_[layer];
    sums.resize(of_row.size());
    for (size_t i = 0; i < of_row.size(); ++i) sums[i] += of_row[i];
  }

  std::vector<Rounded> roundings(const models::DecoderBlock::NamedLinear& linear,
                                 const at::Tensor& importance) const {
    const at::Tensor weight = linear.linear->dense_weight();
    std::vector<Rounded> all;
    for (const Scheme& scheme : p_.schemes) {
      if (scheme.bits == 16) {
        all.emplace_back();
        continue;
      }
      const TunedLayer layer{.layer = linear, .scheme = scheme, .importance = importance};
      auto quant = std::make_shared<QuantWeight>(round_layer(layer, p_.rounding, linear.name));
      const at::Tensor dense =
          nn::Linear::quantized(std::move(quant), std::nullopt, at::kFloat, at::kCPU).dense_weight();
      all.push_back({(dense.to(weight.device()) - weight.to(at::kFloat)).to(inputs_.back().scalar_type()),
                     stored_scheme(scheme).activation});
    }
    return all;
  }

  // By scheme.
  static std::vector<double> losses_of(const nn::Linear& linear, const std::vector<Rounded>& rounded,
                                       const std::deque<Call>& calls) {
    at::NoGradGuard no_grad;
    std::vector<double> losses(rounded.size());
    for (const Call& call : calls) {
      if (!call.gradient.defined() || call.input.size(0) == 0) continue;
      for (size_t i = 0; i < rounded.size(); ++i) {
        if (!rounded[i].error.defined()) continue;
        const at::Tensor change =
            (output_error(linear, rounded[i], call.input).to(at::kFloat) * call.gradient.to(at::kFloat))
                .sum(-1);
        losses[i] += change.square().sum().item<double>();
      }
    }
    return losses;
  }

  // Q(x) W'^T - x W^T without the difference of two large numbers.
  static at::Tensor output_error(const nn::Linear& linear, const Rounded& rounded, const at::Tensor& input) {
    if (rounded.activation.mode == ActivationQuant::Mode::kNone) return at::linear(input, rounded.error);
    ActivationQuant activation = rounded.activation;
    set_input_scale(activation, input.abs().max().item<float>());
    const at::Tensor rounded_input = nn::quantize_dequantize(input, activation);
    return at::linear(rounded_input, rounded.error) +
           at::linear(rounded_input - input, linear.dense_weight().to(input.scalar_type()));
  }

  const SensitivityProblem& p_;
  ProgressSink& progress_;

  at::Tensor positions_;                             // [seqlen]
  std::vector<at::Tensor> inputs_;                   // of the blocks: [rows, seqlen, hidden]
  std::vector<std::vector<at::Tensor>> importance_;  // by block and layer, [in]
  std::vector<at::Tensor> gradients_;                // by row, in what goes into the last block looked at
  std::map<std::string, std::vector<double>> losses_;
};

}  // namespace

std::map<std::string, std::vector<double>> measure_sensitivity(const SensitivityProblem& problem,
                                                               ProgressSink& progress) {
  return Sensitivity(problem, progress).measure();
}

}  // namespace quaver::quantize
