// F067: pickles run no code. Where safetensors stand beside they are ignored with a log line; alone,
// PyTorch's usual files are read for their tensors and refused for anything else, and other pickles are not
// touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/scratch_folder.h"
#include "checkpoint/torch_builder.h"

namespace quaver {
namespace {

using testing::catch_error;
using ::testing::HasSubstr;
using testing::one_tensor;
using testing::ScratchFolder;

TEST(F067, AFolderWithOtherPicklesAloneIsRefusedWithAdvice) {
  for (const char* name :
       {"adapter.bin", "diffusion_pytorch_model.pth", "model.pt", "v1.ckpt", "weights.pkl"}) {
    ScratchFolder folder;
    folder.write("config.json", "{}");
    folder.write(name, testing::one_torch_tensor("a"));
    auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
    EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(caught.message, HasSubstr(name));
    EXPECT_THAT(caught.message, HasSubstr("convert them to safetensors"));
  }
}

TEST(F067, ACommandInAPickleIsNamedAndNotRun) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  const std::string call =
      testing::pickle::call(testing::pickle::name("os", "system"), {testing::pickle::text("exit")});
  folder.write("pytorch_model.bin", testing::torch_file(cat("\x80\x02", call, ".")));
  auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
  EXPECT_EQ(caught.message,
            (folder.path() / "pytorch_model.bin").string() +
                ": names 'os.system'; only tensors are read from a pickle, and nothing in it is run");
}

TEST(F067, AnIndexOfSafetensorsNamesNoPickles) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("pytorch_model-00001-of-00001.bin", testing::one_torch_tensor("a"));
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})");
  auto caught = catch_error([&] { open_hugging_face_folder(folder.path()); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(caught.message, HasSubstr("expected files that end in '.safetensors'"));
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
  EXPECT_EQ(caught.kind, ErrorKind::kBadFile);
  EXPECT_THAT(caught.message, HasSubstr("is a file, expected a model folder"));
}

TEST(F067, APickleUnderASafetensorsNameIsNoSafetensors) {
  ScratchFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", "\x80\x02}q\x01(X\x01");
  EXPECT_EQ(catch_error([&] { open_hugging_face_folder(folder.path()); }).kind, ErrorKind::kBadFile);
}

}  // namespace
}  // namespace quaver
