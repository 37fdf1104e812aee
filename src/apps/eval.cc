// quaver eval: perplexity of a model on a text, and its distance from a reference model.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "apps/model_argument.h"
#include "apps/text_flags.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "eval/text_eval.h"
#include "models/tokenizer_files.h"
#include "nn/device.h"

namespace quaver::apps {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct EvalFlags {
  std::string model, reference, text, output_json, quantization, device = "cpu";
  int64_t seqlen = 512, tokens = 50000;
  bool strict_activations = true, print_json = false;
};

at::Tensor tokens_of(const EvalFlags& flags, const std::string& model, at::Device device) {
  std::string text = read_text_file(flags.text, kMaxTextBytes);
  std::vector<int32_t> ids = models::open_tokenizer(model)->encode(text, false, false);
  auto count = std::min(static_cast<int64_t>(ids.size()), flags.tokens);
  at::Tensor tokens = at::empty({count}, at::kLong);
  std::copy_n(ids.begin(), count, tokens.data_ptr<int64_t>());
  return tokens.to(device);
}

// Both models run with exact float32 arithmetic on dequantized weights, so that differences come from the
// weights and from inputs that the checkpoint wants quantized.
struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<nn::WeightSource> source;
  std::unique_ptr<models::CausalLm> model;
};

Loaded load(const std::string& path, nn::LoadOptions options, const std::string& quantization) {
  Loaded loaded;
  loaded.checkpoint = models::open_model(path);
  if (!quantization.empty())
    options.round_plain = quantize::online_rounding(*loaded.checkpoint, quantization);
  loaded.source = std::make_unique<nn::WeightSource>(*loaded.checkpoint, options);
  loaded.model = models::load_causal_lm(*loaded.source);
  return loaded;
}

void print_evaluation(const eval::TextEvaluation& e) {
  std::printf("tokens               %ld in chunks of %ld\n", e.num_tokens, e.chunk_length);
  std::printf("perplexity           %.4f +- %.4f\n", e.perplexity, e.perplexity_standard_error);
  if (!e.kl) return;
  std::printf("reference perplexity %.4f\n", *e.reference_perplexity);
  std::printf("mean KL              %.5f +- %.5f nats per token\n", e.kl->mean, e.kl->standard_error);
  std::printf("99%% of tokens below  %.5f nats\n", *e.kl_p99);
  std::printf("top-1 agreement      %.4f +- %.4f\n", e.top1_agreement->mean,
              e.top1_agreement->standard_error);
}

int run_eval(const EvalFlags& flags) {
  const at::Device device = nn::parse_device(flags.device);
  std::string path = resolve_model(flags.model);
  const nn::LoadOptions options{
      .device = device, .keep_quantized = false, .strict_activations = flags.strict_activations};
  Loaded model = load(path, options, flags.quantization);
  at::Tensor tokens = tokens_of(flags, path, device);
  Loaded reference;
  if (!flags.reference.empty()) reference = load(resolve_model(flags.reference), options, "");
  std::unique_ptr<ProgressSink> progress = make_terminal_progress("evaluating");
  eval::TextEvaluation result =
      eval::evaluate_text(*model.model, reference.model.get(), tokens, flags.seqlen, *progress);
  progress->finish("done");
  json document = eval::to_json(result);
  document["model"] = flags.model;
  if (!flags.quantization.empty()) document["quantization"] = flags.quantization;
  if (!flags.reference.empty()) document["reference"] = flags.reference;
  if (!flags.output_json.empty()) write_file_atomically(flags.output_json, document.dump(1) + "\n");
  if (flags.print_json)
    std::printf("%s\n", document.dump(1).c_str());
  else
    print_evaluation(result);
  return 0;
}

}  // namespace

std::function<int()> add_eval(CLI::App& app) {
  auto flags = std::make_shared<EvalFlags>();
  add_model(app, flags->model);
  add_flag(app, "text", flags->text, "text file to predict")->required();
  add_flag(app, "reference", flags->reference, "model to compare with, usually the one before quantization");
  add_flag(app, "seqlen", flags->seqlen, "tokens per chunk");
  add_flag(app, "tokens", flags->tokens, "tokens to use at most");
  add_flag(app, "device", flags->device, "auto, cpu, cuda or cuda:N");
  add_flag(app, "output_json", flags->output_json, "also write the figures to this file");
  add_strict_activations(app, flags->strict_activations);
  add_quantization(app, flags->quantization);
  app.add_flag("--json", flags->print_json, "print JSON");
  return [flags] { return run_eval(*flags); };
}

}  // namespace quaver::apps
