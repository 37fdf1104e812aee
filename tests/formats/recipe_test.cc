// What a recipe says of single layers.
#include "formats/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace quaver {
namespace {

TEST(Recipe, LayersOutsideTheBlocks) {
  const Recipe recipe{
      .block_names = {"model.layers", "talker.layers"},
      .layers = {"lm_head", "model.layers.0.a", "model.layers_of_another.b", "talker.layers.3.a"}};
  EXPECT_EQ(layers_outside_blocks(recipe),
            (std::vector<std::string>{"lm_head", "model.layers_of_another.b"}));
}

TEST(Recipe, OwnFormsBeatTheSchemeOfAll) {
  Recipe recipe;
  EXPECT_EQ(form_of_layer(recipe, "a"), nullptr);
  recipe.form_overrides["a"].element = Element::kE2M1;
  EXPECT_EQ(form_of_layer(recipe, "a")->element, Element::kE2M1);
  EXPECT_EQ(form_of_layer(recipe, "b"), nullptr);
  recipe.scheme = WeightScheme{.element = Element::kE4M3FN};
  EXPECT_EQ(form_of_layer(recipe, "a")->element, Element::kE2M1);
  EXPECT_EQ(form_of_layer(recipe, "b")->element, Element::kE4M3FN);
}

}  // namespace
}  // namespace quaver
