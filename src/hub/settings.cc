#include "hub/settings.h"

#include <algorithm>
#include <cctype>

#include "base/env.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/printable.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTokenBytes = 4096;

bool is_true(const char* name) {
  std::string value = env_string(name).value_or("");
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

fs::path home_folder() {
  auto home = env_string("HOME");
  require(home.has_value(), ErrorKind::kInvalidInput,
          "HOME is not set; set HF_HOME to the folder that holds the cache of models");
  return *home;
}

// A shell expands "~" in many places, a service file in none.
fs::path with_home(const std::string& path) {
  if (path == "~") return home_folder();
  return path.starts_with("~/") ? home_folder() / path.substr(2) : fs::path(path);
}

fs::path hub_home() {
  if (auto home = env_string("HF_HOME")) return with_home(*home);
  if (auto cache = env_string("XDG_CACHE_HOME")) return with_home(*cache) / "huggingface";
  return home_folder() / ".cache" / "huggingface";
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (auto cache = env_string(name)) return with_home(*cache);
  return hub_home() / "hub";
}

std::string find_token() {
  if (auto token = env_string("HF_TOKEN")) return checked_token(*token, "HF_TOKEN");
  auto named = env_string("HF_TOKEN_PATH");
  fs::path file = named ? with_home(*named) : hub_home() / "token";
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return "";
  return checked_token(read_text_file(file, kMaxTokenBytes), file.string());
}

std::string find_endpoint() {
  std::string endpoint = env_string("HF_ENDPOINT").value_or("https://huggingface.co");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  require(endpoint.starts_with("https://") || endpoint.starts_with("http://"), ErrorKind::kInvalidInput,
          "HF_ENDPOINT must begin with https:// or http://, got ", printable(endpoint));
  return endpoint;
}

}  // namespace

std::string checked_token(std::string_view token, std::string_view what) {
  auto space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!token.empty() && space(token.front())) token.remove_prefix(1);
  while (!token.empty() && space(token.back())) token.remove_suffix(1);
  require(std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; }),
          ErrorKind::kInvalidInput, what, ": the token holds a character that no token has");
  return std::string(token);
}

Settings settings_from_environment() {
  int64_t stall = env_int("HF_HUB_DOWNLOAD_TIMEOUT").value_or(Settings{}.stall_seconds);
  require(stall >= 1 && stall <= 86400, ErrorKind::kInvalidInput,
          "HF_HUB_DOWNLOAD_TIMEOUT must be from 1 to 86400 seconds, got ", stall);
  return {.endpoint = find_endpoint(),
          .cache = cache_folder(),
          .token = find_token(),
          .offline = is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
          .stall_seconds = static_cast<int>(stall)};
}

}  // namespace quaver::hub
