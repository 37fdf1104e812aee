#include "quantize/job_plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "quantize/calibration_tokens.h"
#include "quantize/job_recipe.h"
#include "quantize/model_layers.h"
#include "quantize/recipe.h"
#include "quantize/scheme_search.h"

namespace quaver::quantize {
namespace {

void check_cache(const PlannedModel& model) {
  if (!model.options.fp8_kv_cache) return;
  require(model.format.pack_kv != nullptr, ErrorKind::kInvalidInput, "--kv_cache_dtype: format '",
          model.options.format,
          "' has no words for a quantized cache; auto_round, llm_compressor and modelopt have");
  const models::CausalLm* language = model.model.language_model();
  require(language != nullptr, ErrorKind::kInvalidInput, model.options.model,
          ": makes pictures and has no cache of keys and values; leave --kv_cache_dtype out");
  require(!language->info().latent_attention, ErrorKind::kUnsupported, model.options.model,
          ": its attention caches latent rows, for which there are no scales; leave --kv_cache_dtype out");
}

MixedBits mix(const PlannedModel& model, const std::vector<LayerShape>& shapes,
              std::vector<LayerDecision> decided, ProgressSink& progress) {
  const JobOptions& options = model.options;
  const models::CausalLm* language = model.model.language_model();
  require(language != nullptr, ErrorKind::kUnsupported, options.model,
          ": makes pictures, for which mixed bits are not searched; leave --avg_bits out");
  const SchemeSearch search{.options = options.scheme_options.empty() ? default_options(options.rules.base)
                                                                      : options.scheme_options,
                            .mean_bits = options.mean_bits,
                            .rounding = rounding_method(options.method),
                            .seed = options.tune.seed};
  const CalibrationSet text = load_text(options.model, search_text(options.calibration));
  return search_schemes(search, shapes, std::move(decided), model.format, *language, model.load_block,
                        token_tensor(text, options.device).view({text.num_rows, text.seqlen}), progress);
}

void require_whole_groups(const PlannedModel& model, const std::vector<LayerShape>& shapes,
                          const JobPlan& plan) {
  if (!model.format.whole_groups) return;
  for (const LayerShape& shape : shapes) {
    const Scheme& scheme = plan.decisions.at(shape.name).scheme;
    const int64_t group = scheme.bits == 16 ? 0 : form_of(scheme, model.format).group.cols;
    require(group <= 0 || shape.in <= group || shape.in % group == 0, ErrorKind::kInvalidInput, "--format ",
            model.options.format, " holds whole groups alone, and the ", shape.in,
            " input channels of layer '", shape.name, "' are no whole number of groups of ", group,
            "; take another --group_size or leave such layers at 16 bits (--ignore_layers)");
  }
}

std::vector<LayerShape> shapes_of(const JobOptions& options, const BlockModel& model) {
  std::vector<LayerShape> shapes = model.layers();
  if (options.rules.quant_head) {
    const models::CausalLm* language = model.language_model();
    require(language != nullptr, ErrorKind::kInvalidInput, options.model,
            ": makes pictures and has no head; leave --quant_lm_head out");
    shapes.push_back(head_layer(*language, model.source()));
  }
  return shapes;
}

void choose_schemes(PlannedModel& model, JobPlan& plan, ProgressSink& progress) {
  const JobOptions& options = model.options;
  const std::vector<LayerShape> shapes = shapes_of(options, model.model);
  plan.in_order = std::move(model.decided);
  if (options.mean_bits > 0) {
    MixedBits mixed = mix(model, shapes, std::move(plan.in_order), progress);
    plan.in_order = std::move(mixed.decisions);
    plan.base = most_used_scheme(shapes, plan.in_order, plan.base);
    plan.mix = mixed.summary;
  }
  for (const LayerDecision& decision : plan.in_order) plan.decisions[decision.name] = decision;
  require_whole_groups(model, shapes, plan);
}

bool needs_samples(const JobOptions& options, const JobPlan& plan) {
  const auto is_any = [&](auto&& holds) { return std::ranges::any_of(plan.in_order, holds); };
  if (options.fp8_kv_cache) return true;
  if (options.method == Method::kRtn)
    return is_any([](const LayerDecision& d) { return has_static_input_scale(d.scheme); });
  return is_any([](const LayerDecision& d) { return d.scheme.bits != 16; });
}

Recipe make_recipe(const PlannedModel& model, const JobPlan& plan) {
  const JobOptions& options = model.options;
  Recipe recipe = recipe_of(plan.base, plan.decisions, model.format);
  recipe.fp8_kv_cache = options.fp8_kv_cache;
  recipe.block_names = model.model.block_lists();
  const models::CausalLm* language = model.model.language_model();
  std::vector<std::string> layers;
  for (const auto& [name, decision] : plan.decisions) layers.push_back(name);
  recipe.plain_modules = plain_modules(model.model.source(), layers, language ? language->info().head : "");
  bool tuned = options.method == Method::kAutoRound;
  recipe.tuning = {{"iters", tuned ? options.tune.iters : 0}};
  if (plan.calibrated) {
    recipe.tuning["batch_size"] = options.tune.batch_size;
    const json settings = model.model.calibration_settings();
    for (const auto& [key, value] : settings.items())
      if (key != "dataset" && !value.is_null()) recipe.tuning[key] = value;
  }
  return recipe;
}

}  // namespace

const char* method_name(Method method) {
  constexpr std::array kNames = {"rtn", "opt-rtn", "autoround"};
  return kNames[static_cast<size_t>(method)];
}

RoundingMethod rounding_method(Method method) {
  return method == Method::kRtn ? RoundingMethod::kPlain : RoundingMethod::kSearched;
}

std::vector<std::vector<LayerDecision>> decide_models(
    const JobOptions& options, const std::vector<std::unique_ptr<BlockModel>>& models) {
  std::vector<LayerShape> all;
  std::vector<size_t> ends;
  for (const auto& model : models) {
    for (LayerShape& shape : shapes_of(options, *model)) {
      shape.name = model->scope() + shape.name;
      if (!shape.fused.empty()) shape.fused = model->scope() + shape.fused;
      all.push_back(std::move(shape));
    }
    ends.push_back(all.size());
  }
  std::vector<LayerDecision> decisions = decide_layers(options.rules, all);
  std::vector<std::vector<LayerDecision>> out(models.size());
  for (size_t i = 0, next = 0; i < models.size(); ++i)
    for (; next < ends[i]; ++next) {
      decisions[next].name.erase(0, models[i]->scope().size());
      out[i].push_back(std::move(decisions[next]));
    }
  return out;
}

JobPlan plan_job(PlannedModel model, ProgressSink& progress) {
  check_cache(model);
  JobPlan plan{.base = model.options.rules.base};
  choose_schemes(model, plan, progress);
  plan.calibrated = needs_samples(model.options, plan);
  plan.recipe = make_recipe(model, plan);
  model.format.config_json(plan.recipe);  // refuses what this format has no words for
  return plan;
}

json job_fingerprint(const JobOptions& options, const BlockModel& model, const JobPlan& plan) {
  json overrides = json::object();
  for (const auto& [name, value] : plan.recipe.layer_overrides) overrides[name] = value;
  for (const auto& [name, form] : plan.recipe.form_overrides) overrides[name] = scheme_to_json(form);
  return {{"model", std::filesystem::absolute(options.model).string()},
          {"format", options.format},
          {"method", method_name(options.method)},
          {"scheme", to_string(plan.base)},
          {"layer_config", overrides},
          {"quant_lm_head", !layers_outside_blocks(plan.recipe).empty()},
          {"fp8_kv_cache", options.fp8_kv_cache},
          {"iters", options.tune.iters},
          {"lr", options.tune.lr},
          {"minmax_lr", options.tune.minmax_lr},
          {"batch_size", options.tune.batch_size},
          {"gradient_accumulate_steps", options.tune.gradient_accumulate_steps},
          {"enable_minmax_tuning", options.tune.tune_minmax},
          {"best", options.tune.use_best},
          {"seed", options.tune.seed},
          {"calibration", model.calibration_settings()}};
}

}  // namespace quaver::quantize
