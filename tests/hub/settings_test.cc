// The environment variables of the hub, in the order in which they count.
#include "hub/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "checkpoint/scratch_folder.h"

namespace quaver::hub {
namespace {

using testing::catch_error;

class HubSettings : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"HF_HOME", "HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
          "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_HUB_DOWNLOAD_TIMEOUT"})
      ::unsetenv(name);
    set("HOME", folder.path().string());
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  testing::ScratchFolder folder;
};

TEST_F(HubSettings, Defaults) {
  Settings settings = settings_from_environment();
  EXPECT_EQ(settings.endpoint, "https://huggingface.co");
  EXPECT_EQ(settings.cache, folder.path() / ".cache/huggingface/hub");
  EXPECT_EQ(settings.token, "");
  EXPECT_FALSE(settings.offline);
}

TEST_F(HubSettings, TheCacheFolder) {
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(settings_from_environment().cache, "/xdg/huggingface/hub");
  set("HF_HOME", "~/models");
  EXPECT_EQ(settings_from_environment().cache, folder.path() / "models/hub");
  set("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(settings_from_environment().cache, "/old");
  set("HF_HUB_CACHE", "/cache");
  EXPECT_EQ(settings_from_environment().cache, "/cache");
}

TEST_F(HubSettings, TheToken) {
  set("HF_HOME", folder.path().string());
  folder.write("token", "from-login\n");
  EXPECT_EQ(settings_from_environment().token, "from-login");
  set("HF_TOKEN_PATH", folder.write("other", " from-path ").string());
  EXPECT_EQ(settings_from_environment().token, "from-path");
  set("HF_TOKEN", "from-variable");
  EXPECT_EQ(settings_from_environment().token, "from-variable");
  set("HF_TOKEN", "secret\r\nX-Evil: 1");
  auto caught = catch_error([] { settings_from_environment(); });
  EXPECT_EQ(caught.kind, ErrorKind::kInvalidInput);
  EXPECT_NE(caught.message.find("HF_TOKEN"), std::string::npos);
  EXPECT_EQ(caught.message.find("secret"), std::string::npos);
}

TEST_F(HubSettings, EndpointAndOffline) {
  set("HF_ENDPOINT", "http://localhost:8080//");
  EXPECT_EQ(settings_from_environment().endpoint, "http://localhost:8080");
  set("HF_ENDPOINT", "localhost:8080");
  EXPECT_EQ(catch_error([] { settings_from_environment(); }).kind, ErrorKind::kInvalidInput);
  set("HF_ENDPOINT", "");
  for (const char* yes : {"1", "on", "Yes", "TRUE"}) {
    set("HF_HUB_OFFLINE", yes);
    EXPECT_TRUE(settings_from_environment().offline) << yes;
  }
  set("HF_HUB_OFFLINE", "0");
  EXPECT_FALSE(settings_from_environment().offline);
  set("TRANSFORMERS_OFFLINE", "1");
  EXPECT_TRUE(settings_from_environment().offline);
}

TEST_F(HubSettings, TheTimeout) {
  set("HF_HUB_DOWNLOAD_TIMEOUT", "3");
  EXPECT_EQ(settings_from_environment().stall_seconds, 3);
  for (const char* bad : {"0", "-1", "soon"}) {
    set("HF_HUB_DOWNLOAD_TIMEOUT", bad);
    EXPECT_EQ(catch_error([] { settings_from_environment(); }).kind, ErrorKind::kInvalidInput) << bad;
  }
}

}  // namespace
}  // namespace quaver::hub
