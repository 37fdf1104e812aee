// Files that lie, nest, loop or explode give an error in one line, soon and within bounded memory.
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "text/tokenizer/fixtures.h"

namespace quaver::text {
namespace {

std::string refusal(const json& document) {
  try {
    tokenizer_from_json(document.dump(), "t.json");
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kBadFile || error.kind() == ErrorKind::kUnsupported)
        << error.what();
    EXPECT_TRUE(std::string_view(error.what()).starts_with("t.json")) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    return error.what();
  }
  return "";
}

json with_model(json model) { return minimal_document({{"model", std::move(model)}}); }
json bpe(json vocab, json merges) {
  return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
}
json added(int64_t id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
}

TEST(HostileTokenizer, TheMinimalDocumentIsFine) { EXPECT_EQ(refusal(minimal_document()), ""); }

TEST(HostileTokenizer, Models) {
  const std::vector<json> models = {
      nullptr,
      json::array(),
      "BPE",
      {{"type", "Markov"}, {"vocab", {{"a", 0}}}},
      {{"type", 3}},
      bpe(json::object(), json::array()),
      bpe(nullptr, json::array()),
      bpe({{"a", 0}}, nullptr),
      bpe({{"a", -1}}, json::array()),
      bpe({{"a", 1.5}}, json::array()),
      bpe({{"a", "0"}}, json::array()),
      bpe({{"a", 4294967296}}, json::array()),
      bpe({{"a", 18446744073709551615u}}, json::array()),
      bpe({{"a", 16000000}}, json::array()),
      bpe({{"a", 0}, {"b", 0}}, json::array()),
      bpe({{"a", 0}, {"ab", 1}}, {"a b"}),
      bpe({{"a", 0}, {"b", 1}}, {"a b"}),
      bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {"a  b"}),
      bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {"ab"}),
      bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {json::array({"a"})}),
      bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {json::array({"a", "b", "c"})}),
      bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {7}),
      {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}, {"dropout", 0.1}},
      {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}, {"unk_token", 5}},
      {{"type", "BPE"},
       {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
       {"merges", {"a b"}},
       {"continuing_subword_prefix", "##"}},
      {{"type", "Unigram"}, {"vocab", json::array()}, {"unk_id", 0}},
      {{"type", "Unigram"}, {"vocab", {{"a", 0.0}}}, {"unk_id", 1}},
      {{"type", "Unigram"}, {"vocab", {{"a", 0.0}}}, {"unk_id", -1}},
      {{"type", "Unigram"}, {"vocab", {{"a", "0"}}}, {"unk_id", 0}},
      {{"type", "Unigram"}, {"vocab", {{"a", 0.0, 1}}}, {"unk_id", 0}},
      {{"type", "Unigram"}, {"vocab", {{std::string(5000, 'a'), 0.0}}}, {"unk_id", 0}},
      {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}},
      {{"type", "WordPiece"},
       {"vocab", {{"a", 0}}},
       {"unk_token", "a"},
       {"continuing_subword_prefix", "##"},
       {"max_input_chars_per_word", -1}},
      {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}},
  };
  for (const json& model : models) EXPECT_NE(refusal(with_model(model)), "") << model.dump();
}

TEST(HostileTokenizer, AddedTokens) {
  const std::vector<json> lists = {
      "x",
      json::array({1}),
      json::array({{{"content", "x"}}}),
      json::array({added(-1, "x")}),
      json::array({added(4, "x")}),  // 3 would be next
      json::array({added(2147483648, "x")}),
      json::array({added(0, "a")}),                 // the model says 1
      json::array({added(3, "x"), added(4, "x")}),  // twice
      json::array({added(3, "x"), added(3, "y")}),
      json::array({added(3, std::string(5000, 'x'))}),
      json::array({{{"id", 3}, {"content", 5}}}),
  };
  for (const json& list : lists)
    EXPECT_NE(refusal(minimal_document({{"added_tokens", list}})), "") << list.dump().substr(0, 200);
  EXPECT_EQ(refusal(minimal_document(
                {{"added_tokens", json::array({added(1, "a"), added(3, "x"), added(4, "y")})}})),
            "");
}

