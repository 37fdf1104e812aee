// F067: pickle weights are never opened; refused with advice, or ignored with a log line where safetensors
// stand beside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/scratch_folder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::one_tensor;
using testing::ScratchFolder;

TEST(F067, AFolderWithPickleAloneIsRefusedWithAdvice) {
  for (const char* name :
       {"pytorch_model.bin", "diffusion_pytorch_model.pth", "model.pt", "v1.ckpt", "weights.pkl"}) {
    ScratchFolder folder;
    folder.write("config.json", "{}");
    folder.write(name,
                 "\x80\x02"
                 "cos\nsystem\n");
    auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
    EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(caught.message, HasSubstr(name));
    EXPECT_THAT(caught.message, HasSubstr("convert them to safetensors"));
  }
}

TEST(F067, AnIndexOfPickleShardsIsRefused) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("pytorch_model-00001-of-00001.bin", "x");
  folder.write("pytorch_model.bin.index.json",
               R"({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})");
  EXPECT_EQ(catch_error([&] { open_hugging_face_folder(folder.path()); }).kind, ErrorKind::kUnsupported);
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})");
  auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(caught.message, HasSubstr("names the pickle file"));
}

TEST(F067, PickleBesideSafetensorsIsIgnoredWithALogLine) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("pytorch_model.bin", "x");
  folder.write("model.safetensors", one_tensor("a"));
  ::testing::internal::CaptureStderr();
  auto checkpoint = open_hugging_face_folder(folder.path());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ignoring pickle files (pytorch_model.bin)"));
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
}

TEST(F067, APickleFileInPlaceOfAFolderIsRefused) {
  ScratchFolder folder;
  auto path = folder.write("vae.pth", "x");
  auto caught = catch_error([&] { open_hugging_face_folder(path); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(caught.message, HasSubstr("is a pickle file"));
}

TEST(F067, APickleUnderASafetensorsNameIsNoSafetensors) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", "\x80\x02}q\x01(X\x01");
  EXPECT_EQ(catch_error([&] { open_hugging_face_folder(folder.path()); }).kind, ErrorKind::kBadFile);
}

}  // namespace
}  // namespace quaver
