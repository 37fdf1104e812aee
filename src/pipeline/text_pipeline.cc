// Opens checkpoint, tokenizer and template, sizes the KV cache, starts the engine.
#include "pipeline/text_pipeline.h"

#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "base/error.h"
#include "llm/engine.h"
#include "models/llm/causal_lm.h"
#include "models/tokenizer_files.h"
#include "nn/device.h"
#include "pipeline/engine_limits.h"
#include "pipeline/memory_budget.h"
#include "pipeline/memory_plan.h"
#include "pipeline/model_facts.h"
#include "pipeline/resident_weights.h"

namespace quaver::pipeline {
namespace {

class EnginePipeline : public TextPipeline {
 public:
  EnginePipeline(ModelCard card, std::shared_ptr<const Tokenizer> tokenizer,
                 std::unique_ptr<ChatTemplate> chat_template, llm::EngineModel model,
                 const llm::EngineOptions& options)
      : card_(std::move(card)),
        tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        engine_(std::move(model), options) {}

  const ModelCard& card() const override { return card_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ChatTemplate* chat_template() const override { return chat_template_.get(); }
  void submit(llm::Request request, llm::EventSink sink) override {
    engine_.submit(std::move(request), std::move(sink));
  }
  void abort(const std::string& request_id) override { engine_.abort(request_id); }
  Stats stats() override { return engine_.stats(); }
  bool healthy() const override { return engine_.healthy(); }
  void drain(double deadline_s) override { engine_.drain(deadline_s); }

 private:
  ModelCard card_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  llm::Engine engine_;
};

// Weights in their kernels' layout, libraries started: the first user must not pay for it.
void warm_up(const models::CausalLm& model, at::Device device) {
  c10::InferenceMode no_gradients;
  model.prepare();
  at::Tensor zero = at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(device));
  nn::DenseAttention attention({1});
  model.logits(model.forward(zero, {.positions = zero, .attention = &attention}));
}

ModelCard make_card(const TextPipelineOptions& options, const Checkpoint& checkpoint,
                    const nn::WeightSource& source, const Tokenizer& tokenizer,
                    const ChatTemplate* chat_template) {
  ModelCard card;
  card.path = options.model;
  for (const TensorInfo& tensor : checkpoint.tensors())
    card.weight_bytes += static_cast<int64_t>(checkpoint.stored_bytes(tensor));
  if (chat_template) card.capabilities.push_back("chat");
  card.capabilities.push_back("completions");
  card.quantization = {{"language_model", source.format()                ? json(source.format()->name)
                                          : options.quantization.empty() ? json(nullptr)
                                                                         : json(options.quantization)}};
  card.generation_defaults = checkpoint.sidecar("generation_config.json");
  if (card.generation_defaults.is_null()) card.generation_defaults = json::object();
  card.bos_token = special_token(checkpoint, tokenizer, "bos_token");
  card.eos_token = special_token(checkpoint, tokenizer, "eos_token");
  card.reasoning = chat_template && can_reason(*chat_template, card.bos_token, card.eos_token);
  return card;
}

// Keys and values are sized by what is left, so that the weights alone are checked. As they are stored is the
// least that they take, and 4 bits where they are rounded.
void check_text_memory(const TextPipelineOptions& options, const Checkpoint& checkpoint,
                       nn::LoadOptions load) {
  const int64_t free = free_memory(load.device);
  const MemoryLimit limit = parse_memory_limit(options.memory_limit, free, free);
  const bool rounds = std::exchange(load.round_plain, nullptr) != nullptr;
  const ResidentWeights weights = resident_weights(checkpoint, load, {});
  const MemoryPlan stored{.resident = {{"weights", weights.total()}}};
  const MemoryPlan rounded{.resident = {{"weights", weights.total() - weights.roundable + weights.as_int4}}};
  std::vector<MemoryRemedy> remedies;
  if (!rounds && !detect_format(checkpoint)) remedies.push_back({"--quantization int4", rounded});
  check_memory(rounds ? rounded : stored, options.model, load.device.str(), limit, remedies);
}

}  // namespace

std::unique_ptr<TextPipeline> open_text_pipeline(const TextPipelineOptions& options) {
  at::Device device = nn::parse_device(options.device);
  check_dtypes(options);
  check_memory_limit(options.memory_limit);
  std::unique_ptr<Checkpoint> checkpoint = models::open_model(options.model);
  nn::LoadOptions load{.compute_dtype = compute_dtype(options, checkpoint->config(), device),
                       .device = device,
                       .kernel_layout_only = true,
                       .strict_activations = options.strict_activations,
                       .force_tied_head = options.tie_embeddings};
  load.exact_activations = options.dtype == "float32";
  if (!options.quantization.empty()) load.round_plain = options.rounding(*checkpoint, options.quantization);
  check_text_memory(options, *checkpoint, load);
  nn::WeightSource source(*checkpoint, load);
  std::shared_ptr<models::CausalLm> model = models::load_causal_lm(source);
  warm_up(*model, device);
  std::shared_ptr<const Tokenizer> tokenizer = models::open_tokenizer(options.model);
  std::unique_ptr<ChatTemplate> chat_template = models::open_chat_template(options.model);
  ModelCard card = make_card(options, *checkpoint, source, *tokenizer, chat_template.get());
  llm::EngineOptions limits = engine_limits(options, model->info(), device, free_memory(device));
  card.max_model_len = limits.scheduler.max_model_len;
  card.num_parameters = num_parameters(*model);
  llm::EngineModel engine_model{.model = model,
                                .tokenizer = tokenizer,
                                .end_tokens = end_tokens(*checkpoint, *tokenizer, model->info().vocab_size),
                                .device = device,
                                .aten_threads = device.is_cpu() && load.compute_dtype == at::kFloat ? 1 : 0};
  return std::make_unique<EnginePipeline>(std::move(card), std::move(tokenizer), std::move(chat_template),
                                          std::move(engine_model), limits);
}

}  // namespace quaver::pipeline
