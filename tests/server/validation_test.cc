// Every field of the text routes, wrong in every way: a 400 that names the field, and the server lives.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quaver::server::testing {
namespace {

struct Case {
  json body;
  const char* param;  // of the error, without "body."
  const char* type;   // pydantic's word, or "" for a refusal
};

const json kTool = {{"type", "function"}, {"function", {{"name", "f"}}}};
const json kUser = {{"role", "user"}, {"content", "hi"}};

json with_role(const char* role) { return {{"role", role}, {"content", "x"}}; }

// F087 and http-api 3.1; both routes.
std::vector<Case> shared_cases() {
  std::vector<Case> cases = {
      {{{"logit_bias", {{"512", 1}}}}, "logit_bias.512", "value_error"},
      {{{"logit_bias", {{"-1", 1}}}}, "logit_bias.-1", "value_error"},
      {{{"logit_bias", {{"AI", -100}}}}, "logit_bias.AI", "int_parsing"},
      {{{"logit_bias", {{"1", 101}}}}, "logit_bias.1", "less_than_equal"},
      {{{"logit_bias", {{"1", "x"}}}}, "logit_bias.1", "float_parsing"},
      {{{"logit_bias", json::array()}}, "logit_bias", "dict_type"},
      {{{"logit_bias", {{"99999999999", 1}}}}, "logit_bias.99999999999", "value_error"},
      {{{"stop_token_ids", {151645}}, {"min_tokens", 1}}, "stop_token_ids.0", "less_than_equal"},
      {{{"stop_token_ids", json(std::vector<int>(2000, 1))}}, "stop_token_ids", "too_long"},
      {{{"stop_token_ids", 7}}, "stop_token_ids", "list_type"},
      {{{"allowed_token_ids", {512}}}, "allowed_token_ids.0", "less_than_equal"},
      {{{"allowed_token_ids", json(std::vector<int>(2000, 1))}}, "allowed_token_ids", "too_long"},
      {{{"allowed_token_ids", json::array()}}, "allowed_token_ids", "too_short"},
      {{{"max_tokens", -1}}, "max_tokens", "greater_than_equal"},
      {{{"max_tokens", int64_t{1} << 40}}, "max_tokens", "value_error"},
      {{{"max_tokens", 1.5}}, "max_tokens", "int_from_float"},
      {{{"max_tokens", "5"}}, "max_tokens", "int_type"},
      {{{"max_tokens", "five"}}, "max_tokens", "int_parsing"},
      {{{"max_tokens", true}}, "max_tokens", "int_type"},
      {{{"max_tokens", 5000}}, "max_tokens", "value_error"},
      {{{"n", 0}}, "n", "greater_than_equal"},
      {{{"n", 1000000}}, "n", "less_than_equal"},
      {{{"temperature", -1}}, "temperature", "greater_than_equal"},
      {{{"temperature", "NaN"}}, "temperature", "float_type"},
      {{{"temperature", "warm"}}, "temperature", "float_parsing"},
      {{{"temperature", 1e300}}, "temperature", "less_than_equal"},
      {{{"top_p", 0}}, "top_p", "greater_than"},
      {{{"top_p", 1.01}}, "top_p", "less_than_equal"},
      {{{"top_k", -2}}, "top_k", "greater_than_equal"},
      {{{"top_k", 1.5}}, "top_k", "int_from_float"},
      {{{"min_p", -0.1}}, "min_p", "greater_than_equal"},
      {{{"min_p", 1.1}}, "min_p", "less_than_equal"},
      {{{"repetition_penalty", 0}}, "repetition_penalty", "greater_than"},
      {{{"frequency_penalty", 2.1}}, "frequency_penalty", "less_than_equal"},
      {{{"presence_penalty", -2.1}}, "presence_penalty", "greater_than_equal"},
      {{{"stop", ""}}, "stop", "string_too_short"},
      {{{"stop", {""}}}, "stop.0", "string_too_short"},
      {{{"stop", 5}}, "stop", "string_type"},
      {{{"stop", {1}}}, "stop.0", "string_type"},
      {{{"stop", json(std::vector<std::string>(200, "x"))}}, "stop", "too_long"},
      {{{"seed", 18446744073709551615ull}}, "seed", "less_than_equal"},
      {{{"seed", 1.8446744073709552e19}}, "seed", "less_than_equal"},
      {{{"seed", -1e30}}, "seed", "greater_than_equal"},
      {{{"seed", "1"}}, "seed", "int_type"},
      {{{"min_tokens", -1}}, "min_tokens", "greater_than_equal"},
      {{{"min_tokens", 11}, {"max_tokens", 10}}, "min_tokens", "value_error"},
      {{{"ignore_eos", "yes"}}, "ignore_eos", "bool_parsing"},
      {{{"ignore_eos", 1}}, "ignore_eos", "bool_type"},
      {{{"skip_special_tokens", 0}}, "skip_special_tokens", "bool_type"},
      {{{"include_stop_str_in_output", "x"}}, "include_stop_str_in_output", "bool_parsing"},
      {{{"stream", "true"}}, "stream", "bool_parsing"},
      {{{"stream_options", json::object()}}, "stream_options", "value_error"},
      {{{"stream", true}, {"stream_options", 1}}, "stream_options", "dict_type"},
      {{{"stream", true}, {"stream_options", {{"include_usage", 1}}}},
       "stream_options.include_usage",
       "bool_type"},
      {{{"stream", true}, {"prompt_logprobs", 1}}, "prompt_logprobs", "value_error"},
      {{{"prompt_logprobs", -2}}, "prompt_logprobs", "greater_than_equal"},
      {{{"prompt_logprobs", 21}}, "prompt_logprobs", "less_than_equal"},
      {{{"cache_salt", ""}}, "cache_salt", "string_too_short"},
      {{{"cache_salt", std::string(129, 'x')}}, "cache_salt", "string_too_long"},
      {{{"request_id", "a b"}}, "request_id", "string_pattern_mismatch"},
      {{{"request_id", "a\nb"}}, "request_id", "string_pattern_mismatch"},
      {{{"user", 5}}, "user", "string_type"},
      {{{"model", 5}}, "model", "string_type"},
      {{{"truncate_prompt_tokens", -2}}, "truncate_prompt_tokens", "greater_than_equal"},
      {{{"truncation_side", "top"}}, "truncation_side", "literal_error"},
      {{{"response_format", "text"}}, "response_format", "dict_type"},
      {{{"response_format", json::object()}}, "response_format.type", "missing"},
      {{{"response_format", {{"type", "xml"}}}}, "response_format.type", "literal_error"},
      {{{"response_format", {{"type", "json_object"}}}}, "response_format", ""},
      {{{"response_format", {{"type", "json_schema"}}}}, "response_format", ""},
      {{{"structured_outputs", {{"json", json::object()}}}}, "structured_outputs", ""},
      {{{"guided_regex", "a+"}}, "guided_regex", ""},
      {{{"bad_words", {"x"}}}, "bad_words", ""},
      {{{"use_beam_search", true}}, "use_beam_search", ""},
      {{{"length_penalty", 2}}, "length_penalty", ""},
      {{{"priority", 5}}, "priority", ""},
      {{{"vllm_xargs", 5}}, "vllm_xargs", "dict_type"},
      {{{"extra_body", 5}}, "extra_body", "dict_type"},
      {{{"extra_body", {{"top_k", -9}}}}, "top_k", "greater_than_equal"},
  };
  return cases;
}

std::vector<Case> chat_cases() {
  return {
      {{{"messages", nullptr}}, "messages", "missing"},
      {{{"messages", json::array()}}, "messages", "too_short"},
      {{{"messages", "hi"}}, "messages", "list_type"},
      {{{"messages", {"hi"}}}, "messages.0", "dict_type"},
      {{{"messages", {{{"content", "hi"}}}}}, "messages.0.role", "missing"},
      {{{"messages", {{{"role", 1}, {"content", "hi"}}}}}, "messages.0.role", "string_type"},
      {{{"messages", {with_role("robot")}}}, "messages.0.role", "literal_error"},
      {{{"messages", {{{"role", "user"}}}}}, "messages.0.content", "missing"},
      {{{"messages", {{{"role", "user"}, {"content", 5}}}}}, "messages.0.content", "string_type"},
      {{{"messages", {kUser, {{"role", "user"}, {"content", {{{"text", "x"}}}}}}}},
       "messages.1.content.0.type",
       "missing"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "text"}}}}}}}},
       "messages.0.content.0.text",
       "missing"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "smell"}}}}}}}},
       "messages.0.content.0.type",
       "literal_error"},
      {{{"messages",
         {{{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", {{"url", "data:"}}}}}}}}}},
       "messages.0.content.0",
       ""},
      {{{"messages", {{{"role", "assistant"}, {"tool_calls", 1}}}}}, "messages.0.tool_calls", "list_type"},
      {{{"messages", {{{"role", "assistant"}, {"tool_calls", {json::object()}}}}}},
       "messages.0.tool_calls.0.function",
       "missing"},
      {{{"messages",
         {{{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "{"}}}}}}}}}},
       "messages.0.tool_calls.0.function.arguments",
       "json_invalid"},
      {{{"max_tokens", 0}}, "max_tokens", "greater_than_equal"},
      {{{"max_completion_tokens", 0}}, "max_completion_tokens", "greater_than_equal"},
      {{{"logprobs", 5}}, "logprobs", "bool_type"},
      {{{"top_logprobs", 5}}, "top_logprobs", "value_error"},
      {{{"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs", "less_than_equal"},
      {{{"logprobs", true}, {"top_logprobs", -2}}, "top_logprobs", "greater_than_equal"},
      {{{"logprob_token_ids", {1}}}, "logprob_token_ids", ""},
      {{{"thinking_token_budget", 5}}, "thinking_token_budget", ""},
      {{{"tools", json::array()}}, "tools", "too_short"},
      {{{"tools", 1}}, "tools", "list_type"},
      {{{"tools", {{{"type", "function"}}}}}, "tools.0.function", "missing"},
      {{{"tools", {{{"type", "function"}, {"function", json::object()}}}}},
       "tools.0.function.name",
       "missing"},
      {{{"tools", {{{"type", "gadget"}, {"function", {{"name", "f"}}}}}}}, "tools.0.type", "literal_error"},
      {{{"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", 1}}}}}}},
       "tools.0.function.parameters",
       "value_error"},
      {{{"tool_choice", "auto"}}, "tool_choice", "value_error"},
      {{{"tools", {kTool}}, {"tool_choice", "maybe"}}, "tool_choice", "literal_error"},
      {{{"tools", {kTool}}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "g"}}}}}},
       "tool_choice.function.name",
       "value_error"},
      {{{"parallel_tool_calls", 1}}, "parallel_tool_calls", "bool_type"},
      {{{"reasoning_effort", "huge"}}, "reasoning_effort", "literal_error"},
      {{{"include_reasoning", 1}}, "include_reasoning", "bool_type"},
      {{{"add_generation_prompt", true}, {"continue_final_message", true}},
       "continue_final_message",
       "value_error"},
      {{{"continue_final_message", true}}, "continue_final_message", "value_error"},
      {{{"documents", {1}}}, "documents.0", "dict_type"},
      {{{"chat_template", "{{ x }}"}}, "chat_template", ""},
      {{{"chat_template_kwargs", 1}}, "chat_template_kwargs", "dict_type"},
      {{{"modalities", {"audio"}}}, "modalities.0", ""},
      {{{"modalities", json::array()}}, "modalities", "too_short"},
      {{{"echo", 1}}, "echo", "bool_type"},
      {{{"sampling_params_list", {json::object()}}}, "sampling_params_list", ""},
  };
}