TEST(HostileTokenizer, Components) {
  const std::vector<std::pair<const char*, json>> members = {
      {"normalizer", {{"type", "NFX"}}},
      {"normalizer", {{"no_type", 1}}},
      {"normalizer", json::array()},
      {"normalizer", {{"type", "Sequence"}}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", {nullptr}}}},
      {"normalizer", {{"type", "Strip"}, {"strip_left", true}}},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"Glob", "*"}}}, {"content", ""}}},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", "a"}}}}},
      {"normalizer", {{"type", "Prepend"}, {"prepend", std::string(5000, 'x')}}},
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!!"}}},
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}},
      {"pre_tokenizer", {{"type", "Scissors"}}},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Shredded"}, {"invert", false}}},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[z-a]"}}}, {"behavior", "Isolated"}, {"invert", false}}},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "sometimes"}}},
      {"pre_tokenizer",
       {{"type", "Metaspace"},
        {"replacement", "_"},
        {"prepend_scheme", "first"},
        {"add_prefix_space", false}}},
      {"pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}},
      {"pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", ""}}},
      {"decoder", {{"type", "Enigma"}}},
      {"decoder", {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}}},
      {"post_processor", {{"type", "Blender"}}},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", {"a", 99}}, {"cls", {"a", 1}}}},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", "a"}, {"cls", {"a", 1}}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}}}},
        {"special_tokens", json::object()}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}},
        {"special_tokens", json::object()}}},
      {"version", "2.0"},
  };
  for (const auto& [key, spec] : members)
    EXPECT_NE(refusal(minimal_document({{key, spec}})), "") << key << spec.dump().substr(0, 200);
}

json nested(const char* key, int depth) {
  json spec = {{"type", "Sequence"}, {key, json::array()}};
  for (int i = 0; i < depth; ++i) spec = {{"type", "Sequence"}, {key, json::array({spec})}};
  return spec;
}

TEST(HostileTokenizer, DeepNesting) {
  const std::vector<std::pair<const char*, const char*>> kinds = {{"normalizer", "normalizers"},
                                                                  {"pre_tokenizer", "pretokenizers"},
                                                                  {"decoder", "decoders"},
                                                                  {"post_processor", "processors"}};
  for (const auto& [member, key] : kinds) {
    EXPECT_EQ(refusal(minimal_document({{member, nested(key, 3)}})), "") << member;
    EXPECT_NE(refusal(minimal_document({{member, nested(key, 25)}})), "") << member;
  }
  EXPECT_THROW(tokenizer_from_json(std::string(100000, '['), "t.json"), Error);
}

TEST(HostileTokenizer, GrowthIsBounded) {
  const json doubling = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const json sequence = {{"type", "Sequence"}, {"normalizers", std::vector<json>(60, doubling)}};
  const auto grows = tokenizer_from_json(minimal_document({{"normalizer", sequence}}).dump(), "t.json");
  EXPECT_THROW(grows->encode("a", false), Error);
  const json decoders = {{"type", "Sequence"}, {"decoders", std::vector<json>(60, doubling)}};
  const auto decodes = tokenizer_from_json(minimal_document({{"decoder", decoders}}).dump(), "t.json");
  EXPECT_THROW(decodes->decode(std::vector<int32_t>{1}, false), Error);
}

TEST(HostileTokenizer, LongWordsTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* kind : {"llama3", "gemma", "t5", "xlmr", "bert", "word_level", "clip"}) {
    const auto tokenizer = golden_tokenizer(kind);
    for (const char* unit : {"a", " ", "\u0301", "1", "!", "ab ", "\n"}) {
      std::string text;
      while (text.size() < 200000) text += unit;
      tokenizer->encode(text, true);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

}  // namespace
}  // namespace quaver::text
