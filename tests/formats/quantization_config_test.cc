// Where the settings may stand, which method they name, and the order of their rules.
#include "formats/quantization_config.h"

#include <fstream>

#include "format_checks.h"
#include "formats/member_order.h"

namespace quaver {
namespace {

using Names = std::vector<std::string>;

std::string method_of(const Checkpoint& checkpoint) {
  const auto config = find_quantization_config(checkpoint);
  return config ? config->method : "";
}

TEST(QuantizationConfig, TopLevelComesFirst) {
  MemoryCheckpoint checkpoint(json{{"quantization_config", {{"quant_method", "GPTQ"}}},
                                   {"compression_config", {{"quant_method", "other"}}},
                                   {"text_config", {{"quantization_config", {{"quant_method", "third"}}}}}});
  EXPECT_EQ(method_of(checkpoint), "gptq");
  EXPECT_EQ(method_of(MemoryCheckpoint(json{{"compression_config", {{"quant_method", "other"}}}})), "other");
}

TEST(QuantizationConfig, SubConfigsAreSearched) {
  MemoryCheckpoint checkpoint(
      json{{"quantization_config", nullptr},
           {"thinker_config", {{"text_config", {{"quantization_config", {{"quant_method", "awq"}}}}}}}});
  const auto config = find_quantization_config(checkpoint);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->method, "awq");
  EXPECT_EQ(config->path, (Names{"thinker_config", "text_config", "quantization_config"}));
}

TEST(QuantizationConfig, FilesBesideTheConfigNameTheMethodByThemselves) {
  EXPECT_EQ(method_of(MemoryCheckpoint(json::object())), "");
  EXPECT_EQ(method_of(MemoryCheckpoint(json::object()).add_sidecar("quantize_config.json", {{"bits", 4}})),
            "gptq");
  EXPECT_EQ(method_of(MemoryCheckpoint(json::object()).add_sidecar("quant_config.json", {{"w_bit", 4}})),
            "awq");
  EXPECT_EQ(
      method_of(MemoryCheckpoint(json::object()).add_sidecar("quantize_config.json", {{"zero_point", true}})),
      "awq");
  EXPECT_EQ(
      method_of(MemoryCheckpoint(json::object()).add_sidecar("quantization_config.json", {{"bits", 4}})),
      "auto-round");
}

TEST(QuantizationConfig, SettingsThatAreNoneAreRefused) {
  EXPECT_EQ(error_of([] {
              find_quantization_config(MemoryCheckpoint(json{{"quantization_config", "W4A16"}}));
            }),
            "memory/config.json: the quantization settings must be an object");
  EXPECT_EQ(error_of([] {
              find_quantization_config(MemoryCheckpoint(json{{"quantization_config", {{"bits", 4}}}}));
            }),
            "memory/config.json: key 'quant_method' is missing from the quantization settings");
  EXPECT_EQ(
      error_of([] {
        find_quantization_config(MemoryCheckpoint(json{{"quantization_config", {{"quant_method", 4}}}}));
      }),
      "memory/config.json: key 'quant_method' has the wrong type: 4");
}

// Parsed objects sort their keys, so the order comes from the text.
TEST(QuantizationConfig, RulesKeepTheOrderOfTheFile) {
  const std::filesystem::path folder = testing::TempDir() + "/rule_order";
  std::filesystem::create_directories(folder);
  const std::string text = R"({"z": {"quantization_config": {"dynamic": {"wrong": 1, "order": 2}}},
    "quantization_config": {"quant_method": "gptq", "dynamic": {"+:z.*": {"bits": 8}, "-:a.*": {}, "+:m": {"bits": 3}}}})";
  std::ofstream(folder / "config.json") << text;
  MemoryCheckpoint checkpoint(json::parse(text));
  checkpoint.at_path(folder);
  const auto config = find_quantization_config(checkpoint);
  Names order;
  for (const auto& [key, body] : ordered_members(checkpoint, *config, "dynamic")) order.push_back(key);
  EXPECT_EQ(order, (Names{"+:z.*", "-:a.*", "+:m"}));
}

TEST(QuantizationConfig, RulesThatAreNoObjectAreRefused) {
  MemoryCheckpoint checkpoint(json{{"quantization_config", {{"quant_method", "gptq"}, {"dynamic", {1, 2}}}}});
  const auto config = find_quantization_config(checkpoint);
  EXPECT_EQ(error_of([&] { ordered_members(checkpoint, *config, "dynamic"); }),
            "memory/config.json: key 'dynamic' must be an object");
}

TEST(MemberOrder, FollowsThePathThroughObjectsOnly) {
  const std::string text =
      R"({"x": {"b": 1, "a": {"q": 1}, "c": [{"k": 1}]}, "a": {"x": {"no": 1}}, "y": [{"x": {"no": 1}}]})";
  EXPECT_EQ(member_order(text, {"x"}), (Names{"b", "a", "c"}));
  EXPECT_EQ(member_order(text, {"x", "a"}), (Names{"q"}));
  EXPECT_EQ(member_order(text, {}), (Names{"x", "a", "y"}));
  EXPECT_EQ(member_order(text, {"y", "x"}), Names{});
  EXPECT_EQ(member_order(text, {"missing"}), Names{});
}

}  // namespace
}  // namespace quaver
