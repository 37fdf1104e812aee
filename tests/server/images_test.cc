// Pictures over HTTP: what is asked for reaches the pipeline, and what it makes reaches the client, whole or
// in events.
#include <gtest/gtest.h>

#include <future>

#include "base/cat.h"
#include "server/picture_server.h"
#include "server/zip.h"

namespace quaver::server::testing {
namespace {

TEST(Images, GenerationsAnswerWithThePicturesAndTheFactsOfTheirMaking) {
  PictureServer t;
  const json out =
      t.generate({{"size", "48x32"}, {"n", 2}, {"seed", 70000}, {"num_inference_steps", 3}}).parsed();
  ASSERT_EQ(out.at("data").size(), 2u);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(out.at("data")[i].at("seed"), 70000 + i);
    EXPECT_EQ(image_of(out.at("data")[i].at("b64_json")), painted(48, 32, 70000 + i));
    EXPECT_TRUE(out.at("data")[i].at("url").is_null());
    EXPECT_TRUE(out.at("data")[i].at("revised_prompt").is_null());
  }
  EXPECT_EQ(out.at("size"), "48x32");
  EXPECT_EQ(out.at("output_format"), "png");
  EXPECT_TRUE(out.at("cot_output").is_null());
  EXPECT_EQ(out.at("metrics"),
            json({{"stage_durations", {{"text_encode", 0.25}, {"denoise", 2.0}, {"decode", 0.5}}},
                  {"peak_memory_mb", 2.0},
                  {"peak_allocated_mb", 1.0},
                  {"guidance_scale", 3.5},
                  {"num_inference_steps", 3}}));
  EXPECT_EQ(out.at("usage").at("peak_memory_mb"), 2.0);
  EXPECT_EQ(out.at("usage").at("input_tokens"), 9);
}

TEST(Images, EveryFieldReachesThePipeline) {
  PictureServer t;
  ASSERT_EQ(t.generate({{"negative_prompt", "blue"},
                        {"size", "64x16"},
                        {"num_inference_steps", 7},
                        {"guidance_scale", 2.5},
                        {"true_cfg_scale", 4},
                        {"seed", 9223372036854775807},
                        {"extra_params", {{"max_sequence_length", 77}}},
                        {"user", "me"},
                        {"quality", "standard"},
                        {"generator_device", "cuda"},
                        {"vae_use_tiling", true}})
                .status,
            200);
  const pipeline::ImageRequest seen = t.pipeline.seen().at(0);
  EXPECT_EQ(seen.prompt, "a red circle");
  EXPECT_EQ(seen.negative_prompt, "blue");
  EXPECT_EQ(seen.width, 64);
  EXPECT_EQ(seen.height, 16);
  EXPECT_EQ(seen.steps, 7);
  EXPECT_EQ(seen.guidance_scale, 2.5);
  EXPECT_EQ(seen.true_cfg_scale, 4);
  EXPECT_EQ(seen.seed, (uint64_t{1} << 63) - 1);
  EXPECT_EQ(seen.text_tokens, 77);
  EXPECT_EQ(seen.count, 1);
}

TEST(Images, AnAdapterIsPickedUnderAnyOfItsNames) {
  PictureServer t;
  const FormField image{"image", png_of(painted(16, 16, 1)), "a.png"};
  for (const json& lora :
       {json{{"name", "style"}, {"scale", 0.25}}, json{{"adapter", "style"}, {"lora_scale", 0.25}},
        json{{"lora_path", "/loras/style.safetensors"}, {"scale", 0.25}, {"lora_int_id", 7}}}) {
    ASSERT_EQ(t.generate({{"lora", lora}}).status, 200) << lora;
    ASSERT_EQ(t.chat({{"extra_body", {{"lora", lora}}}}).status, 200) << lora;
    ASSERT_EQ(t.edit({image, {"lora", lora.dump(), ""}}).status, 200) << lora;
  }
  for (const pipeline::ImageRequest& seen : t.pipeline.seen()) EXPECT_EQ(seen.adapter->scale, 0.25);
  EXPECT_EQ(t.pipeline.seen().at(0).adapter->name, "style");
  EXPECT_EQ(t.pipeline.seen().at(6).adapter->path, "/loras/style.safetensors");
  for (const json& none : {json(nullptr), json(""), json("None"), json::object()}) {
    ASSERT_EQ(t.generate({{"lora", none}}).status, 200) << none;
    EXPECT_FALSE(t.pipeline.seen().back().adapter) << none;
  }
}

TEST(Images, DefaultsOfTheOperatorStandBehindTheRequest) {
  ServerOptions options = test_options();
  options.default_sampling_params = {
      {"num_inference_steps", 9}, {"size", "64x64"}, {"guidance_scale", 1.5}, {"negative_prompt", "grey"}};
  PictureServer t(options);
  EXPECT_EQ(t.generate().parsed().at("size"), "64x64");
  EXPECT_EQ(t.generate({{"size", "16x32"}, {"num_inference_steps", 2}}).parsed().at("size"), "16x32");
  const auto seen = t.pipeline.seen();
  EXPECT_EQ(seen[0].steps, 9);
  EXPECT_EQ(seen[0].guidance_scale, 1.5);
  EXPECT_EQ(seen[0].negative_prompt, "grey");
  EXPECT_EQ(seen[1].steps, 2);
  // A picture that is edited keeps its size.
  EXPECT_EQ(t.edit({{"image", png_of(painted(32, 48, 1)), "a.png"}}).parsed().at("size"), "32x48");
}

TEST(Images, DefaultsThatNoRequestCouldHaveAreRefused) {
  FakeImagePipeline pipeline;
  for (const json& params :
       {json{{"temperature", 1}}, json{{"size", "big"}}, json{{"num_inference_steps", 0}},
        json{{"num_inference_steps", "4"}}, json{{"guidance_scale", 21}}}) {
    ServerOptions options = test_options();
    options.default_sampling_params = params;
    try {
      Server server(options);
      server.start();
      server.attach(pipeline);
      FAIL() << params;
    } catch (const Error& e) {
      EXPECT_EQ(e.field(), "default-sampling-params") << e.what();
    }
  }
}

TEST(Images, FilesComeAsTheyAreAndSeveralAsAZip) {
  PictureServer t;
  struct Row {
    const char* format;
    const char* media_type;
    const char* name;
  };
  for (auto [format, media_type, name] :
       {Row{"png", "image/png", "image.png"}, Row{"jpg", "image/jpeg", "image.jpg"},
        Row{"jpeg", "image/jpeg", "image.jpg"}, Row{"webp", "image/webp", "image.webp"}}) {
    Answer answer = t.generate({{"response_format", "file"}, {"output_format", format}, {"seed", 5}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers["content-type"], media_type);
    EXPECT_NE(answer.headers["content-disposition"].find(name), std::string::npos)
        << answer.headers["content-disposition"];
    EXPECT_EQ(answer.headers["content-length"], std::to_string(answer.body.size()));
    EXPECT_EQ(answer.headers["x-seed"], "5");
    EXPECT_EQ(decode_image(as_bytes_of(answer.body), format).width, 32);
  }
  Answer zip = t.generate({{"response_format", "file"}, {"n", 3}, {"seed", 5}});
  EXPECT_EQ(zip.headers["content-type"], "application/zip");
  const std::string png = png_of(painted(32, 32, 7));
  const size_t at = zip.body.find("image_2.png");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(zip.body.substr(at + 11, png.size()), png);
}

// Checked against the archives that Info-ZIP and Python write: names, sizes, CRC-32 of "123456789"
// (0xcbf43926).
TEST(Images, ArchivesAreStoredZip) {
  const std::string digits = "123456789";
  const std::string zip = zip_archive(std::vector<ZipEntry>{{"a.txt", as_bytes_of(digits)}, {"b", {}}});
  EXPECT_EQ(zip.substr(0, 4), "PK\x03\x04");
  EXPECT_EQ(zip.substr(14, 4), "\x26\x39\xf4\xcb");
  EXPECT_EQ(zip.substr(18, 8), std::string("\x09\0\0\0\x09\0\0\0", 8));
  EXPECT_EQ(zip.substr(30, 14), "a.txt123456789");
  const size_t second = zip.rfind("PK\x01\x02");  // where it says that its file begins
  EXPECT_EQ(zip.substr(second + 42, 4), std::string("\x2c\0\0\0", 4));
  EXPECT_EQ(zip.substr(44, 4), "PK\x03\x04");
  const size_t end = zip.rfind("PK\x05\x06");
  EXPECT_EQ(end + 22, zip.size());
  EXPECT_EQ(zip.substr(end + 8, 4), std::string("\2\0\2\0", 4));
}

TEST(Images, StreamsTellProgressPreviewsAndEachPicture) {
  PictureServer t;
  Answer answer = t.generate({{"stream", true}, {"partial_images", 2}, {"n", 2}, {"seed", 3}});
  EXPECT_TRUE(answer.headers["content-type"].starts_with("text/event-stream"));
  std::vector<std::string> names;
  std::vector<json> data;
  for (const auto& [name, text] : named_events(answer.body)) {
    names.push_back(name);
    if (text == "[DONE]") continue;
    data.push_back(json::parse(text));
    EXPECT_EQ(data.back().at("type"), name);
  }
  const std::string p = "image_generation.progress", v = "image_generation.partial_image",
                    c = "image_generation.completed";
  EXPECT_EQ(names, (std::vector<std::string>{p, p, v, p, v, p, p, c, c, ""}));
  EXPECT_EQ(data[0], json({{"type", p}, {"step", 0}, {"steps", 4}, {"queue_position", 2}}));
  EXPECT_EQ(data[3], json({{"type", p}, {"step", 2}, {"steps", 4}, {"queue_position", 0}}));
  EXPECT_EQ(data[4].at("partial_image_index"), 1);
  EXPECT_EQ(image_of(data[4].at("b64_json")), painted(8, 8, 3));
  EXPECT_EQ(data[4].at("size"), "8x8");
  EXPECT_EQ(image_of(data[8].at("b64_json")), painted(32, 32, 4));
  EXPECT_EQ(data[8].at("seed"), 4);
  EXPECT_EQ(data[8].at("size"), "32x32");
  EXPECT_EQ(data[8].at("output_format"), "png");
  EXPECT_EQ(data[8].at("usage").at("total_tokens"), 9);
}

TEST(Images, FailuresAreAStatusOrTheEndOfAStream) {
  PictureServer t;
  t.pipeline.failure = Error(ErrorKind::kNonFinite, "the latents hold a NaN");
  Answer whole = t.generate();
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.parsed().at("error").at("message"), "the latents hold a NaN");
  EXPECT_TRUE(whole.parsed().at("error").contains("request_id"));
  Answer stream = t.generate({{"stream", true}});
  EXPECT_EQ(stream.status, 200);
  const auto events = named_events(stream.body);
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(json::parse(events[events.size() - 2].second).at("error").at("code"), 500);
  EXPECT_EQ(events.back().second, "[DONE]");
  t.pipeline.failure = Error(ErrorKind::kOutOfMemory, "no memory is left");
  EXPECT_EQ(t.chat().status, 503);
}

TEST(Images, AFullQueueSaysWhenToComeBack) {
  PictureServer t;
  t.pipeline.queue_limit = 0;
  Answer answer = t.generate();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers["retry-after"], "1");
}

