// Which scheme each layer gets: presets, overrides, ignore lists, shape rules, and what is refused.
#include "quantize/scheme.h"

#include <gtest/gtest.h>

namespace quaver::quantize {
namespace {

std::vector<LayerShape> layers() {
  std::vector<LayerShape> all;
  for (int i : {0, 1, 10})
    for (const char* name : {"self_attn.q_proj", "mlp.down_proj"})
      all.push_back({cat("model.layers.", i, ".", name), 64, 128});
  all.push_back({"model.layers.10.mlp.odd", 65, 128});
  return all;
}

Scheme scheme_of(const LayerRules& rules, const std::string& name) {
  for (const LayerDecision& d : decide_layers(rules, layers()))
    if (d.name == name) return d.scheme;
  throw std::runtime_error("no such layer");
}

std::string error_of(const LayerRules& rules) {
  try {
    decide_layers(rules, layers());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Scheme, PresetsIgnoreCase) {
  EXPECT_EQ(scheme_from_name("w2a16g64"), (Scheme{2, 64, true}));
  EXPECT_THROW(scheme_from_name("W5Z"), Error);
}

TEST(Scheme, AnOverrideKeepsTheFieldsItDoesNotName) {
  LayerRules rules{.base = {4, 32, false}, .layer_config = {{"down_proj", {{"bits", 8}}}}};
  EXPECT_EQ(scheme_of(rules, "model.layers.1.mlp.down_proj"), (Scheme{8, 32, false}));
  EXPECT_EQ(scheme_of(rules, "model.layers.1.self_attn.q_proj"), (Scheme{4, 32, false}));
}

TEST(Scheme, AnExactNameBeatsAPatternWhereverItStands) {
  std::vector<std::pair<std::string, json>> config = {{"model.layers.0.mlp.down_proj", {{"bits", 8}}},
                                                      {R"(layers\.\d+\.mlp)", {{"bits", 2}}}};
  EXPECT_EQ(scheme_of({.layer_config = config}, "model.layers.0.mlp.down_proj").bits, 8);
  EXPECT_EQ(scheme_of({.layer_config = config}, "model.layers.1.mlp.down_proj").bits, 2);
}

TEST(Scheme, IgnoredLayerOneIsNotLayerTen) {
  LayerRules rules{.ignore_layers = {"layers.1"}};
  EXPECT_EQ(scheme_of(rules, "model.layers.1.mlp.down_proj").bits, 16);
  EXPECT_EQ(scheme_of(rules, "model.layers.10.mlp.down_proj").bits, 4);
}

TEST(Scheme, ShapesThatNoKernelTakesStayAtSixteenBits) {
  EXPECT_EQ(scheme_of({}, "model.layers.10.mlp.odd").bits, 16);
}

// Engines hold q, k and v in one tensor.
TEST(SchemeF011, FusedLayersGetOneSchemeWhenAsked) {
  std::vector<LayerShape> fused = {{"0.q", 64, 128, "0.qkv"},
                                   {"0.k", 64, 128, "0.qkv"},
                                   {"0.o", 64, 128, "0.o"},
                                   {"1.q", 64, 128, "1.qkv"}};
  LayerRules rules{.layer_config = {{"0.k", {{"bits", 8}, {"group_size", 32}}}}};
  std::vector<LayerDecision> decisions = decide_layers(rules, fused);
  EXPECT_EQ(decisions[0].scheme.bits, 4);
  EXPECT_EQ(decisions[1].scheme.bits, 8);
  rules.align_fused = true;
  decisions = decide_layers(rules, fused);
  EXPECT_EQ(decisions[0].scheme, (Scheme{8, 32, true}));
  EXPECT_EQ(decisions[0].reason, "as 0.k, with which it is fused");
  EXPECT_EQ(decisions[1].scheme, (Scheme{8, 32, true}));
  EXPECT_EQ(decisions[2].scheme.bits, 4);
  EXPECT_EQ(decisions[3].scheme.bits, 4);
}

TEST(SchemeF054, IllegalAndUnmatchedRulesAreErrors) {
  EXPECT_NE(error_of({.layer_config = {{"nothing", {{"bits", 8}}}}}).find("matches no layer"),
            std::string::npos);
  EXPECT_NE(error_of({.layer_config = {{"mlp", {{"bits", 5}}}}}).find("got 5"), std::string::npos);
  EXPECT_NE(error_of({.layer_config = {{"mlp", {{"bits", "4"}}}}}).find("whole number"), std::string::npos);
  EXPECT_NE(error_of({.layer_config = {{"mlp", {{"group_size", 0}}}}}).find("group_size"), std::string::npos);
  EXPECT_NE(error_of({.layer_config = {{"mlp(", {{"bits", 4}}}}}).find("not a regular expression"),
            std::string::npos);
  EXPECT_NE(error_of({.layer_config = {{"mlp", {{"bit", 4}}}}}).find("unknown key 'bit'"), std::string::npos);
  EXPECT_NE(error_of({.ignore_layers = {"nothing"}}).find("matches no layer"), std::string::npos);
}

}  // namespace
}  // namespace quaver::quantize
