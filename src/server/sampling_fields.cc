#include "server/sampling_fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "server/errors.h"

namespace quaver::server {
namespace {

constexpr int64_t kMaxSamples = 128;
constexpr size_t kMaxStops = 128, kMaxStopBytes = 4096, kMaxStopIds = 1024;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxLogprobEntries = size_t{16} << 20;

template <class T, class V>
void set_if(T& target, const std::optional<V>& value) {
  if (value) target = static_cast<T>(*value);
}

// Defaults come from the operator or the checkpoint; a value of a wrong kind there is not the client's fault
// and was reported at load, so it is left out here.
template <class T>
void set_default(T& target, const json& defaults, const char* name) {
  auto found = defaults.find(name);
  if (found != defaults.end() && found->is_number()) target = found->get<T>();
}

void apply_defaults(llm::SamplingParams& params, const json& defaults) {
  set_default(params.temperature, defaults, "temperature");
  set_default(params.top_p, defaults, "top_p");
  set_default(params.top_k, defaults, "top_k");
  set_default(params.min_p, defaults, "min_p");
  set_default(params.repetition_penalty, defaults, "repetition_penalty");
  set_default(params.frequency_penalty, defaults, "frequency_penalty");
  set_default(params.presence_penalty, defaults, "presence_penalty");
}

void read_numbers(Fields& fields, llm::SamplingParams& params) {
  set_if(params.temperature, fields.number("temperature", {0, 100}));
  set_if(params.top_p, fields.number("top_p", {0, 1, true}));
  set_if(params.top_k, fields.integer("top_k", {-1, kMaxInt32}));
  set_if(params.min_p, fields.number("min_p", {0, 1}));
  set_if(params.repetition_penalty, fields.number("repetition_penalty", {0, 100, true}));
  set_if(params.frequency_penalty, fields.number("frequency_penalty", {-2, 2}));
  set_if(params.presence_penalty, fields.number("presence_penalty", {-2, 2}));
  set_if(params.min_tokens, fields.integer("min_tokens", {0, kMaxInt32}));
  params.seed = fields.integer("seed");
  set_if(params.ignore_eos, fields.boolean("ignore_eos"));
  set_if(params.skip_special_tokens, fields.boolean("skip_special_tokens"));
  set_if(params.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
}

void add_stop(Fields& fields, llm::SamplingParams& params, const json& value, const std::string& path) {
  if (!value.is_string()) return fields.wrong("string_type", path, "must be text", value);
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty()) return fields.wrong("string_too_short", path, "a stop string cannot be empty", value);
  if (text.size() > kMaxStopBytes)
    return fields.wrong("string_too_long", path, cat("must have at most ", kMaxStopBytes, " bytes"), value);
  params.stop.push_back(text);
}

void read_stop(Fields& fields, llm::SamplingParams& params) {
  const json* stop = fields.raw("stop");
  if (!stop) return;
  if (stop->is_string()) return add_stop(fields, params, *stop, "stop");
  if (!stop->is_array()) return fields.wrong("string_type", "stop", "must be text or a list of text", *stop);
  if (stop->size() > kMaxStops)
    return fields.wrong("too_long", "stop", cat("must have at most ", kMaxStops, " entries"), stop->size());
  for (size_t i = 0; i < stop->size(); ++i) add_stop(fields, params, (*stop)[i], cat("stop.", i));
}

void read_logit_bias(Fields& fields, llm::SamplingParams& params, int32_t vocab_size) {
  const json* bias = fields.object("logit_bias");
  if (!bias) return;
  for (const auto& [key, value] : bias->items()) {
    std::string path = cat("logit_bias.", key.substr(0, 40));
    int32_t id = -1;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error == std::errc::invalid_argument || end != key.data() + key.size())
      fields.wrong("int_parsing", path, "the key must be a token id", key);
    else if (error != std::errc() || id < 0 || id >= vocab_size)
      fields.wrong("value_error", path, cat("the token id must be from 0 to ", vocab_size - 1), key);
    else if (auto amount = fields.check_number(value, path, {-100, 100}))
      params.logit_bias.emplace_back(id, static_cast<float>(*amount));
  }
}

// `logprobs` is a switch with `top_logprobs` on chat, a count on completions.
void read_logprobs(Fields& fields, llm::SamplingParams& params, TextRoute route, int max_logprobs) {
  IntRange range{route == TextRoute::kChat ? -1 : -1, max_logprobs};
  if (route == TextRoute::kCompletions) {
    set_if(params.logprobs.emplace(0), fields.integer("logprobs", range));
    if (!fields.raw("logprobs")) params.logprobs.reset();
  } else {
    bool on = fields.boolean("logprobs").value_or(false);
    auto top = fields.integer("top_logprobs", range);
    if (top && *top != 0 && !on)
      fields.wrong("value_error", "top_logprobs", "needs logprobs to be true", *top);
    if (on) params.logprobs = static_cast<int32_t>(top.value_or(0));
  }
  if (auto prompt = fields.integer("prompt_logprobs", range))
    params.prompt_logprobs = static_cast<int32_t>(*prompt);
}

void read_stream(Fields& fields, SamplingRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  if (const json* options = fields.object("stream_options")) {
    if (!request.stream)
      fields.wrong("value_error", "stream_options", "is allowed only when stream is true", *options);
    for (auto [name, target] : {std::pair{"include_usage", &request.include_usage},
                                std::pair{"continuous_usage_stats", &request.continuous_usage}}) {
      auto found = options->find(name);
      if (found == options->end() || found->is_null()) continue;
      if (found->is_boolean())
        *target = found->get<bool>();
      else
        fields.wrong("bool_type", cat("stream_options.", name), "must be true or false", *found);
    }
  }
  if (request.stream && request.params.prompt_logprobs)
    fields.wrong("value_error", "prompt_logprobs", "cannot be streamed", *request.params.prompt_logprobs);
}

// What would change the answer and is not there: naming it is the only honest reply.
void refuse_unsupported(Fields& fields) {
  struct Row {
    const char* name;
    const char* what;
  };
  static constexpr std::array rows = {
      Row{"structured_outputs", "constrained decoding"},
      Row{"guided_json", "constrained decoding"},
      Row{"guided_regex", "constrained decoding"},
      Row{"guided_choice", "constrained decoding"},
      Row{"guided_grammar", "constrained decoding"},
      Row{"bad_words", "banned words"},
      Row{"logprob_token_ids", "log-probabilities of chosen tokens"},
      Row{"thinking_token_budget", "a budget for thinking"},
      Row{"prompt_embeds", "prompts as embeddings"},
      Row{"suffix", "text after the completion"},
  };
  for (const Row& row : rows) {
    const json* value = fields.raw(row.name);
    bool set = value && !(value->is_structured() && value->empty()) && !(value->is_string() && *value == "");
    if (set && fields.good())
      throw refused(cat("'", row.name, "' asks for ", row.what, ", which this server does not do"),
                    cat("body.", row.name));
  }
  if (fields.boolean("use_beam_search").value_or(false))
    throw refused("'use_beam_search' asks for beam search, which this server does not do",
                  "body.use_beam_search");
  if (fields.number("length_penalty").value_or(1) != 1)
    throw refused("'length_penalty' belongs to beam search, which this server does not do",
                  "body.length_penalty");
  if (fields.integer("priority").value_or(0) != 0)
    throw refused("'priority' needs priority scheduling, which this server does not do", "body.priority");
  if (fields.integer("best_of", {1, kMaxSamples}).value_or(1) != 1)
    throw refused("'best_of' above 1 is not supported; ask for n samples instead", "body.best_of");
}

void read_response_format(Fields& fields) {
  const json* format = fields.object("response_format");
  if (!format) return;
  auto type = format->find("type");
  if (type == format->end()) return fields.missing("response_format.type");
  static constexpr std::array<std::string_view, 4> words = {"text", "json_object", "json_schema",
                                                            "structural_tag"};
  if (!type->is_string() || std::find(words.begin(), words.end(), type->get<std::string>()) == words.end())
    return fields.wrong("literal_error", "response_format.type",
                        "must be one of text, json_object, json_schema, structural_tag", *type);
  if (*type != "text" && fields.good())
    throw refused(
        cat("response_format '", type->get<std::string>(),
            "' asks for constrained decoding, which this server does not do; only 'text' is supported"),
        "body.response_format");
}

void read_rest(Fields& fields, SamplingRequest& request) {
  static constexpr std::array<std::string_view, 2> sides = {"left", "right"};
  request.n = fields.integer("n", {1, kMaxSamples}).value_or(1);
  set_if(request.cache_salt, fields.text("cache_salt", {1, 128}));
  set_if(request.return_token_ids, fields.boolean("return_token_ids"));
  set_if(request.tokens_as_ids, fields.boolean("return_tokens_as_token_ids"));
  set_if(request.return_prompt_text, fields.boolean("return_prompt_text"));
  set_if(request.stage_metrics, fields.boolean("return_stage_metrics"));
  request.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens", {-1, kMaxInt32});
  request.truncate_left = fields.word("truncation_side", sides).value_or("left") == "left";
  if (auto id = fields.text("request_id", {1, 128})) {
    bool plain = std::all_of(id->begin(), id->end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!plain)
      fields.wrong("string_pattern_mismatch", "request_id", "must be printable ASCII without spaces", *id);
    request.request_id = *id;
  }
  fields.text("user");
  fields.boolean("spaces_between_special_tokens");
  for (const char* name : {"kv_transfer_params", "ec_transfer_params", "vllm_xargs"}) fields.object(name);
}

}  // namespace

