#include "hub/download.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "checkpoint/printable.h"
#include "hub/file_lock.h"
#include "hub/incomplete_file.h"
#include "hub/retries.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;

fs::path incomplete(const fs::path& blob) {
  fs::path path = blob;
  return path += ".incomplete";
}

// Nothing when the header is absent or no number.
std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 5-9/10" -> 5.
std::optional<uint64_t> range_start(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  return number(text.substr(0, text.find('-')));
}

class Download {
 public:
  Download(Client& client, const std::string& commit, const RepoFile& file, const fs::path& blob,
           const BytesListener& on_bytes)
      : client_(client),
        commit_(commit),
        file_(file),
        on_bytes_(on_bytes),
        what_(cat(client.repo().id, ", file ", printable(file.path))),
        size_(*file.size_bytes),
        part_(blob, file.checksum, size_) {}

  uint64_t run() {
    on_bytes_(part_.length());
    for (bool again = part_.length() > 0;; again = false) {
      fill();
      std::string checksum = part_.checksum();
      if (checksum == file_.checksum) break;
      if (!again) {
        part_.discard();
        fail(ErrorKind::kBadFile, what_, ": has the checksum ", checksum, ", expected ", file_.checksum);
      }
      log_warning(what_, ": the continued download has a wrong checksum; starting over");
      restart();
    }
    part_.commit();
    return received_;
  }

 private:
  void restart() {
    part_.restart();
    furthest_ = 0;
  }

  void fill() {
    Retries retries(what_);
    while (part_.length() < size_) try {
        attempt(retries);
      } catch (const TransientError& error) {
        retries.wait_after(error);
      }
  }

  void attempt(Retries& retries) {
    bool begun = false;
    auto take = [&](const HttpReply& reply, std::span<const std::byte> bytes) {
      if (!begun) begin(reply);
      begun = true;
      append(bytes);
      if (part_.length() > furthest_) retries.progressed();
      furthest_ = std::max(furthest_, part_.length());
    };
    HttpReply reply = client_.get(commit_, file_.path, part_.length(), take);
    if (!begun) begin(reply);
    if (part_.length() < size_)
      throw TransientError(cat("the connection ended after ", part_.length(), " of ", size_, " bytes"));
  }

  // Holds what a server announces against what the hub's list says.
  void begin(const HttpReply& reply) {
    if (reply.status == 200 && part_.length() > 0) part_.restart();  // it does not know ranges
    auto start = reply.status == 206 ? range_start(reply.header("content-range")) : 0;
    require(start == part_.length(), ErrorKind::kBadFile, what_, ": asked for the bytes from ",
            part_.length(), " on, got ", printable(reply.header("content-range")));
    auto announced = number(reply.header("content-length"));
    require(!announced || part_.length() + *announced == size_, ErrorKind::kBadFile, what_, ": has ",
            part_.length() + announced.value_or(0), " bytes, expected ", size_);
  }

  void append(std::span<const std::byte> bytes) {
    if (bytes.size() > size_ - part_.length()) {
      part_.discard();
      fail(ErrorKind::kBadFile, what_, ": has more than the expected ", size_, " bytes");
    }
    part_.append(bytes);
    received_ += bytes.size();
    on_bytes_(part_.length());
  }

  Client& client_;
  const std::string& commit_;
  const RepoFile& file_;
  const BytesListener& on_bytes_;
  std::string what_;
  uint64_t size_, received_ = 0;
  uint64_t furthest_ = 0;  // a server that ignores ranges comes past the same bytes again: no progress
  IncompleteFile part_;
};

}  // namespace

uint64_t download_file(Client& client, const RepoCache& cache, const std::string& commit,
                       const RepoFile& file, const BytesListener& on_bytes) {
  fs::path blob = cache.blob(file.checksum);
  auto complete = [&] {
    std::error_code none;
    bool there = fs::is_regular_file(blob, none) && fs::file_size(blob, none) == *file.size_bytes;
    if (there) on_bytes(*file.size_bytes);
    return there;
  };
  if (complete()) return 0;  // without a lock, since the cache may be read-only
  FileLock lock(cache.lock(file.checksum), cat(client.repo().id, ", file ", printable(file.path)));
  return complete() ? 0 : Download(client, commit, file, blob, on_bytes).run();
}

uint64_t bytes_in_cache(const RepoCache& cache, const RepoFile& file) {
  std::error_code error;
  for (const fs::path& path : {cache.blob(file.checksum), incomplete(cache.blob(file.checksum))}) {
    uint64_t size = fs::file_size(path, error);
    if (!error) return std::min(size, *file.size_bytes);
  }
  return 0;
}

}  // namespace quaver::hub
