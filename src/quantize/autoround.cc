#include "quantize/autoround.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace quaver::quantize {
namespace {

constexpr float kLossScale = 1000.0f;  // keeps bf16 gradients away from zero; signs don't care
constexpr int64_t kEvaluations = 20;   // how often the held-out loss is measured over a run

struct Split {
  std::vector<int64_t> train, held_out;
};

Split split_rows(int64_t num_rows, std::mt19937_64& random) {
  std::vector<int64_t> rows(static_cast<size_t>(num_rows));
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
  int64_t held = num_rows < 2 ? 0 : std::max<int64_t>(1, num_rows / 8);
  Split split{.train = {rows.begin() + held, rows.end()}, .held_out = {rows.begin(), rows.begin() + held}};
  if (split.held_out.empty()) split.held_out = split.train;
  return split;
}

// Hands out minibatches of row numbers; an incomplete tail is dropped and the rows are shuffled anew.
class Minibatches {
 public:
  Minibatches(std::vector<int64_t> rows, int64_t batch_size, std::mt19937_64& random)
      : rows_(std::move(rows)),
        batch_size_(std::min<size_t>(static_cast<size_t>(batch_size), rows_.size())),
        random_(random),
        next_(rows_.size()) {}

  std::span<const int64_t> next() {
    if (next_ + batch_size_ > rows_.size()) {
      for (size_t i = rows_.size(); i > 1; --i) std::swap(rows_[i - 1], rows_[random_() % i]);
      next_ = 0;
    }
    next_ += batch_size_;
    return std::span(rows_).subspan(next_ - batch_size_, batch_size_);
  }

 private:
  std::vector<int64_t> rows_;
  size_t batch_size_;
  std::mt19937_64& random_;
  size_t next_;
};

// output - target in fp32 with the last position of each row set to zero: [batch, seqlen, hidden].
at::Tensor masked_difference(const at::Tensor& output, const at::Tensor& target) {
  at::Tensor difference = output.detach().to(at::kFloat).view_as(target) - target.to(at::kFloat);
  difference.select(1, target.size(1) - 1).zero_();
  return difference;
}

double squares_of(const at::Tensor& difference) { return difference.square().sum().item<double>(); }

// Elements of `rows` rows that the loss looks at.
double counted(const Activations& input, const TuneTarget& target, size_t rows) {
  return static_cast<double>(rows) * static_cast<double>((input.seqlen() - 1) * target.width);
}

class BlockTuner {
 public:
  BlockTuner(models::DecoderBlock& block, std::vector<TunedLayer>& layers, const Activations& input,
             const TuneTarget& target, const TuneOptions& options, int64_t block_index)
      : layers_(layers),
        input_(input),
        target_(target),
        options_(options),
        runner_(block, input.seqlen(), input.rows.device()),
        random_(options.seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(block_index)),
        split_(split_rows(input.num_rows(), random_)) {
    for (TunedLayer& layer : layers) {
      weights_.push_back(make_tunable(layer.layer.linear->dense_weight(), layer.scheme, layer.shared_amax));
      layer.layer.linear->set_input_quant({layer.activation, {}, input.rows.device()});
    }
  }

  BlockLoss tune(const StepListener& listener) {
    Minibatches batches(split_.train, options_.batch_size, random_);
    BlockLoss loss;
    install_fake_weights();
    loss.before = loss.after = held_out_loss();
    keep_current();
    for (size_t i = 0; i < layers_.size(); ++i) weights_[i]->search_ranges(layers_[i].importance);
    install_fake_weights();
    consider(0, loss);
    int64_t every = std::max<int64_t>(1, options_.iters / kEvaluations);
    for (int64_t step = 1; step <= options_.iters; ++step) {
      double batch_loss = update(batches, step - 1);
      install_fake_weights();
      if (step % every == 0 || step == options_.iters) consider(step, loss);
      if (listener) listener(step, batch_loss);
    }
    return loss;
  }

 private:
  void install_fake_weights() {
    for (size_t i = 0; i < layers_.size(); ++i)
      layers_[i].layer.linear->set_dense_weight(fakes_[i] = weights_[i]->fake_quantize());
  }

