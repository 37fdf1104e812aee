// The sampling fields that chat and completions share, read into what the engine takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llm/request.h"
#include "server/fields.h"
#include "server/served_model.h"

namespace quaver::server {

struct SamplingRequest {
  llm::SamplingParams params;  // max_tokens is settled by settle_max_tokens, seed by sample_seed
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::string cache_salt;
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, tokens_as_ids = false, return_prompt_text = false, stage_metrics = false;
  std::optional<int64_t> truncate_prompt_tokens;  // -1 = to what fits
  bool truncate_left = true;
  std::string request_id;  // "" = none given
};

enum class TextRoute { kChat, kCompletions };

// Notes what is wrong in `fields`. Fields that Quaver cannot honour are refused, never dropped: throws
// ApiError.
SamplingRequest read_sampling(Fields& fields, const ServedModel& model, TextRoute route, int max_logprobs);

// Cuts the prompt when the request says so, checks it against the context, and returns the tokens to make.
// `prompt_field` is what to blame.
int32_t settle_max_tokens(const SamplingRequest& request, std::vector<int32_t>& prompt,
                          const ServedModel& model, std::optional<int64_t> fallback,
                          const char* prompt_field);

// The seed of sample `index`: consecutive ones, so that each sample can be made again alone.
std::optional<int64_t> sample_seed(const std::optional<int64_t>& seed, size_t index);

// Refuses requests whose log-probabilities would not fit in memory.
void check_logprob_volume(const llm::SamplingParams& params, size_t prompt_tokens, size_t samples,
                          int32_t vocab_size);

}  // namespace quaver::server