SamplingRequest read_sampling(Fields& fields, const ServedModel& model, TextRoute route, int max_logprobs) {
  SamplingRequest request;
  const int32_t vocab_size = model.text().pipeline.tokenizer().vocab_size();
  apply_defaults(request.params, model.defaults);
  read_numbers(fields, request.params);
  read_stop(fields, request.params);
  set_if(request.params.stop_token_ids, fields.token_ids("stop_token_ids", vocab_size, kMaxStopIds));
  set_if(request.params.allowed_token_ids,
         fields.token_ids("allowed_token_ids", vocab_size, static_cast<size_t>(vocab_size)));
  if (const json* allowed = fields.list("allowed_token_ids"); allowed && allowed->empty())
    fields.wrong("too_short", "allowed_token_ids", "must have at least 1 entry", *allowed);
  read_logit_bias(fields, request.params, vocab_size);
  read_logprobs(fields, request.params, route, max_logprobs);
  read_stream(fields, request);
  read_rest(fields, request);
  int64_t least = route == TextRoute::kChat ? 1 : 0;
  request.max_tokens = fields.integer("max_tokens", {least});
  if (route == TextRoute::kChat)
    if (auto newer = fields.integer("max_completion_tokens", {1})) request.max_tokens = newer;
  read_response_format(fields);
  refuse_unsupported(fields);
  return request;
}

