// Loaded models in Python: open, submit, abort, close. Nothing here holds Python's lock while it works.
#include <pybind11/stl.h>

#include "apps/lora_flags.h"
#include "apps/model_argument.h"
#include "apps/picture_flags.h"
#include "apps/ranks.h"
#include "binding/bindings.h"
#include "binding/mailbox.h"
#include "checkpoint/diffusers_folder.h"
#include "nn/step_error.h"
#include "pipeline/open_image_pipeline.h"
#include "pipeline/text_pipeline.h"
#include "quantize/online.h"

namespace quaver::python {

namespace py = pybind11;

namespace {

using pipeline::ImagePipelineOptions;
using pipeline::TextPipelineOptions;

// Runs without Python's lock; what torch throws becomes one sentence.
template <class Work>
auto unlocked(Work work) {
  py::gil_scoped_release release;
  try {
    return work();
  } catch (...) {
    throw nn::step_error(std::current_exception());
  }
}

// A pipeline that can be closed while others still hold the object.
template <class P>
class Engine {
 public:
  explicit Engine(std::shared_ptr<P> pipeline) : pipeline_(std::move(pipeline)) {}
  ~Engine() { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::shared_ptr<P> live() const {
    require(pipeline_ != nullptr, ErrorKind::kUnavailable, "this model is closed");
    return pipeline_;
  }
  bool healthy() const { return pipeline_ && pipeline_->healthy(); }
  void abort(const std::string& id) {
    if (const std::shared_ptr<P> pipeline = pipeline_) unlocked([&] { pipeline->abort(id); });
  }
  // Aborts what runs and waits for the engine's thread, which ends after the step that it is in.
  void close() {
    if (std::shared_ptr<P> pipeline = std::move(pipeline_)) {
      py::gil_scoped_release release;
      pipeline.reset();
    }
  }

 private:
  std::shared_ptr<P> pipeline_;
};

using ImageEngine = Engine<pipeline::ImagePipeline>;
using TextEngine = Engine<pipeline::TextPipeline>;

ImagePipelineOptions completed(ImagePipelineOptions options, apps::Ranks* ranks) {
  if (!options.quantization.empty()) options.rounding = quantize::online_rounding;
  if (ranks != nullptr) {
    options.ranks = ranks->world();
    options.device = ranks->device();
  }
  return options;
}

// A pipeline borrows its ranks: whoever holds it last lets go of both, of the ranks behind it.
struct RankedImages {
  std::shared_ptr<apps::Ranks> ranks;
  std::unique_ptr<pipeline::ImagePipeline> pipeline;
};

std::unique_ptr<ImageEngine> open_images(const ImagePipelineOptions& options,
                                         std::shared_ptr<apps::Ranks> ranks) {
  auto opened = std::make_shared<RankedImages>();
  opened->ranks = std::move(ranks);
  unlocked([&] { opened->pipeline = open_image_pipeline(completed(options, opened->ranks.get())); });
  pipeline::ImagePipeline* images = opened->pipeline.get();
  return std::make_unique<ImageEngine>(std::shared_ptr<pipeline::ImagePipeline>(std::move(opened), images));
}

std::shared_ptr<apps::Ranks> join_ranks(int64_t cfg, int64_t tensor, int64_t ulysses,
                                        const std::string& device) {
  return unlocked([&] {
    return std::make_shared<apps::Ranks>(
        apps::RankFlags{.sizes = {.cfg = cfg, .tensor = tensor, .ulysses = ulysses}}, device);
  });
}

void follow_leader(apps::Ranks& ranks, const ImagePipelineOptions& options) {
  unlocked([&] { apps::follow(completed(options, &ranks)); });
}

std::unique_ptr<TextEngine> open_text(TextPipelineOptions options) {
  if (!options.quantization.empty()) options.rounding = quantize::online_rounding;
  std::shared_ptr<pipeline::TextPipeline> opened = unlocked([&] { return open_text_pipeline(options); });
  return std::make_unique<TextEngine>(std::move(opened));
}

uint64_t submit_pictures(const ImageEngine& engine, const pipeline::ImageRequest& request,
                         std::shared_ptr<Mailbox<pipeline::ImageEvent>> box) {
  const std::shared_ptr<pipeline::ImagePipeline> live = engine.live();
  return unlocked([&] {
    return live->submit(request, [box](pipeline::ImageEvent event) { box->put(std::move(event)); });
  });
}

void submit_text(const TextEngine& engine, const llm::Request& request,
                 std::shared_ptr<Mailbox<llm::Event>> box) {
  const std::shared_ptr<pipeline::TextPipeline> live = engine.live();
  unlocked([&] { live->submit(request, [box](llm::Event event) { box->put(std::move(event)); }); });
}

std::vector<int32_t> encode(const TextEngine& engine, const std::string& text) {
  const std::shared_ptr<pipeline::TextPipeline> live = engine.live();
  return unlocked([&] { return live->tokenizer().encode(text, true); });
}

std::string decode(const TextEngine& engine, const std::vector<int32_t>& ids) {
  return engine.live()->tokenizer().decode(ids, false);
}

// As `--lora-path`, `--lora-scale` and `--lora-modules`: those by name run where a request picks them.
void set_adapters(ImagePipelineOptions& options, const std::string& path, std::optional<double> scale,
                  const std::map<std::string, std::string>& modules) {
  apps::LoraFlags flags{.path = path, .scale = scale};
  for (const auto& [name, file] : modules) flags.modules.push_back(cat(name, "=", file));
  options.adapters = apps::adapters_of(flags);
}

void bind_image_options(py::module_& module) {
  using Options = ImagePipelineOptions;
  py::class_<Options>(module, "ImageOptions")
      .def(py::init([] { return Options{.limits = apps::kCommandLineLimits}; }))
      .def_readwrite("model", &Options::model)
      .def_readwrite("device", &Options::device)
      .def_readwrite("dtype", &Options::dtype)
      .def_readwrite("max_num_seqs", &Options::max_num_seqs)
      .def_readwrite("max_queue", &Options::max_queue)
      .def_readwrite("strict_activations", &Options::strict_activations)
      .def_readwrite("quantization", &Options::quantization)
      .def_readwrite("cache", &Options::cache)
      .def_readwrite("vae_tiling", &Options::vae_tiling)
      .def_readwrite("offload", &Options::offload)
      .def_readwrite("memory_limit", &Options::memory_limit)
      .def("set_adapters", &set_adapters, py::arg("path"), py::arg("scale"), py::arg("modules"));
}

void bind_text_options(py::module_& module) {
  using Options = TextPipelineOptions;
  py::class_<Options>(module, "TextOptions")
      .def(py::init<>())
      .def_readwrite("model", &Options::model)
      .def_readwrite("device", &Options::device)
      .def_readwrite("dtype", &Options::dtype)
      .def_readwrite("kv_cache_dtype", &Options::kv_cache_dtype)
      .def_readwrite("kv_cache_memory", &Options::kv_cache_memory)
      .def_readwrite("memory_limit", &Options::memory_limit)
      .def_readwrite("max_model_len", &Options::max_model_len)
      .def_readwrite("max_num_seqs", &Options::max_num_seqs)
      .def_readwrite("max_num_batched_tokens", &Options::max_num_batched_tokens)
      .def_readwrite("block_size", &Options::block_size)
      .def_readwrite("enable_prefix_caching", &Options::enable_prefix_caching)
      .def_readwrite("enable_chunked_prefill", &Options::enable_chunked_prefill)
      .def_readwrite("strict_activations", &Options::strict_activations)
      .def_readwrite("tie_embeddings", &Options::tie_embeddings)
      .def_readwrite("max_queue", &Options::max_queue)
      .def_readwrite("quantization", &Options::quantization);
}

void bind_image_engine(py::module_& module) {
  py::class_<ImageEngine>(module, "ImageEngine")
      .def(py::init(&open_images), py::arg("options"), py::arg("ranks") = nullptr)
      .def("submit", &submit_pictures, py::arg("request"), py::arg("mailbox"))
      .def("abort", &ImageEngine::abort, py::arg("request_id"))
      .def("close", &ImageEngine::close)
      .def_property_readonly("healthy", &ImageEngine::healthy)
      .def_property_readonly("default_steps",
                             [](const ImageEngine& self) { return self.live()->facts().defaults.steps; });
}

void bind_ranks(py::module_& module) {
  py::class_<apps::Ranks, std::shared_ptr<apps::Ranks>>(module, "Ranks")
      .def(py::init(&join_ranks), py::arg("cfg"), py::arg("tensor"), py::arg("ulysses"), py::arg("device"))
      .def_property_readonly("leads", &apps::Ranks::leads)
      .def("follow", &follow_leader, py::arg("options"));
}

void bind_text_engine(py::module_& module) {
  py::class_<TextEngine>(module, "TextEngine")
      .def(py::init(&open_text), py::arg("options"))
      .def("submit", &submit_text, py::arg("request"), py::arg("mailbox"))
      .def("abort", &TextEngine::abort, py::arg("request_id"))
      .def("close", &TextEngine::close)
      .def("encode", &encode, py::arg("text"))
      .def("decode", &decode, py::arg("ids"))
      .def_property_readonly("healthy", &TextEngine::healthy)
      .def_property_readonly("max_model_len",
                             [](const TextEngine& self) { return self.live()->card().max_model_len; })
      .def_property_readonly("generation_defaults", [](const TextEngine& self) {
        return self.live()->card().generation_defaults.dump();
      });
}

}  // namespace

void bind_engines(py::module_& module) {
  bind_image_options(module);
  bind_text_options(module);
  bind_ranks(module);
  bind_image_engine(module);
  bind_text_engine(module);
  module.def(
      "resolve_model",
      [](const std::string& model) { return unlocked([&] { return apps::resolve_model(model); }); },
      py::arg("model"));
  module.def(
      "makes_pictures", [](const std::string& path) { return DiffusersFolder::is(path); }, py::arg("path"));
}

}  // namespace quaver::python
