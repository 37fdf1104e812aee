// Precedence of rules, block scope, and rules that fit nothing.
#include "formats/layer_rules.h"

#include "format_checks.h"

namespace quaver {
namespace {

using Names = std::vector<std::string>;

LayerRule rule(NamePattern pattern, int bits) {
  IntScheme scheme{.bits = bits, .rule = pattern.key()};
  return {std::move(pattern), scheme};
}

Names rule_order(const LayerRules& rules, std::string_view layer) {
  Names order;
  for (const IntScheme& scheme : rules.candidates(layer)) order.push_back(scheme.rule);
  return order;
}

TEST(LayerRules, BetterFitBeatsWorseAndEqualFitsKeepTheirOrder) {
  LayerRules rules;
  rules.rules = {rule(NamePattern::name("mlp"), 2), rule(NamePattern::search(".*gate.*", "x"), 3),
                 rule(NamePattern::search("layers\\.0", "x"), 5), rule(NamePattern::name("gate_proj"), 6),
                 rule(NamePattern::name("model.layers.0.mlp.gate_proj"), 8)};
  EXPECT_EQ(rule_order(rules, "model.layers.0.mlp.gate_proj"),
            (Names{"model.layers.0.mlp.gate_proj", "gate_proj", ".*gate.*", "layers\\.0", "mlp", ""}));
  EXPECT_EQ(rule_order(rules, "model.layers.1.mlp.up_proj"), (Names{"mlp", ""}));
}

TEST(LayerRules, OutsideTheBlocksTheDefaultIsPlain) {
  LayerRules rules;
  rules.blocks = {"thinker.model.layers"};
  EXPECT_TRUE(rules.candidates("talker.model.layers.0.q_proj").front().plain);
  EXPECT_TRUE(rules.candidates("lm_head").front().plain);
  EXPECT_TRUE(rules.candidates("thinker.model.layers_extra.0").front().plain);
  EXPECT_FALSE(rules.candidates("thinker.model.layers.0.q_proj").front().plain);
}

TEST(LayerRules, BlocksMayBeRelativeToASubModel) {
  LayerRules rules;
  rules.blocks = {"model.layers"};
  EXPECT_FALSE(rules.candidates("thinker.model.layers.0.q_proj").front().plain);
  EXPECT_TRUE(rules.candidates("thinker.mymodel.layers.0.q_proj").front().plain);
}

TEST(LayerRules, WhatFitsNoTensorIsReported) {
  MemoryCheckpoint checkpoint{json::object()};
  for (const char* name : {"model.layers.0.mlp.gate.weight", "lm_head.weight"})
    checkpoint.add(name, DType::kF32, {1}, std::vector<float>{1});
  LayerRules rules;
  rules.blocks = {"model.layers", "visual.blocks"};
  rules.rules = {rule(NamePattern::name("lm_head"), 8), rule(NamePattern::name("model.layers.1.mlp.gate"), 8),
                 rule(NamePattern::search("model\\.layers\\.0\\.mlp\\.gate", "x"), 8),
                 rule(NamePattern::search("layers\\\\.0", "x"), 8)};
  EXPECT_EQ(rules.unmatched(checkpoint), (Names{"model.layers.1.mlp.gate", "layers\\\\.0", "visual.blocks"}));
}

TEST(LayerRules, SchemesInheritWhatTheyDoNotSay) {
  const IntScheme base{.bits = 4, .group_size = 64, .sym = false};
  const IntScheme same = parse_int_scheme(json::object(), base, "x");
  EXPECT_EQ(same.bits, 4);
  EXPECT_EQ(same.group_size, 64);
  EXPECT_FALSE(same.sym);
  EXPECT_EQ(parse_int_scheme({{"bits", 8}, {"group_size", nullptr}}, base, "x").group_size, 64);
  EXPECT_TRUE(parse_int_scheme({{"bits", 16}, {"data_type", "float"}}, base, "x").plain);
}

TEST(LayerRules, IllegalSchemesAreRefused) {
  const auto refused = [](json body) { return error_of([&] { parse_int_scheme(body, {}, "config.json"); }); };
  EXPECT_EQ(refused({{"bits", 9}}), "config.json: 9 bits; integer layers have 2 to 8");
  EXPECT_EQ(refused({{"bits", -4}}), "config.json: -4 bits; integer layers have 2 to 8");
  EXPECT_EQ(refused({{"bits", "4"}}), "config.json: key 'bits' has the wrong type: \"4\"");
  EXPECT_EQ(refused({{"bits", true}}), "config.json: 1 bits; integer layers have 2 to 8");
  EXPECT_EQ(refused({{"group_size", 0}}), "config.json: group_size 0; expected -1 or a positive number");
  EXPECT_EQ(refused({{"group_size", int64_t{1} << 40}}),
            "config.json: group_size 1099511627776; expected -1 or a positive number");
  EXPECT_EQ(refused({{"group_size", {128, 128}}}),
            "config.json: group_size [128,128]; integer layers have one number");
  EXPECT_EQ(refused({{"data_type", "mx_fp"}}),
            "config.json: data_type 'mx_fp' is not supported; only 'int' is");
  EXPECT_EQ(refused("W4A16"), "config.json: settings must be an object");
}

TEST(LayerRules, NameListsComeInThreeSpellings) {
  EXPECT_EQ(parse_name_list("a.b, c ,", "x"), (Names{"a.b", "c"}));
  EXPECT_EQ(parse_name_list({"a.b", "c"}, "x"), (Names{"a.b", "c"}));
  EXPECT_EQ(parse_name_list(json::parse(R"([["a.b", "c"], ["d"]])"), "x"), (Names{"a.b", "c", "d"}));
  EXPECT_EQ(parse_name_list(nullptr, "x"), Names{});
  EXPECT_EQ(error_of([] {
              parse_name_list({1, 2}, "key 'k'");
            }),
            "key 'k' must be a name or a list of names");
}

}  // namespace
}  // namespace quaver
