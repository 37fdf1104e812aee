// Staged parts: a kill at any moment leaves whole parts, and the final bytes do not tell.
#include "checkpoint/staged_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScratchFolder;

NamedTensor tensor(const std::string& name, std::vector<float> values) {
  return {name, {DType::kF32, {static_cast<int64_t>(values.size())}, Buffer::copy_of(values)}};
}

std::string export_bytes(const ScratchFolder& folder, const StagedTensors& staged) {
  auto written = write_safetensors(folder.path(), staged.tensors(),
                                   [&](const TensorInfo& info) { return staged.read(info.name); });
  return read_text_file(folder.path() / written.front(), 1 << 20);
}

void write_layer(StagedTensors& staged, int layer) {
  std::string part = cat("model.layers.", layer);
  std::vector<float> values(4096, static_cast<float>(layer));
  staged.write(part, {tensor(part + ".weight", values), tensor(part + ".bias", {1.0f})},
               {{"loss", cat(layer)}});
}

// A child process that the kernel kills in the middle of that layer's write.
void die_while_writing(const std::filesystem::path& parts, int fatal_layer) {
  pid_t child = ::fork();
  if (child == 0) {
    StagedTensors staged(parts);
    for (int layer = 0; layer < fatal_layer; ++layer) write_layer(staged, layer);
    rlimit no_core{0, 0}, short_file{1000, 1000};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &short_file);
    write_layer(staged, fatal_layer);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

TEST(StagedTensors, PartsSurviveReopening) {
  ScratchFolder folder;
  {
    StagedTensors staged(folder.path() / "parts");
    write_layer(staged, 0);
    write_layer(staged, 1);
  }
  folder.write("parts/model.layers.2.safetensors.partial", "half");
  StagedTensors again(folder.path() / "parts");
  EXPECT_THAT(again.parts(), ElementsAre("model.layers.0", "model.layers.1"));
  EXPECT_EQ(again.metadata("model.layers.1").at("loss"), "1");
  EXPECT_EQ(again.read("model.layers.1.weight").data.as<float>()[7], 1.0f);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "parts/model.layers.2.safetensors.partial"));
}

TEST(StagedTensors, KilledAnywhereTheFinalBytesAreTheSame) {
  ScratchFolder folder;
  StagedTensors whole(folder.path() / "whole");
  for (int layer = 0; layer < 20; ++layer) write_layer(whole, layer);
  std::string expected = export_bytes(folder, whole);

  for (int fatal_layer : {0, 7, 19}) {
    auto parts = folder.path() / cat("parts", fatal_layer);
    die_while_writing(parts, fatal_layer);
    EXPECT_TRUE(std::filesystem::exists(parts / cat("model.layers.", fatal_layer, ".safetensors.partial")));
    StagedTensors resumed(parts);
    EXPECT_EQ(resumed.parts().size(), static_cast<size_t>(fatal_layer));
    for (int layer = 0; layer < 20; ++layer)
      if (!resumed.has(cat("model.layers.", layer))) write_layer(resumed, layer);
    EXPECT_EQ(export_bytes(folder, resumed), expected) << fatal_layer;
  }
}

TEST(StagedTensors, RewritingAPartReplacesIt) {
  ScratchFolder folder;
  StagedTensors staged(folder.path());
  staged.write("p", {tensor("a", {1}), tensor("b", {1})});
  staged.write("p", {tensor("a", {2})});
  EXPECT_EQ(staged.tensors().size(), 1u);
  EXPECT_EQ(staged.read("a").data.as<float>()[0], 2.0f);
  EXPECT_THAT(catch_error([&] { staged.write("q", {tensor("a", {3})}); }).message,
              HasSubstr("'a' is staged already"));
  EXPECT_THAT(catch_error([&] { staged.read("b"); }).message, HasSubstr("no part has a tensor 'b'"));
}

TEST(StagedTensors, DamagedPartIsAnError) {
  ScratchFolder folder;
  folder.write("p.safetensors", "short");
  EXPECT_EQ(catch_error([&] { StagedTensors staged(folder.path()); }).kind, ErrorKind::kBadFile);
}

TEST(StagedTensors, PartNamesAreFileNames) {
  ScratchFolder folder;
  StagedTensors staged(folder.path());
  for (const char* name : {"", "../x", "a/b", ".hidden"})
    EXPECT_THAT(catch_error([&] { staged.write(name, {tensor("a", {1})}); }).message,
                HasSubstr("plain file name"));
}

TEST(StagedTensors, ClearRemovesTheFolder) {
  ScratchFolder folder;
  StagedTensors staged(folder.path() / "parts");
  write_layer(staged, 0);
  staged.clear();
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "parts"));
}

}  // namespace
}  // namespace quaver