std::vector<Case> completion_cases() {
  return {
      {{{"prompt", nullptr}}, "prompt", "missing"},
      {{{"prompt", ""}}, "prompt", "string_too_short"},
      {{{"prompt", " \n"}}, "prompt", "string_too_short"},
      {{{"prompt", json::array()}}, "prompt", "too_short"},
      {{{"prompt", {512}}}, "prompt.0", "less_than_equal"},
      {{{"prompt", {1, -1}}}, "prompt.1", "greater_than_equal"},
      {{{"prompt", {1, "x"}}}, "prompt.1", "int_parsing"},
      {{{"prompt", {{1, 2}, {600}}}}, "prompt.1.0", "less_than_equal"},
      {{{"prompt", {json::array()}}}, "prompt.0", "too_short"},
      {{{"prompt", {"x", ""}}}, "prompt.1", "string_too_short"},
      {{{"prompt", 5}}, "prompt", "string_type"},
      {{{"prompt", {true}}}, "prompt.0", "string_type"},
      {{{"prompt", std::string(5000, 'x')}}, "prompt", "value_error"},
      {{{"max_tokens", 0}}, "max_tokens", "greater_than_equal"},
      {{{"logprobs", true}}, "logprobs", "int_type"},
      {{{"logprobs", 21}}, "logprobs", "less_than_equal"},
      {{{"suffix", "x"}}, "suffix", ""},
      {{{"prompt_embeds", "x"}}, "prompt_embeds", ""},
      {{{"best_of", 2}}, "best_of", ""},
      {{{"prompt", json(std::vector<std::string>(100, "x"))}, {"n", 100}}, "n", "less_than_equal"},
      {{{"logprobs", -1}, {"n", 128}, {"max_tokens", 4000}}, "logprobs", ""},
  };
}

