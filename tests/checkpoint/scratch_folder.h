// A temporary folder that a test fills with files, and helpers that write safetensors by hand.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "base/remove_tree.h"

namespace quaver::testing {

// Removed with everything in it at the end of the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    static std::atomic<int> counter = 0;
    path_ = std::filesystem::temp_directory_path() / cat("quaver-test-", ::getpid(), "-", counter++);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    try {
      remove_tree(path_);
    } catch (const Error&) {  // a test may have taken it away or closed it
    }
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::filesystem::path target = path_ / name;
    std::filesystem::create_directories(target.parent_path());
    std::ofstream(target, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return target;
  }

 private:
  std::filesystem::path path_;
};

inline std::string little_endian(uint64_t value, int bytes = 8) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(i < 8 ? value >> (8 * i) : 0));
  return out;
}

// Length, header, data: as they stand in the file, right or wrong.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return cat(little_endian(header.size()), header, data);
}

// One F32 tensor [2] of that name.
inline std::string one_tensor(std::string_view name) {
  return safetensors_bytes(cat(R"({")", name, R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
                           "01234567");
}

// What `action` throws as an Error: its kind and message.
struct Caught {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // empty: nothing was thrown
};
template <class Action>
Caught catch_error(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {};
}

}  // namespace quaver::testing
