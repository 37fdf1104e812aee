// POST /tokenize and /detokenize: text or a chat to token ids, and back.
#include "server/chat_prompt.h"
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/sse.h"

namespace quaver::server {
namespace {

std::vector<int32_t> tokenize_prompt(Fields& fields, const ServedModel& model) {
  auto text = fields.text("prompt");
  bool add = fields.boolean("add_special_tokens").value_or(true);
  fields.finish();
  return model.text().pipeline.tokenizer().encode(*text, add);
}

std::vector<int32_t> tokenize_chat(Fields& fields, const Call& call) {
  ChatPrompt prompt = read_chat_prompt(fields, call.request.body, call);
  fields.finish();
  return render_chat(prompt, *call.model, "").tokens;
}

}  // namespace

void tokenize(Call call) {
  const ServedModel& model = *call.model;
  Fields fields(parse_body(call.request));
  model.check_name(fields);
  bool strings = fields.boolean("return_token_strs").value_or(false);
  const bool has_prompt = fields.raw("prompt"), has_messages = fields.raw("messages");
  if (!has_prompt && !has_messages) fields.missing("prompt");
  if (has_prompt && has_messages)
    fields.wrong("value_error", "prompt", "stands beside messages; give one of them", "");
  if (!fields.good()) fields.finish();
  std::vector<int32_t> tokens = has_prompt ? tokenize_prompt(fields, model) : tokenize_chat(fields, call);
  ordered_json out = {{"count", tokens.size()}, {"max_model_len", model.pipeline.card().max_model_len}};
  out["tokens"] = tokens;
  out["token_strs"] = nullptr;
  if (strings) {
    out["token_strs"] = ordered_json::array();
    for (int32_t id : tokens)
      out["token_strs"].push_back(std::string(model.text().pipeline.tokenizer().token_text(id)));
  }
  call.reply->send(json_response(out));
}

void detokenize(Call call) {
  const ServedModel& model = *call.model;
  const Tokenizer& tokenizer = model.text().pipeline.tokenizer();
  Fields fields(parse_body(call.request));
  model.check_name(fields);
  if (!fields.raw("tokens")) fields.missing("tokens");
  auto tokens = fields.token_ids("tokens", tokenizer.vocab_size(), size_t{4} << 20);
  fields.finish();
  call.reply->send(json_response({{"prompt", tokenizer.decode(*tokens, false)}}));
}

}  // namespace quaver::server
