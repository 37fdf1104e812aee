// Reads generation_config.json, tokenizer_config.json and config.json.
#include "pipeline/model_facts.h"

#include <algorithm>

#include "base/error.h"

namespace quaver::pipeline {
namespace {

// A number, a list of numbers, null or absent.
void add_ids(const json& object, const char* key, const std::string& what, std::vector<int32_t>& ids) {
  if (!object.is_object() || !object.contains(key) || object.at(key).is_null()) return;
  const json& value = object.at(key);
  for (const json& item : value.is_array() ? value : json::array({value})) {
    bool good = item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() <= INT32_MAX;
    if (!good)
      throw Error(
          ErrorKind::kBadFile,
          cat(what, ": ", key, " must be a token id or a list of them, got ", item.dump().substr(0, 80)),
          key);
    ids.push_back(item.get<int32_t>());
  }
}

// Multimodal configs keep the language model's part one level down.
const json& text_config(const json& config) {
  auto it = config.find("text_config");
  return it != config.end() && it->is_object() ? *it : config;
}

// A string, or an object whose "content" is one.
std::string token_content(const json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const json& value = object.at(key);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value.at("content").is_string())
    return value.at("content").get<std::string>();
  return "";
}

}  // namespace

std::vector<int32_t> end_tokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer,
                                int64_t vocab_size) {
  std::string where = checkpoint.path().string();
  std::vector<int32_t> ids;
  add_ids(checkpoint.sidecar("generation_config.json"), "eos_token_id", where + "/generation_config.json",
          ids);
  std::string text = token_content(checkpoint.sidecar("tokenizer_config.json"), "eos_token");
  if (auto id = text.empty() ? std::nullopt : tokenizer.token_id(text)) ids.push_back(*id);
  if (ids.empty()) add_ids(text_config(checkpoint.config()), "eos_token_id", where + "/config.json", ids);
  if (ids.empty()) add_ids(checkpoint.config(), "eos_token_id", where + "/config.json", ids);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (int32_t id : ids)
    require(id < vocab_size, ErrorKind::kBadFile, where, ": eos_token_id ", id,
            " is outside the vocabulary of ", vocab_size);
  return ids;
}

std::string special_token(const Checkpoint& checkpoint, const Tokenizer& tokenizer, const std::string& name) {
  std::string text = token_content(checkpoint.sidecar("tokenizer_config.json"), name);
  if (!text.empty() || !checkpoint.sidecar("tokenizer_config.json").is_null()) return text;
  std::vector<int32_t> ids;
  std::string where = checkpoint.path().string();
  add_ids(text_config(checkpoint.config()), (name + "_id").c_str(), where + "/config.json", ids);
  bool known = !ids.empty() && ids[0] < tokenizer.vocab_size();
  return known ? std::string(tokenizer.token_text(ids[0])) : "";
}

bool can_reason(const ChatTemplate& chat_template, const std::string& bos, const std::string& eos) {
  ChatTemplateInput input;
  input.messages = ordered_json::array({{{"role", "user"}, {"content", "hello"}}});
  input.bos_token = bos;
  input.eos_token = eos;
  for (bool thinking : {true, false}) {
    input.extra["enable_thinking"] = thinking;
    try {
      if (chat_template.render(input).find("<think>") != std::string::npos) return true;
    } catch (const Error&) {
      return false;  // a template that wants other messages; requests will say so
    }
  }
  return false;
}

int64_t num_parameters(models::CausalLm& model) {
  const models::CausalLmInfo& info = model.info();
  int64_t total = info.vocab_size * info.hidden_size * (info.tied_embeddings ? 1 : 2);
  for (int64_t i = 0; i < info.num_layers; ++i)
    for (const auto& linear : model.block(i).linears())
      total += linear.linear->out_features() * linear.linear->in_features();
  return total;
}

}  // namespace quaver::pipeline
