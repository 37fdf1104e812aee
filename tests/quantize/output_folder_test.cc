// Results appear whole or not at all; interrupted runs resume only with the same arguments (F058 for the
// files copied).
#include "quantize/output_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/mapped_file.h"
#include "base/remove_tree.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

class OutputFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    remove_tree(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { remove_tree(root_); }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string error_of(const json& fingerprint, bool resume, bool overwrite) {
    try {
      OutputFolder folder(root_ / "out", fingerprint, resume, overwrite);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  fs::path root_;
  json job_ = {{"iters", 200}};
};

TEST_F(OutputFolderTest, WhatIsThereIsNoticedBeforehand) {
  const auto refused = [&](bool resume, bool overwrite) {
    try {
      require_free_output(root_ / "out/", resume, overwrite);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(false, false), "");
  write(root_ / "out.partial" / "job.json", "{}");
  EXPECT_NE(refused(false, false).find("out.partial holds an interrupted run"), std::string::npos);
  EXPECT_EQ(refused(true, false), "");
  write(root_ / "out" / "a.txt", "old");
  EXPECT_NE(refused(true, false).find("out exists and is not empty"), std::string::npos);
  EXPECT_EQ(refused(false, true), "");
}

TEST_F(OutputFolderTest, MadeFoldersStayForWhatLiesInThem) {
  fs::create_directories(root_ / "there");
  { MadeFolders empty(root_ / "there" / "a" / "b/"), twice(root_ / "there" / "a"); }
  EXPECT_TRUE(fs::is_empty(root_ / "there"));
  {
    MadeFolders full(root_ / "there" / "a" / "b");
    EXPECT_TRUE(fs::is_directory(root_ / "there" / "a" / "b"));
    write(root_ / "there" / "a" / "c.txt", "stays");
  }
  EXPECT_FALSE(fs::exists(root_ / "there" / "a" / "b"));
  EXPECT_TRUE(fs::exists(root_ / "there" / "a" / "c.txt"));
  { MadeFolders nothing(root_ / "there"); }
  EXPECT_TRUE(fs::exists(root_ / "there"));
}

TEST_F(OutputFolderTest, TheTargetAppearsWhenPublished) {
  OutputFolder folder((root_ / "out").string() + "/", job_, false, false);
  write(folder.result() / "a.txt", "new");
  EXPECT_FALSE(fs::exists(root_ / "out"));
  folder.publish();
  EXPECT_EQ(read_text_file(root_ / "out" / "a.txt", 10), "new");
  EXPECT_FALSE(fs::exists(root_ / "out.partial"));
}

TEST_F(OutputFolderTest, AnOccupiedTargetIsLeftAlone) {
  write(root_ / "out" / "mine.txt", "precious");
  EXPECT_NE(error_of(job_, false, false).find("exists and is not empty"), std::string::npos);
  OutputFolder folder(root_ / "out", job_, false, true);
  EXPECT_TRUE(fs::exists(root_ / "out" / "mine.txt"));
  write(folder.result() / "a.txt", "new");
  folder.publish();
  EXPECT_FALSE(fs::exists(root_ / "out" / "mine.txt"));
}

TEST_F(OutputFolderTest, AnInterruptedRunWantsAWord) {
  { OutputFolder folder(root_ / "out", job_, false, false); }
  write(root_ / "out.partial" / "staged" / "block", "x");
  EXPECT_NE(error_of(job_, false, false).find("--resume continues it"), std::string::npos);
  EXPECT_NE(error_of({{"iters", 50}}, true, false).find("begun with another iters (200, now 50)"),
            std::string::npos);
  EXPECT_EQ(error_of(job_, true, false), "");
  EXPECT_TRUE(fs::exists(root_ / "out.partial" / "staged" / "block"));
  EXPECT_EQ(error_of({{"iters", 50}}, false, true), "");
  EXPECT_FALSE(fs::exists(root_ / "out.partial" / "staged" / "block"));
}

TEST_F(OutputFolderTest, F058EverythingButWeightsAndCodeTravels) {
  for (const char* name : {"tokenizer.json", "chat_template.jinja", "generation_config.json", "spk_dict.npz",
                           "LICENSE", "scheduler/scheduler_config.json", "unknown.json"})
    write(root_ / "in" / name, std::string("bytes of ") + name);
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "config.json", "modeling.py", ".git/config"})
    write(root_ / "in" / name, "x");
  EXPECT_EQ(copy_sidecars(root_ / "in", root_ / "copy"), std::vector<std::string>{"modeling.py"});
  EXPECT_EQ(read_text_file(root_ / "copy" / "scheduler/scheduler_config.json", 100),
            "bytes of scheduler/scheduler_config.json");
  size_t copied = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_ / "copy"))
    copied += entry.is_regular_file();
  EXPECT_EQ(copied, 7u);
}

}  // namespace
}  // namespace quaver::quantize
