// Folders go with all they hold; what links point to stays.
#include "base/remove_tree.h"

#include <gtest/gtest.h>

#include <fstream>

namespace quaver {
namespace {

namespace fs = std::filesystem;

TEST(RemoveTree, TakesEverythingBelowAndNothingBeside) {
  fs::path root = fs::path(::testing::TempDir()) / "remove_tree_test";
  fs::create_directories(root / "doomed" / "deep" / "er");
  fs::create_directories(root / "kept");
  std::ofstream(root / "doomed" / "deep" / "file") << "x";
  std::ofstream(root / "kept" / "file") << "x";
  fs::create_directory_symlink(root / "kept", root / "doomed" / "link");
  remove_tree(root / "doomed");
  EXPECT_FALSE(fs::exists(root / "doomed"));
  EXPECT_TRUE(fs::exists(root / "kept" / "file"));
  remove_tree(root / "kept" / "file");
  EXPECT_FALSE(fs::exists(root / "kept" / "file"));
  remove_tree(root);
  EXPECT_FALSE(fs::exists(root));
}

TEST(RemoveTree, WhatIsNotThereIsNoError) { EXPECT_NO_THROW(remove_tree("/nonexistent/quaver/path")); }

}  // namespace
}  // namespace quaver