int32_t settle_max_tokens(const SamplingRequest& request, std::vector<int32_t>& prompt,
                          const ServedModel& model, std::optional<int64_t> fallback,
                          const char* prompt_field) {
  const int64_t context = model.pipeline.card().max_model_len;
  if (auto keep = request.truncate_prompt_tokens) {
    size_t most = static_cast<size_t>(*keep == -1 ? std::max<int64_t>(context - 1, 0) : *keep);
    if (prompt.size() > most && request.truncate_left)
      prompt.erase(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(most));
    if (prompt.size() > most) prompt.resize(most);
  }
  const int64_t length = static_cast<int64_t>(prompt.size());
  auto too_long = [&](const std::string& message, const char* field) {
    throw ApiError(400, "Bad Request",
                   cat("1 validation error: {'type': 'value_error', 'loc': ('body', '", field, "'), 'msg': '",
                       message, "'}"),
                   cat("body.", field));
  };
  if (prompt.empty()) too_long("the prompt has no tokens", prompt_field);
  if (length >= context)
    too_long(cat("the prompt has ", length, " tokens; the maximum context length is ", context,
                 " tokens, prompt and answer together"),
             prompt_field);
  int64_t left = context - length;
  if (request.max_tokens && *request.max_tokens > left)
    too_long(cat("must be at most ", left, ": the maximum context length is ", context,
                 " tokens and the prompt has ", length),
             "max_tokens");
  int64_t tokens = request.max_tokens ? *request.max_tokens : std::min(left, fallback.value_or(left));
  if (request.params.min_tokens > tokens)
    too_long(cat("must be at most max_tokens, which is ", tokens), "min_tokens");
  return static_cast<int32_t>(std::min(tokens, kMaxInt32));
}

std::optional<int64_t> sample_seed(const std::optional<int64_t>& seed, size_t index) {
  if (!seed) return seed;
  return static_cast<int64_t>(static_cast<uint64_t>(*seed) + index);  // wraps
}

void check_logprob_volume(const llm::SamplingParams& params, size_t prompt_tokens, size_t samples,
                          int32_t vocab_size) {
  auto each = [&](const std::optional<int32_t>& count) {
    return !count         ? size_t{0}
           : *count == -1 ? static_cast<size_t>(vocab_size)
                          : static_cast<size_t>(*count) + 1;
  };
  size_t entries = samples * (each(params.logprobs) * static_cast<size_t>(params.max_tokens) +
                              each(params.prompt_logprobs) * prompt_tokens);
  if (entries > kMaxLogprobEntries)
    throw refused(cat("the log-probabilities asked for could be ", entries, " entries; at most ",
                      kMaxLogprobEntries, " are allowed: ask for fewer alternatives or a smaller max_tokens"),
                  params.logprobs ? "body.logprobs" : "body.prompt_logprobs");
}

}  // namespace quaver::server
