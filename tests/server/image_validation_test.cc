// Every field of the picture routes, wrong in every way: a 400 that names the field, on each route that has
// it.
#include <gtest/gtest.h>

#include "base/cat.h"
#include "server/picture_server.h"

namespace quaver::server::testing {
namespace {

struct Case {
  json body;
  const char* param;  // of the error, without "body."
  const char* type;   // pydantic's word, or "" where the pipeline or a handler refuses
};

void expect_refusal(Answer answer, const std::string& param, const std::string& type,
                    const std::string& what) {
  ASSERT_EQ(answer.status, 400) << what << answer.body;
  const json error = answer.parsed().at("error");
  EXPECT_EQ(error.at("param"), cat("body.", param)) << what << answer.body;
  EXPECT_EQ(error.at("code"), 400);
  const std::string message = error.at("message");
  EXPECT_NE(message.find(type.empty() ? "" : cat("'type': '", type, "'")), std::string::npos)
      << what << message;
}

// Alike in JSON and, as text, in forms.
std::vector<Case> numbers() {
  return {
      {{{"n", 0}}, "n", "greater_than_equal"},
      {{{"n", -1}}, "n", "greater_than_equal"},
      {{{"n", 11}}, "n", "less_than_equal"},
      {{{"n", "two"}}, "n", "int_parsing"},
      {{{"num_inference_steps", 0}}, "num_inference_steps", "greater_than_equal"},
      {{{"num_inference_steps", 201}}, "num_inference_steps", "less_than_equal"},
      {{{"num_inference_steps", "x"}}, "num_inference_steps", "int_parsing"},
      {{{"guidance_scale", -0.1}}, "guidance_scale", "greater_than_equal"},
      {{{"guidance_scale", 20.1}}, "guidance_scale", "less_than_equal"},
      {{{"guidance_scale", "strong"}}, "guidance_scale", "float_parsing"},
      {{{"true_cfg_scale", 21}}, "true_cfg_scale", "less_than_equal"},
      {{{"seed", -1}}, "seed", "greater_than_equal"},
      {{{"seed", "text"}}, "seed", "int_parsing"},
      {{{"strength", 1.5}}, "strength", ""},
      {{{"max_sequence_length", 513}}, "max_sequence_length", ""},
      {{{"max_sequence_length", 0}}, "max_sequence_length", ""},
      {{{"output_compression", 101}}, "output_compression", "less_than_equal"},
      {{{"partial_images", 4}, {"stream", true}}, "partial_images", "less_than_equal"},
      {{{"partial_images", 1}}, "partial_images", "value_error"},
      {{{"stream", "maybe"}}, "stream", "bool_parsing"},
      {{{"output_format", "bmp"}}, "output_format", "literal_error"},
      {{{"output_format", ""}}, "output_format", "literal_error"},
      {{{"response_format", "xml"}}, "response_format", "literal_error"},
      {{{"response_format", "url"}}, "response_format", "literal_error"},
      {{{"background", "green"}}, "background", "literal_error"},
      {{{"size", "0x0"}}, "size", ""},
      {{{"size", "10x"}}, "size", "string_pattern_mismatch"},
      {{{"size", "x10"}}, "size", "string_pattern_mismatch"},
      {{{"size", "abc"}}, "size", "string_pattern_mismatch"},
      {{{"size", "1024x-1"}}, "size", "string_pattern_mismatch"},
      {{{"size", "-16x16"}}, "size", "string_pattern_mismatch"},
      {{{"size", ""}}, "size", "string_pattern_mismatch"},
      {{{"size", "16x16 "}}, "size", "string_pattern_mismatch"},
      {{{"size", "16X16"}}, "size", "string_pattern_mismatch"},
      {{{"size", "99999999999999999999x16"}}, "size", "string_pattern_mismatch"},
      {{{"size", "1x1"}}, "size", ""},
      {{{"size", "17x16"}}, "size", ""},
      {{{"size", "1000000000x1000000000"}}, "size", ""},
      {{{"width", 16}}, "height", "missing"},
      {{{"width", 16}, {"height", 16}, {"size", "16x16"}}, "size", "value_error"},
      {{{"flow_shift", 3}}, "flow_shift", ""},
      {{{"layers", 4}}, "layers", ""},
      {{{"lora", {{"name", "x"}}}}, "lora", ""},
      {{{"lora", {{"local_path", "/etc/passwd"}}}}, "lora", ""},
      {{{"lora", {{"scale", 1}}}}, "lora.name", "missing"},
      {{{"lora", {{"name", "style"}, {"lora_name", "style"}}}}, "lora.lora_name", "value_error"},
      {{{"lora", {{"name", "style"}, {"scale", "strong"}}}}, "lora.scale", "float_parsing"},
      {{{"lora", {{"name", "style"}, {"int_id", 0}}}}, "lora.int_id", "greater_than_equal"},
      {{{"lora", {{"name", "style"}, {"weight", 1}}}}, "lora.weight", "extra_forbidden"},
      {{{"lora", json::array({"style"})}}, "lora", "dict_type"},
      {{{"system_prompt", "x"}}, "system_prompt", ""},
      {{{"resolution", 640}}, "resolution", ""},
      {{{"extra_params", {{"cfg_interval", 1}}}}, "extra_params.cfg_interval", "extra_forbidden"},
      {{{"extra_args", {{"max_sequence_length", 8}}}, {"max_sequence_length", 8}},
       "extra_args.max_sequence_length",
       "value_error"},
  };
}

std::vector<Case> json_alone() {
  return {
      {{{"prompt", nullptr}}, "prompt", "missing"},
      {{{"prompt", 5}}, "prompt", "string_type"},
      {{{"prompt", ""}}, "prompt", ""},
      {{{"prompt", "   "}}, "prompt", ""},
      {{{"prompt", std::string(size_t{1} << 17, 'x')}}, "prompt", ""},
      {{{"n", "2"}}, "n", "int_type"},
      {{{"n", 1.5}}, "n", "int_from_float"},
      {{{"n", true}}, "n", "int_type"},
      {{{"size", "auto"}}, "size", "string_pattern_mismatch"},
      {{{"size", 16}}, "size", "string_type"},
      {{{"seed", 9223372036854775808u}}, "seed", "less_than_equal"},
      {{{"seed", 1.5}}, "seed", "int_from_float"},
      {{{"guidance_scale", "7"}}, "guidance_scale", "float_type"},
      {{{"strength", 0.5}}, "strength", ""},
      {{{"stream", 1}}, "stream", "bool_type"},
      {{{"stream", true}, {"response_format", "file"}}, "response_format", "value_error"},
      {{{"negative_prompt", 1}}, "negative_prompt", "string_type"},
      {{{"extra_params", 1}}, "extra_params", "dict_type"},
      {{{"extra_body", {{"n", 2}}}, {"n", 2}}, "n", "value_error"},
      {{{"n", 2}, {"num_outputs_per_prompt", 2}}, "num_outputs_per_prompt", "value_error"},
  };
}

std::string form_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

TEST(ImageValidation, F088_GenerationsNameTheField) {
  PictureServer t;
  for (const auto& cases : {numbers(), json_alone()})
    for (const Case& c : cases) expect_refusal(t.generate(c.body), c.param, c.type, c.body.dump());
  EXPECT_TRUE(t.pipeline.seen().empty());
}

TEST(ImageValidation, F088_EditsNameTheField) {
  PictureServer t;
  const FormField image{"image", png_of(painted(16, 16, 1)), "a.png"};
  for (const Case& c : numbers()) {
    std::vector<FormField> fields = {image};
    for (const auto& [name, value] : c.body.items()) fields.push_back({name, form_text(value), ""});
    expect_refusal(t.edit(fields), c.param, c.type, c.body.dump());
  }
  const auto with = [&](const char* name, const char* value) {
    return std::vector<FormField>{image, {name, value, ""}};
  };
  expect_refusal(t.edit({image}, false), "prompt", "missing", "no prompt");
  expect_refusal(t.edit(with("prompt", "  "), false), "prompt", "", "blank");
  expect_refusal(t.edit(with("prompt", "\xff"), false), "prompt", "", "no UTF-8");
  expect_refusal(t.edit(with("prompt", "again")), "prompt", "", "twice");
  expect_refusal(t.edit(with("guidance_scale", "nan")), "guidance_scale", "finite_number", "nan");
  expect_refusal(t.edit(with("guidance_scale", "inf")), "guidance_scale", "finite_number", "inf");
  expect_refusal(t.edit(with("seed", "9223372036854775808")), "seed", "int_type", "2^63");
  expect_refusal(t.edit(with("response_format", "file")), "response_format", "literal_error", "file");
  expect_refusal(t.edit(with("lora", "{\"name\": 1}")), "lora.name", "string_type", "lora");
  expect_refusal(t.edit(with("lora", "style")), "lora", "dict_type", "lora");
  expect_refusal(t.edit({image, image}), "image", "", "two");
  expect_refusal(t.edit({image, {"url", "data:image/png;base64,AAAA", ""}}), "url", "", "two");
  expect_refusal(t.edit({image, {"note", "x", "file.txt"}}), "note", "", "a stray file");
  expect_refusal(t.edit({{"image", "not a picture", "a.png"}}), "image", "", "no picture");
  expect_refusal(t.edit({{"image", png_of(painted(16, 16, 1)).substr(0, 60), "a.png"}}), "image", "", "cut");
  expect_refusal(t.edit({image, {"mask_image", "not a picture", "m.png"}}), "mask_image", "", "no mask");
  expect_refusal(t.edit({image, {"mask", "not a picture", "m.png"}}), "mask", "", "no mask");
  expect_refusal(t.edit({image, {"mask", "x", "m.png"}, {"mask_image", "x", "m.png"}}), "mask_image", "",
                 "two masks");
  expect_refusal(t.edit({image, {"reference_image", "x", "m.png"}}), "reference_image", "", "reference");
  EXPECT_TRUE(t.pipeline.seen().empty());
}

// F117
TEST(ImageValidation, F117_EditsWithoutAPictureAreRefused) {
  PictureServer t;
  expect_refusal(t.edit({}), "image", "missing", "none");
  expect_refusal(t.edit({{"image", "", ""}}), "image", "missing", "an empty field");
}

TEST(ImageValidation, F088_ChatNamesTheField) {
  PictureServer t;
  const auto user = [](const json& content) { return json{{{"role", "user"}, {"content", content}}}; };
  const auto url = [](const json& value) { return json{{{"type", "image_url"}, {"image_url", value}}}; };
  const json png = {
      {"type", "image_url"},
      {"image_url",
       {{"url", "data:image/png;base64," + base64_encode(as_bytes_of(png_of(painted(16, 16, 1))))}}}};
  const std::vector<Case> cases = {
      {{{"messages", nullptr}}, "messages", "missing"},
      {{{"messages", "hi"}}, "messages", "list_type"},
      {{{"messages", json::array()}}, "messages", "too_short"},
      {{{"messages", {1}}}, "messages.0", "dict_type"},
      {{{"messages", {{{"content", "x"}}}}}, "messages.0.role", "missing"},
      {{{"messages", {{{"role", "user"}}}}}, "messages.0.content", "missing"},
      {{{"messages", user(5)}}, "messages.0.content", "string_type"},
      {{{"messages", user("  ")}}, "messages", ""},
      {{{"messages", {{{"role", "system"}, {"content", "x"}}}}}, "messages", ""},
      {{{"messages", user({{{"type", "input_audio"}}})}}, "messages.0.content.0.type", "literal_error"},
      {{{"messages", user({{{"type", "text"}}})}}, "messages.0.content.0.text", "missing"},
      {{{"messages", user(url({{"url", 5}}))}}, "messages.0.content.0.image_url.url", "string_type"},
      {{{"messages", user(url(5))}}, "messages.0.content.0.image_url", "dict_type"},
      {{{"messages", user(url({{"url", "http://x/y.png"}}))}}, "messages.0.content.0.image_url", ""},
      {{{"messages", user({png, png})}}, "messages.0.content.1.image_url", ""},
      {{{"modalities", {"text"}}}, "modalities.0", "literal_error"},
      {{{"num_frames", 81}}, "num_frames", ""},
      {{{"size", "5"}}, "size", "string_pattern_mismatch"},
      {{{"n", 11}}, "n", "less_than_equal"},
      {{{"cfg_scale", 1}, {"true_cfg_scale", 1}}, "cfg_scale", "value_error"},
  };
  for (const Case& c : cases) expect_refusal(t.chat(c.body), c.param, c.type, c.body.dump().substr(0, 200));
  EXPECT_EQ(t.chat({{"modalities", {"image"}}, {"width", 16}, {"height", 32}}).status, 200);
}

TEST(ImageValidation, F088_BodiesThatAreNoRequest) {
  PictureServer t;
  const auto send = [&](std::string_view path, std::string_view type, std::string_view body) {
    HttpClient client(t.server.port());
    client.send(cat("POST ", path, " HTTP/1.1\r\nHost: test\r\nContent-Type: ", type,
                    "\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
    return client.read_answer();
  };
  for (const char* body : {"", "[]", "{", "\"x\"", "{\"prompt\": NaN}"})
    EXPECT_EQ(send("/v1/images/generations", "application/json", body).status, 400) << body;
  EXPECT_EQ(send("/v1/images/generations", "text/plain", "{\"prompt\": \"x\"}").status, 400);
  EXPECT_EQ(send("/v1/images/edits", "application/json", "{\"prompt\": \"x\"}").status, 400);
  EXPECT_EQ(t.generate({{"invented", 1}}).status, 200);
}

// F089: 262,144 pixels, on each route.
TEST(ImageValidation, F089_TooManyPixelsOnEveryRoute) {
  PictureServer t;
  const FormField image{"image", png_of(painted(16, 16, 1)), "a.png"};
  for (const char* size : {"1024x1024", "512x528", "100000x10000"}) {
    expect_refusal(t.generate({{"size", size}}), "size", "", size);
    expect_refusal(t.chat({{"size", size}}), "size", "", size);
    expect_refusal(t.edit({image, {"size", size, ""}}), "size", "", size);
  }
  expect_refusal(t.generate({{"size", "512x512"}, {"n", 4}}), "size", "", "n");
  expect_refusal(t.edit({{"image", png_of(painted(1024, 1024, 1)), "a.png"}}), "size", "",
                 "the source's size");
  EXPECT_EQ(t.generate({{"size", "512x512"}, {"num_inference_steps", 1}}).status, 200);
}

}  // namespace
}  // namespace quaver::server::testing