void expect_refused(const Answer& answer, const Case& c) {
  SCOPED_TRACE(c.body.dump().substr(0, 200));
  ASSERT_EQ(answer.status, 400) << answer.body;
  json error = answer.parsed().at("error");
  EXPECT_EQ(error.at("param"), cat("body.", c.param)) << answer.body;
  EXPECT_EQ(error.at("code"), 400);
  const std::string message = error.at("message");
  if (*c.type == '\0') {
    EXPECT_EQ(error.at("type"), "BadRequestError") << answer.body;
  } else {
    EXPECT_EQ(error.at("type"), "Bad Request") << answer.body;
    EXPECT_TRUE(message.starts_with("1 validation error: ")) << message;
    EXPECT_NE(message.find(cat("'type': '", c.type, "'")), std::string::npos) << message;
  }
}

// F087
TEST(Validation, ChatRefusesEveryWrongFieldByName) {
  TestServer t;
  for (const auto& cases : {shared_cases(), chat_cases()})
    for (const Case& c : cases) expect_refused(t.chat(c.body), c);
  EXPECT_TRUE(t.pipeline.seen().empty());
  EXPECT_EQ(t.chat().status, 200);
}

TEST(Validation, CompletionsRefuseEveryWrongFieldByName) {
  TestServer t;
  for (const auto& cases : {shared_cases(), completion_cases()})
    for (const Case& c : cases) expect_refused(t.complete(c.body), c);
  EXPECT_TRUE(t.pipeline.seen().empty());
  EXPECT_EQ(t.complete().status, 200);
}

