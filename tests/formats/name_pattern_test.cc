// Names, components and expressions: what fits, how well, and expressions that are malformed or run away.
#include "formats/name_pattern.h"

#include <chrono>

#include "format_checks.h"

namespace quaver {
namespace {

constexpr const char* kLayer = "model.layers.1.mlp.gate_proj";

TEST(NamePattern, NamesFitExactlyOrAsWholeComponents) {
  EXPECT_EQ(NamePattern::name(kLayer).fit(kLayer), NamePattern::kExact);
  EXPECT_EQ(NamePattern::name("gate_proj").fit(kLayer), NamePattern::kSuffix);
  EXPECT_EQ(NamePattern::name("layers.1").fit(kLayer), NamePattern::kInside);
  for (const char* key : {"layers.11", "proj", "gate", "model.layers.1.mlp.gate_proj.x", "1.mlp.gate", ""})
    EXPECT_EQ(NamePattern::name(key).fit(kLayer), NamePattern::kNone) << key;
}

TEST(NamePattern, ComponentsNeverFitPartOfAWord) {
  const NamePattern visual = NamePattern::components("visual");
  EXPECT_EQ(visual.fit("visual.blocks.0.attn.qkv"), NamePattern::kInside);
  EXPECT_EQ(visual.fit("model.visual"), NamePattern::kInside);
  EXPECT_EQ(visual.fit("model.layers.0.visualize_proj"), NamePattern::kNone);
  EXPECT_EQ(NamePattern::components("lm_head").fit("lm_head"), NamePattern::kExact);
}

TEST(NamePattern, ExpressionsSearchOrMatchFromTheStart) {
  EXPECT_EQ(NamePattern::search("layers\\.1\\.", "x").fit(kLayer), NamePattern::kPattern);
  EXPECT_EQ(NamePattern::match_start("layers\\.1\\.", "x").fit(kLayer), NamePattern::kNone);
  EXPECT_EQ(NamePattern::match_start(".*layers\\.1\\..*", "x").fit(kLayer), NamePattern::kPattern);
  EXPECT_EQ(NamePattern::search("(?P<kind>gate|up)_proj$", "x").fit(kLayer), NamePattern::kPattern);
  EXPECT_EQ(NamePattern::search("layers\\\\.1", "x").fit(kLayer), NamePattern::kNone);
}

TEST(NamePattern, ADotAloneMakesNoExpression) {
  EXPECT_FALSE(NamePattern::looks_like_expression("model.layers.0"));
  for (const char* key : {".*gate", "a+", "q|k", "[qk]_proj", "a{2}", "^a", "a$", "a?", "(a)", "a\\.b"})
    EXPECT_TRUE(NamePattern::looks_like_expression(key)) << key;
}

TEST(NamePattern, MalformedExpressionIsNamed) {
  EXPECT_EQ(error_of([] { NamePattern::search("layers.(", "config.json"); }),
            "config.json: 'layers.(' is not a valid regular expression at character 8");
}

TEST(NamePattern, RunawayExpressionEndsSoonWithAnError) {
  const NamePattern bomb = NamePattern::search("(a+)+$", "config.json");
  const auto start = std::chrono::steady_clock::now();
  const std::string message = error_of([&] { bomb.fit(std::string(60, 'a') + "b"); });
  EXPECT_NE(message.find("config.json: the expression '(a+)+$' takes too long"), std::string::npos)
      << message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(NamePattern, MatchingNeverOverflowsTheStack) {
  const NamePattern nested = NamePattern::search("^(a|b)*$", "x");
  EXPECT_EQ(nested.fit(std::string(2000, 'a')), NamePattern::kPattern);
  EXPECT_NE(error_of([&] { nested.fit(std::string(1000000, 'a')); }), "");
}

TEST(NamePattern, GlobsFitWholeNames) {
  const NamePattern glob = NamePattern::glob("model.layers.*.mlp.gat?");
  EXPECT_EQ(glob.fit("model.layers.17.mlp.gate"), NamePattern::kPattern);
  EXPECT_EQ(glob.fit("model.layers.17.mlp.gate_proj"), NamePattern::kNone);
  EXPECT_EQ(glob.fit("x.model.layers.17.mlp.gate"), NamePattern::kNone);
  EXPECT_EQ(NamePattern::glob("*k_proj").fit("a.b.k_proj"), NamePattern::kPattern);
  EXPECT_EQ(NamePattern::glob("a.(b)[c]").fit("a.(b)[c]"), NamePattern::kPattern);
  EXPECT_EQ(NamePattern::glob("a.b").fit("aXb"), NamePattern::kNone);
  EXPECT_EQ(glob.key(), "model.layers.*.mlp.gat?");
}

}  // namespace
}  // namespace quaver
