// quaver generate: completes one prompt as it stands, without a chat template; or draws it.
#include <cstdio>
#include <filesystem>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/generate_image.h"
#include "apps/lora_flags.h"
#include "apps/model_argument.h"
#include "apps/model_kind.h"
#include "apps/ranks.h"
#include "apps/text_flags.h"
#include "checkpoint/diffusers_folder.h"

namespace quaver::apps {
namespace {

struct GenerateFlags {
  pipeline::TextPipelineOptions model;  // what both kinds of model have stands here
  llm::SamplingParams sampling{.max_tokens = 128};
  std::string prompt;
  PictureJob picture;
  PictureModelFlags picture_model;
  RankFlags ranks;
  LoraFlags lora;
};

int complete_text(const GenerateFlags& flags) {
  std::unique_ptr<pipeline::TextPipeline> model = pipeline::open_text_pipeline(flags.model);
  print_answer(*model, model->tokenizer().encode(flags.prompt, true), flags.sampling);
  std::printf("\n");
  return 0;
}

// What a repository or a folder is called, without where it lies on this machine.
std::string name_of_model(const std::string& argument) {
  if (is_repository(argument)) return argument;
  std::filesystem::path path = std::filesystem::absolute(argument).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

int draw_picture(const GenerateFlags& flags, const std::string& name) {
  Ranks ranks(flags.ranks, flags.model.device);
  if (ranks.leads()) tell_of_vae_flags(flags.picture_model);
  PictureJob job = flags.picture;
  job.name = name;
  job.prompt = flags.prompt;
  job.seed = flags.sampling.seed;
  job.model.model = flags.model.model;
  job.model.device = ranks.device();
  job.model.ranks = ranks.world();
  job.model.dtype = flags.model.dtype;
  job.model.strict_activations = flags.model.strict_activations;
  job.model.quantization = flags.model.quantization;
  job.model.rounding = flags.model.rounding;
  job.model.cache = flags.picture_model.cache;
  job.model.transformer = flags.picture_model.transformer;
  job.model.vae_tiling = flags.picture_model.vae_tiling;
  job.model.offload = flags.picture_model.offload;
  job.model.memory_limit = flags.model.memory_limit;
  job.model.adapters = adapters_of(flags.lora);
  return ranks.leads() ? generate_pictures(job) : follow(job.model);
}

int run_generate(const CLI::App& app, GenerateFlags flags) {
  const std::string name = name_of_model(flags.model.model);
  flags.model.model = resolve_model(flags.model.model);
  const bool pictures = DiffusersFolder::is(flags.model.model);
  refuse_given(pictures ? kForText : kForPictures, app, flags.model.model);
  return pictures ? draw_picture(flags, name) : complete_text(flags);
}

void add_sampling_flags(CLI::App& app, llm::SamplingParams& sampling) {
  add_flag(app, "max-tokens", sampling.max_tokens, "tokens to add at most");
  add_flag(app, "temperature", sampling.temperature, "0 = always the most likely token");
  add_flag(app, "top-p", sampling.top_p, "share of probability to draw from");
  add_flag(app, "top-k", sampling.top_k, "number of tokens to draw from; 0 = all");
  group_under(app, kForText,
              {"max-tokens", "temperature", "top-p", "top-k", "kv-cache-dtype", "kv-cache-memory",
               "max-model-len", "tie-embeddings"});
}

void add_picture_job_flags(CLI::App& app, GenerateFlags& flags) {
  app.add_option(
         "-o,--output", flags.picture.output,
         "file to write: .png, .jpg or .webp; of several pictures cat-0.png, cat-1.png ... for cat.png; "
         "what exists is replaced")
      ->capture_default_str();
  add_request_flags(app, flags.picture.flags);
  add_flag(app, "image", flags.picture.image, "picture to start from instead of noise");
  add_flag(app, "mask-image", flags.picture.mask_image, "with --image: white is drawn anew, the rest stays");
  app.add_option("--strength", flags.picture.strength,
                 "with --image: share of the steps that it goes through, above 0 to 1; default 0.6");
  add_lora_flags(app, flags.lora);
  add_cache_flag(app, "cache", flags.picture_model.cache);
  add_transformer_flag(app, flags.picture_model);
  add_vae_flags(app, flags.picture_model);
  add_offload_flag(app, flags.picture_model);
  add_rank_flags(app, flags.ranks);
  add_switch(app, "quiet", flags.picture.quiet, "no progress; print the paths alone");
  group_under(app, kForPictures,
              {"output",
               "negative-prompt",
               "size",
               "width",
               "height",
               "num-inference-steps",
               "guidance-scale",
               "true-cfg-scale",
               "num-images-per-prompt",
               "max-sequence-length",
               "image",
               "mask-image",
               "strength",
               "lora",
               "lora-path",
               "lora-scale",
               "cache",
               "transformer",
               "offload",
               "vae-use-tiling",
               "vae-use-slicing",
               "quiet"});
}

}  // namespace

std::function<int()> add_generate(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  add_text_model_flags(app, flags->model);
  add_flag(app, "prompt", flags->prompt, "text to complete, or what the picture shows")->required();
  app.add_option("--seed", flags->sampling.seed, "of the draws, or of the first picture's noise");
  add_sampling_flags(app, flags->sampling);
  add_picture_job_flags(app, *flags);
  return [flags, &app] { return run_generate(app, *flags); };
}

}  // namespace quaver::apps