TEST(Validation, WritesTheMessageOfTheContract) {
  TestServer t;
  EXPECT_EQ(
      t.chat({{"n", 129}}).parsed().at("error").at("message"),
      "1 validation error: {'type': 'less_than_equal', 'loc': ('body', 'n'), 'msg': 'must be at most 128', "
      "'input': 129}");
}

TEST(Validation, ListsEveryProblemAtOnce) {
  TestServer t;
  json error = t.chat({{"n", 0}, {"top_p", "x"}, {"stop", {"a", ""}}}).parsed().at("error");
  const std::string message = error.at("message");
  EXPECT_TRUE(message.starts_with("3 validation errors: {")) << message;
  for (const char* part : {"('body', 'n')", "('body', 'top_p')", "('body', 'stop', 1)", "'input': 'x'"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Validation, TakesEveryFieldAtItsEdge) {
  TestServer t;
  std::vector<json> good = {
      {{"temperature", 0}, {"top_p", 1}, {"top_k", -1}, {"min_p", 1}, {"seed", -9223372036854775807 - 1}},
      {{"max_tokens", 1.0}, {"n", 128}, {"frequency_penalty", -2}, {"presence_penalty", 2}},
      {{"stop", "x"},
       {"stop_token_ids", {0, 511}},
       {"allowed_token_ids", {0}},
       {"logit_bias", {{"511", -100}}}},
      {{"stop", {"a", "b"}}, {"min_tokens", 10}, {"max_tokens", 10}, {"ignore_eos", true}},
      {{"response_format", {{"type", "text"}}}, {"user", "u"}, {"priority", 0}, {"use_beam_search", false}},
      {{"temperature", nullptr}, {"stop", nullptr}, {"tools", nullptr}, {"stream_options", nullptr}},
      {{"no_such_field", {1, 2, 3}}, {"store", true}, {"metadata", json::object()}},
      {{"modalities", {"text"}}, {"bad_words", json::array()}, {"structured_outputs", nullptr}},
      {{"max_completion_tokens", 3}, {"max_tokens", 9}},
  };
  for (const json& body : good) EXPECT_EQ(t.chat(body).status, 200) << body;
  EXPECT_EQ(t.pipeline.seen().back().sampling.max_tokens, 3);
}

TEST(Validation, MapsThePipelinesRefusals) {
  TestServer t;
  t.pipeline.check = [](const llm::Request&) {
    throw Error(ErrorKind::kInvalidInput, "temperature must be at least 0", "temperature");
  };
  Answer answer = t.chat();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.parsed().at("error").at("param"), "body.temperature");
  t.pipeline.check = [](const llm::Request&) { fail(ErrorKind::kOutOfMemory, "no room"); };
  answer = t.chat();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.parsed().at("error").at("type"), "out_of_memory");
  t.pipeline.check = [](const llm::Request&) { throw std::runtime_error("secret"); };
  answer = t.chat();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
}

