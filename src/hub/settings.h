// Where the hub is, where its cache lies and who asks: the HF_* environment variables.
#pragma once

#include <filesystem>
#include <string>

namespace quaver::hub {

struct Settings {
  std::string endpoint;         // HF_ENDPOINT, else https://huggingface.co; no slash at the end
  std::filesystem::path cache;  // HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub
  std::string token;            // HF_TOKEN, else the file HF_TOKEN_PATH, else $HF_HOME/token; may be empty
  bool offline = false;         // HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, on, yes or true
  int stall_seconds = 10;       // HF_HUB_DOWNLOAD_TIMEOUT: silence after which a connection counts as broken
};

// Error(kInvalidInput) names the variable at fault.
Settings settings_from_environment();

// A token goes into a header: surrounding white space is dropped; Error(kInvalidInput) beginning with `what`
// when other characters than printable ASCII remain. The message does not show the token.
std::string checked_token(std::string_view token, std::string_view what);

}  // namespace quaver::hub