  double update(Minibatches& batches, int64_t step) {
    double loss = 0;
    std::vector<at::Tensor> gradients(weights_.size());
    for (int64_t i = 0; i < options_.gradient_accumulate_steps; ++i)
      loss += backward(batches.next(), gradients);
    float decay = 1.0f - static_cast<float>(step) / static_cast<float>(options_.iters);
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!gradients[i].defined()) continue;  // an expert that saw no token
      float lr = options_.lr > 0 ? options_.lr : default_lr(layers_[i].scheme.bits);
      float minmax_lr = options_.minmax_lr > 0 ? options_.minmax_lr : lr;
      weights_[i]->step(gradients[i], lr * decay, options_.tune_minmax ? minmax_lr * decay : 0.0f);
    }
    return loss / static_cast<double>(options_.gradient_accumulate_steps);
  }

  float default_lr(int bits) const {
    float lr = 1.0f / static_cast<float>(options_.iters);
    return options_.iters >= 1000 && bits <= 3 ? 2 * lr : lr;
  }

  double backward(std::span<const int64_t> rows, std::vector<at::Tensor>& sums) {
    double count = counted(input_, target_, rows.size());
    double factor = 2 * kLossScale / (count * static_cast<double>(options_.gradient_accumulate_steps));
    std::vector<double> squares(slices_of(rows));
    auto output_gradient = [&](const at::Tensor& output, std::span<const int64_t> which, int64_t slice) {
      at::Tensor difference = masked_difference(output, target_.rows(which));
      squares[static_cast<size_t>(slice)] = squares_of(difference);
      return (difference * factor).to(output.scalar_type());
    };
    add_gradients(sums, runner_.gradients(input_.rows, rows, fakes_, output_gradient));
    double loss = std::accumulate(squares.begin(), squares.end(), 0.0) / count;
    require(std::isfinite(loss), ErrorKind::kNonFinite, "the loss of ", layers_.front().layer.name,
            "'s block is not finite");
    return loss;
  }

  double held_out_loss() {
    double sum = 0;
    auto batch_size = static_cast<size_t>(options_.batch_size);
    for (size_t at = 0; at < split_.held_out.size(); at += batch_size) {
      auto rows = std::span<const int64_t>(split_.held_out).subspan(at);
      rows = rows.first(std::min(batch_size, rows.size()));
      std::vector<double> squares(slices_of(rows));
      runner_.forward(
          input_.rows, rows, [&](const at::Tensor& output, std::span<const int64_t> which, int64_t slice) {
            squares[static_cast<size_t>(slice)] = squares_of(masked_difference(output, target_.rows(which)));
          });
      sum += std::accumulate(squares.begin(), squares.end(), 0.0);
    }
    return sum / counted(input_, target_, split_.held_out.size());
  }

  size_t slices_of(std::span<const int64_t> rows) const {
    return static_cast<size_t>(runner_.num_slices(static_cast<int64_t>(rows.size())));
  }

  void consider(int64_t step, BlockLoss& loss) {
    double now = held_out_loss();
    if (options_.use_best && !(now < loss.after)) return;
    loss.after = now;
    loss.best_step = step;
    keep_current();
  }

  void keep_current() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      auto result = std::make_shared<QuantWeight>(weights_[i]->quantized());
      result->activation = layers_[i].activation;
      layers_[i].result = std::move(result);
    }
  }

  std::vector<TunedLayer>& layers_;
  const Activations& input_;
  const TuneTarget& target_;
  const TuneOptions& options_;
  BatchRunner runner_;
  std::mt19937_64 random_;
  Split split_;
  std::vector<std::unique_ptr<TunableWeight>> weights_;
  std::vector<at::Tensor> fakes_{layers_.size()};  // what the block's linears hold: [out, in] each
};

void run_rows(const BatchRunner& runner, const Activations& in, Activations* out, int64_t batch_size) {
  std::vector<int64_t> all(static_cast<size_t>(in.num_rows()));
  std::iota(all.begin(), all.end(), 0);
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(batch_size)) {
    size_t rows = std::min(static_cast<size_t>(batch_size), all.size() - at);
    runner.forward(in.rows, std::span(all).subspan(at, rows),
                   [&](const at::Tensor& output, std::span<const int64_t> which, int64_t) {
                     if (out) out->rows.narrow(0, which.front(), output.size(0)).copy_(output);
                   });
  }
}

}  // namespace

TuneTarget target_of(const Activations& outputs) {
  return {.rows = [&outputs](std::span<const int64_t> which) { return select_rows(outputs.rows, which); },
          .width = outputs.rows.size(2)};
}

BlockLoss tune_block(models::DecoderBlock& block, std::vector<TunedLayer>& layers, const Activations& input,
                     const TuneTarget& target, const TuneOptions& options, int64_t block_index,
                     const StepListener& listener) {
  return BlockTuner(block, layers, input, target, options, block_index).tune(listener);
}

void run_block(const models::DecoderBlock& block, const Activations& in, Activations& out,
               int64_t batch_size) {
  run_rows(BatchRunner(block, in.seqlen(), in.rows.device()), in, &out, batch_size);
}

void observe_block(const models::DecoderBlock& block, const Activations& in, Activations* out,
                   int64_t batch_size, BatchRunner::KvObserver kv, nn::ExpertCalibration* experts) {
  BatchRunner runner(block, in.seqlen(), in.rows.device());
  runner.observe(std::move(kv), experts);
  run_rows(runner, in, out, batch_size);
}

}  // namespace quaver::quantize