TEST(Validation, RefusesBodiesThatAreNoJsonObjects) {
  TestServer t;
  struct Row {
    const char* body;
    const char* type;
  };
  for (auto [body, type] : {Row{"{", "json_invalid"}, Row{"[1]", "dict_type"},
                            Row{"{\"a\":NaN}", "json_invalid"}, Row{"{\"a\":1,\"a\":2}", "json_invalid"},
                            Row{"\"\\ud800\"", "json_invalid"}, Row{"{\"a\":\"\xff\"}", "json_invalid"},
                            Row{"{\"a\":1e999}", "json_invalid"}, Row{"null", "dict_type"}}) {
    Answer answer = t.request("POST", "/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find(type), std::string::npos) << body << answer.body;
  }
  Answer deep = t.request("POST", "/v1/chat/completions", std::string(200000, '['));
  EXPECT_EQ(deep.status, 400);
  Answer empty = t.request("POST", "/v1/chat/completions", "",
                           "Content-Type: application/json\r\nContent-Length: 0\r\n");
  EXPECT_EQ(empty.status, 400);
}

TEST(Validation, RefusesAnotherContentType) {
  TestServer t;
  for (const char* type : {"", "Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n"}) {
    HttpClient client(t.server.port());
    client.send(cat("POST /tokenize HTTP/1.1\r\n", type, "Content-Length: 15\r\n\r\n{\"prompt\":\"hi\"}"));
    EXPECT_EQ(client.read_answer().status, 400) << type;
  }
  HttpClient client(t.server.port());
  client.send(
      "POST /tokenize HTTP/1.1\r\nContent-Type: Application/JSON; charset=utf-8\r\nContent-Length: 15\r\n\r\n"
      "{\"prompt\":\"hi\"}");
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(Validation, RefusesObjectsWithTooManyKeysInMessages) {
  TestServer t;
  json many = json::object();
  for (int i = 0; i < 1001; ++i) many[std::to_string(i)] = 1;
  Answer answer = t.chat({{"chat_template_kwargs", many}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.parsed().at("error").at("param"), "body.chat_template_kwargs");
  json bias = json::object();
  for (int i = 0; i < 500; ++i) bias[std::to_string(i)] = 1;
  EXPECT_EQ(t.chat({{"logit_bias", bias}}).status, 200);
}

}  // namespace
}  // namespace quaver::server::testing