TEST(Images, EditsGetTheirPictureAndMask) {
  PictureServer t;
  Image source = painted(32, 48, 1);
  source.rgb[0] = 200;
  Image mask = painted(32, 48, 0);
  for (int i = 0; i < 3; ++i) mask.rgb[static_cast<size_t>(i)] = 255;
  Answer answer = t.edit({{"image", png_of(source), "a.png"},
                          {"mask_image", png_of(mask), "m.png"},
                          {"strength", "0.75", ""},
                          {"n", "2", ""},
                          {"seed", "11", ""},
                          {"size", "auto", ""}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.parsed().at("size"), "32x48");
  EXPECT_EQ(answer.parsed().at("data")[1].at("seed"), 12);
  const pipeline::ImageRequest seen = t.pipeline.seen().at(0);
  ASSERT_TRUE(seen.source && seen.mask);
  EXPECT_EQ(*seen.source, source);
  EXPECT_EQ(seen.mask->gray[0], 255);
  EXPECT_EQ(seen.mask->gray[1], 0);
  EXPECT_EQ(seen.strength, 0.75);
  EXPECT_FALSE(seen.width.has_value());
}

// 1 x 2 pixels: transparent, then opaque; made with Pillow: Image.new("RGBA", (1, 2)), putpixel((0, 1), (9,
// 9, 9, 255)).
TEST(Images, OpenAisMaskIsTransparentWhereThePictureIsRedone) {
  PictureServer t;
  const std::string transparent =
      "data:image/png;base64,"
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAACCAYAAACZgbYnAAAAEklEQVR4nGNgYGBgYODk5PwPAAFaARvMiSu3AAAAAElFTkSuQmCC";
  Answer answer = t.edit({{"image[]", png_of(painted(16, 16, 1)), "a.png"}, {"mask", transparent, ""}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(t.pipeline.seen().at(0).mask->gray, (std::vector<uint8_t>{255, 0}));
  answer =
      t.edit({{"image", png_of(painted(16, 16, 1)), "a.png"}, {"mask", png_of(painted(16, 16, 0)), "m.png"}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.parsed().at("error").at("param"), "body.mask");
}

// F092's base64, F068's addresses.
TEST(Images, UrlsAreDataOrRefused) {
  PictureServer t;
  std::string b64;  // of a picture that needs both letters in which the alphabets differ, and padding
  for (uint64_t seed = 0; b64.find('+') == b64.npos || b64.find('/') == b64.npos || !b64.ends_with('=');
       ++seed)
    b64 = base64_encode(as_bytes_of(png_of(painted(16, 16, seed))));
  std::string loose = b64.substr(0, b64.find('='));
  for (char& c : loose) c = c == '+' ? '-' : c == '/' ? '_' : c;
  loose.insert(8, "\r\n");
  for (const std::string& good : {b64, loose})
    for (const char* name : {"url", "url[]", "image"}) {
      Answer answer = t.edit({{name, "data:image/png;base64," + good, ""}});
      EXPECT_EQ(answer.status, 200) << name << answer.body;
    }
  for (const char* bad :
       {"http://127.0.0.1:1/x.png", "https://example.com/x.png", "file:///etc/hostname", "ftp://x",
        "data:text/html;base64,PGh0bWw+", "data:image/png;base64,", "data:,x", "x", "http://[::1]/"}) {
    Answer answer = t.edit({{"url", bad, ""}});
    EXPECT_EQ(answer.status, 400) << bad;
    EXPECT_EQ(answer.parsed().at("error").at("param"), "body.url") << answer.body;
  }
}

TEST(Images, EditsStreamUnderTheirOwnNames) {
  PictureServer t;
  Answer answer = t.edit(
      {{"image", png_of(painted(16, 16, 1)), "a.png"}, {"stream", "true", ""}, {"partial_images", "1", ""}});
  std::set<std::string> names;
  for (const auto& [name, data] : named_events(answer.body)) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"", "image_edit.completed", "image_edit.partial_image",
                                          "image_edit.progress"}));
}

TEST(Images, ChatTakesTheUsersWordsAndAnswersWithPictures) {
  PictureServer t;
  const std::string url = "data:image/png;base64," + base64_encode(as_bytes_of(png_of(painted(16, 32, 1))));
  json messages = {
      {{"role", "system"}, {"content", "be brief"}},
      {{"role", "user"}, {"content", "a red"}},
      {{"role", "assistant"}, {"content", "yes?"}},
      {{"role", "user"},
       {"content",
        {{{"type", "text"}, {"text", "circle"}}, {{"type", "image_url"}, {"image_url", {{"url", url}}}}}}}};
  json body = {{"messages", messages}, {"extra_body", {{"seed", 6}, {"num_outputs_per_prompt", 2}}}};
  const json out = t.post("/v1/chat/completions", body).parsed();
  EXPECT_EQ(t.pipeline.seen().at(0).prompt, "a red circle");
  EXPECT_EQ(out.at("object"), "chat.completion");
  ASSERT_EQ(out.at("choices").size(), 1u);
  const json& choice = out.at("choices")[0];
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  ASSERT_EQ(choice.at("message").at("content").size(), 2u);
  const json& part = choice.at("message").at("content")[1];
  const std::string data = part.at("image_url").at("url");
  ASSERT_TRUE(data.starts_with("data:image/png;base64,"));
  EXPECT_EQ(image_of(data.substr(22)), painted(16, 32, 7));
  EXPECT_EQ(part.at("seed"), 7);
  EXPECT_EQ(part.at("peak_memory_mb"), 2.0);
  EXPECT_EQ(part.at("stage_durations").at("denoise"), 2.0);
  EXPECT_EQ(out.at("usage"), json({{"prompt_tokens", 9}, {"completion_tokens", 0}, {"total_tokens", 9}}));
  body["stream"] = true;
  const auto events = named_events(t.post("/v1/chat/completions", body).body);
  ASSERT_EQ(events.size(), 2u);
  const json chunk = json::parse(events[0].second);
  EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
  EXPECT_EQ(chunk.at("modality"), "image");
  EXPECT_EQ(chunk.at("choices")[0].at("delta").at("content").size(), 2u);
  EXPECT_EQ(events[1].second, "[DONE]");
}

// F091, F090: both kinds of model on all routes.
TEST(Images, F091_RoutesOfTextAreNotThereAndSaySo) {
  PictureServer t;
  for (const char* path :
       {"/v1/completions", "/tokenize", "/detokenize", "/v1/audio/speech", "/v1/embeddings", "/v1/videos"}) {
    Answer answer = t.post(path, {{"prompt", "x"}});
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_NE(answer.body.find("image_generation, image_edit"), std::string::npos) << answer.body;
  }
  for (const char* path : {"/v1/images/generations", "/v1/images/edits", "/v1/chat/completions"})
    EXPECT_EQ(HttpClient(t.server.port()).request("GET", path).status, 405) << path;
  const json model = HttpClient(t.server.port()).request("GET", "/v1/models").parsed().at("data")[0];
  EXPECT_EQ(model.at("capabilities"), json({"image_generation", "image_edit"}));
  EXPECT_TRUE(model.at("max_model_len").is_null());
  EXPECT_EQ(model.at("image_generation"),
            (json{{"size_unit", 16},
                  {"default_size", "32x32"},
                  {"num_inference_steps", 4},
                  {"guidance_scale", 3.5},
                  {"max_sequence_length", 512},
                  {"adapters", json::array({{{"name", "style"}, {"scale", 0.5}, {"always", false}}})}}));
}

TEST(Images, F090_UnknownModelNames) {
  PictureServer t;
  const FormField image{"image", png_of(painted(16, 16, 1)), "a.png"};
  for (const char* name : {"does-not-exist", "FAKE", ""}) {
    for (const Answer& answer :
         {t.generate({{"model", name}}), t.chat({{"model", name}}), t.edit({image, {"model", name, ""}})}) {
      EXPECT_EQ(answer.status, 404) << name;
      EXPECT_EQ(answer.parsed().at("error").at("param"), "model");
      EXPECT_NE(answer.body.find("model_not_found"), std::string::npos);
    }
  }
  for (const char* name : {"fake", "alias", "/models/painter"}) {
    EXPECT_EQ(t.generate({{"model", name}}).status, 200) << name;
    EXPECT_EQ(t.edit({image, {"model", name, ""}}).status, 200) << name;
  }
}

// F095: eight requests at once, each with its own sizes, steps and counts.
TEST(Images, F095_EachReplyHoldsItsOwnPictures) {
  PictureServer t;
  std::vector<std::future<Answer>> answers;
  const auto size_of = [](uint64_t i) { return i % 2 ? std::pair{48, 16} : std::pair{32, 64}; };
  for (uint64_t i = 0; i < 8; ++i)
    answers.push_back(std::async(std::launch::async, [&, i] {
      return t.generate({{"n", i % 3 + 1},
                         {"seed", 1000 * i},
                         {"num_inference_steps", i % 2 ? 3 : 11},
                         {"size", cat(size_of(i).first, "x", size_of(i).second)}});
    }));
  for (uint64_t i = 0; i < 8; ++i) {
    const json out = answers[i].get().parsed();
    ASSERT_EQ(out.at("data").size(), i % 3 + 1);
    for (uint64_t k = 0; k < out.at("data").size(); ++k)
      EXPECT_EQ(image_of(out.at("data")[k].at("b64_json")),
                painted(size_of(i).first, size_of(i).second, 1000 * i + k));
  }
}

// F081(e): in the middle of 200 steps of 20 ms, streamed or not.
TEST(Images, F081_AClientThatLeavesEndsItsJob) {
  PictureServer t;
  t.pipeline.step = std::chrono::milliseconds(20);
  for (bool stream : {false, true}) {
    HttpClient client(t.server.port());
    const json body = {{"prompt", "x"}, {"num_inference_steps", 200}, {"stream", stream}};
    client.send(HttpClient::format("POST", "/v1/images/generations", body.dump()));
    ASSERT_TRUE(t.pipeline.wait_for_live(1, 5));
    client.close();
    EXPECT_TRUE(t.pipeline.wait_for_live(0, 1)) << stream;
  }
  EXPECT_EQ(t.pipeline.aborted(), 2);
}

// The client leaves while its request still waits for a worker thread.
TEST(Images, F081_ClientsThatDropAtOnce) {
  PictureServer t;
  t.pipeline.step = std::chrono::milliseconds(5);
  for (int i = 0; i < 200; ++i) {
    HttpClient client(t.server.port());
    client.send(
        HttpClient::format("POST", "/v1/images/generations", R"({"prompt":"x","num_inference_steps":200})"));
    client.reset();
  }
  EXPECT_EQ(t.generate().status, 200);
  EXPECT_TRUE(t.pipeline.wait_for_live(0, 1));
}

TEST(Images, ADrainLetsPicturesFinishAndEndsTheRest) {
  ServerOptions options = test_options();
  options.drain_timeout_s = 0.3;
  PictureServer t(options);
  t.pipeline.step = std::chrono::milliseconds(20);
  auto short_one = std::async(std::launch::async, [&] { return t.generate({{"num_inference_steps", 8}}); });
  auto long_one = std::async(std::launch::async, [&] { return t.generate({{"num_inference_steps", 200}}); });
  ASSERT_TRUE(t.pipeline.wait_for_live(2, 5));
  t.server.terminate();
  t.server.wait();
  EXPECT_EQ(short_one.get().status, 200);
  EXPECT_EQ(long_one.get().status, 503);
}

TEST(Images, MetricsHaveTheNamesThatDashboardsKnow) {
  PictureServer t;
  t.generate({{"num_inference_steps", 2}});
  const std::string page = HttpClient(t.server.port()).request("GET", "/metrics").body;
  for (const char* line : {"vllm_omni:num_requests_running{", "vllm_omni:requests_success_total{",
                           "vllm_omni:diffusion_preprocess_s_sum{", "vllm_omni:e2e_request_latency_s_count{"})
    EXPECT_NE(page.find(line), std::string::npos) << line;
  EXPECT_NE(page.find("vllm_omni:diffusion_exec_per_step_s_sum{model_name=\"fake\",engine=\"0\",stage=\"0\","
                      "replica=\"0\"} 1\n"),
            std::string::npos);
  EXPECT_EQ(page.find("kv_cache"), std::string::npos);
}

}  // namespace
}  // namespace quaver::server::testing
