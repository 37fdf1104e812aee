#include "diffusion/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace quaver::diffusion {

namespace {

constexpr const char* kScheduler = "FlowMatchEulerDiscreteScheduler";

void refuse_if_set(const json& config, const char* key, std::string_view what) {
  if (json_value<bool>(config, key, false, what))
    throw Error(ErrorKind::kUnsupported, cat(what, ": key '", key, "' is true, which is not supported"), key);
}

double positive(const json& config, const char* key, double fallback, std::string_view what) {
  const double value = json_value<double>(config, key, fallback, what);
  if (!std::isfinite(value) || value <= 0)
    throw Error(ErrorKind::kBadFile, cat(what, ": key '", key, "' is ", value, ", expected a number above 0"),
                key);
  return value;
}

FlowMatchSettings::TimeShift time_shift(const json& config, std::string_view what) {
  const std::string name = json_value<std::string>(config, "time_shift_type", "exponential", what);
  if (name == "exponential") return FlowMatchSettings::TimeShift::kExponential;
  if (name == "linear") return FlowMatchSettings::TimeShift::kLinear;
  throw Error(ErrorKind::kBadFile,
              cat(what, ": key 'time_shift_type' is '", name, "', expected exponential or linear"),
              "time_shift_type");
}

double shift_of_tokens(const FlowMatchSettings& settings, int64_t tokens) {
  const double slope = (settings.max_shift - settings.base_shift) /
                       static_cast<double>(settings.max_tokens - settings.base_tokens);
  return settings.base_shift + slope * static_cast<double>(tokens - settings.base_tokens);
}

double shifted(const FlowMatchSettings& settings, double sigma, int64_t tokens) {
  if (!settings.dynamic_shifting) return settings.shift * sigma / (1 + (settings.shift - 1) * sigma);
  const double mu = shift_of_tokens(settings, tokens);
  const double weight = settings.time_shift == FlowMatchSettings::TimeShift::kExponential ? std::exp(mu) : mu;
  return weight / (weight + (1 / sigma - 1));
}

void stretch_to(double terminal, std::vector<double>& sigmas) {
  const double scale = (1 - sigmas.back()) / (1 - terminal);
  for (double& sigma : sigmas) sigma = 1 - (1 - sigma) / scale;
}

}  // namespace

Schedule Schedule::tail(double strength) const {
  const double kept = std::min(static_cast<double>(steps()) * strength, static_cast<double>(steps()));
  const auto first = static_cast<int64_t>(std::max(static_cast<double>(steps()) - kept, 0.0));
  return {{sigmas.begin() + std::min(first, steps() - 1), sigmas.end()}};
}

FlowMatchSettings read_flow_match(const json& config, std::string_view what) {
  require(config.is_object(), ErrorKind::kBadFile, what, ": is not a JSON object");
  const std::string name = json_value<std::string>(config, "_class_name", kScheduler, what);
  if (name != kScheduler)
    throw Error(ErrorKind::kUnsupported,
                cat(what, ": key '_class_name' is '", name, "', expected ", kScheduler), "_class_name");
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "invert_sigmas",
                          "stochastic_sampling"})
    refuse_if_set(config, key, what);
  FlowMatchSettings out;
  out.dynamic_shifting = json_value<bool>(config, "use_dynamic_shifting", false, what);
  out.shift = positive(config, "shift", 1, what);
  out.base_shift = positive(config, "base_shift", out.base_shift, what);
  out.max_shift = positive(config, "max_shift", out.max_shift, what);
  out.base_tokens = json_value<int64_t>(config, "base_image_seq_len", out.base_tokens, what);
  out.max_tokens = json_value<int64_t>(config, "max_image_seq_len", out.max_tokens, what);
  if (out.base_tokens < 0 || out.max_tokens <= out.base_tokens)
    throw Error(ErrorKind::kBadFile,
                cat(what, ": key 'max_image_seq_len' is ", out.max_tokens,
                    ", expected more than base_image_seq_len, ", out.base_tokens),
                "max_image_seq_len");
  out.time_shift = time_shift(config, what);
  out.terminal = json_value<double>(config, "shift_terminal", 0, what);
  if (!(out.terminal >= 0 && out.terminal < 1))
    throw Error(
        ErrorKind::kBadFile,
        cat(what, ": key 'shift_terminal' is ", out.terminal, ", expected a number from 0 to below 1"),
        "shift_terminal");
  return out;
}

Schedule flow_match_schedule(const FlowMatchSettings& settings, int64_t steps, int64_t tokens) {
  require(steps >= 1, ErrorKind::kInternal, "a schedule needs a step");
  std::vector<double> sigmas;
  for (int64_t i = 0; i < steps; ++i) {
    const double even = 1 - static_cast<double>(i) / static_cast<double>(steps);
    sigmas.push_back(shifted(settings, even, tokens));
  }
  // A single step starts from pure noise, which has no stretch to the terminal.
  if (settings.terminal > 0 && steps > 1) stretch_to(settings.terminal, sigmas);
  Schedule out{{sigmas.begin(), sigmas.end()}};
  out.sigmas.push_back(0);
  return out;
}

}  // namespace quaver::diffusion
