// The parts of a download that need no network: checksums, back-off, statuses, unfinished files, locks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "checkpoint/scratch_folder.h"
#include "hub/file_lock.h"
#include "hub/hasher.h"
#include "hub/incomplete_file.h"
#include "hub/retries.h"
#include "hub/status.h"

namespace quaver::hub {
namespace {

namespace fs = std::filesystem;
using testing::catch_error;
using testing::ScratchFolder;

constexpr char kShaOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kGitOfHello[] = "ce013625030ba8dba906f756967f9e9ca394464a";  // git hash-object of "hello\n"

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hash(std::string_view like, std::string_view text) {
  Hasher hasher(like, text.size());
  for (char c : text) hasher.update(bytes_of({&c, 1}));
  return hasher.finish();
}

TEST(HubHasher, AsShaAndGitDo) {
  EXPECT_EQ(hash(kShaOfAbc, "abc"), kShaOfAbc);
  EXPECT_EQ(hash(kGitOfHello, "hello\n"), kGitOfHello);
  EXPECT_EQ(hash(kGitOfHello, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_TRUE(is_checksum(kShaOfAbc));
  EXPECT_TRUE(is_checksum(kGitOfHello));
  for (const char* bad : {"", "abc", "../../../../../../../../../../../../x/y/z"})
    EXPECT_FALSE(is_checksum(bad));
}

TEST(Backoff, DoublesUpToALimitAndObeysTheServer) {
  EXPECT_EQ(delay_seconds(1, -1), 0.5);
  EXPECT_EQ(delay_seconds(2, -1), 1.0);
  EXPECT_EQ(delay_seconds(5, -1), 8.0);
  EXPECT_EQ(delay_seconds(40, -1), 8.0);
  EXPECT_EQ(delay_seconds(1, 30), 30.0);
  EXPECT_EQ(delay_seconds(3, 0), 2.0);
}

TEST(Backoff, RetryAfterIsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("120", 0), 120);
  EXPECT_EQ(parse_retry_after("0", 0), 0);
  EXPECT_EQ(parse_retry_after("-5", 0), -1);
  EXPECT_EQ(parse_retry_after("soon", 0), -1);
  EXPECT_EQ(parse_retry_after("", 0), -1);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", 1445412470), 10);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", 1445419999), 0);
}

TEST(Backoff, ARequestForTooLongAWaitEndsAtOnce) {
  Retries retries("org/name");
  auto caught = catch_error([&] { retries.wait_after(TransientError("busy", 3600)); });
  EXPECT_EQ(caught.kind, ErrorKind::kUnavailable);
  EXPECT_NE(caught.message.find("3600"), std::string::npos);
}

struct Status {
  int status;
  bool with_token;
  ErrorKind kind;
  const char* part;  // of the message
};

TEST(HubStatus, OneSentenceForEach) {
  RepoName repo = parse_repo_name("org/name@v2").value();
  for (const Status& row : {Status{401, false, ErrorKind::kNotFound, "set HF_TOKEN"},
                            Status{401, true, ErrorKind::kNotFound, "the token in HF_TOKEN"},
                            Status{403, false, ErrorKind::kNotFound, "then set HF_TOKEN"},
                            Status{403, true, ErrorKind::kNotFound, "the account that HF_TOKEN"},
                            Status{404, false, ErrorKind::kNotFound, "no model org/name with a revision v2"},
                            Status{418, false, ErrorKind::kUnavailable, "418"},
                            Status{429, false, ErrorKind::kUnavailable, "too many requests"},
                            Status{503, false, ErrorKind::kUnavailable, "503"}}) {
    HttpReply reply{.status = row.status};
    auto caught = catch_error([&] { check_status(reply, {repo, "", "http://hub", row.with_token}); });
    EXPECT_EQ(caught.kind, row.kind) << row.status;
    EXPECT_NE(caught.message.find(row.part), std::string::npos) << caught.message;
    EXPECT_NE(caught.message.find("http://hub"), std::string::npos) << caught.message;
  }
}

TEST(HubStatus, TheHubsOwnWordsAreMadePrintable) {
  RepoName repo = parse_repo_name("org/name").value();
  HttpReply reply{.status = 403, .headers = {{"x-error-message", "ask \x1b[31mus"}}};
  auto caught = catch_error([&] { check_status(reply, {repo, "", "http://hub", false}); });
  EXPECT_NE(caught.message.find("\\x1b"), std::string::npos) << caught.message;
}

TEST(IncompleteDownload, IsContinuedWithItsChecksum) {
  ScratchFolder folder;
  fs::path blob = folder.path() / "blobs" / kShaOfAbc;
  { IncompleteFile(blob, kShaOfAbc, 3).append(bytes_of("a")); }
  EXPECT_EQ(read_text_file(blob.string() + ".incomplete", 10), "a");
  IncompleteFile file(blob, kShaOfAbc, 3);
  EXPECT_EQ(file.length(), 1u);
  file.append(bytes_of("bc"));
  EXPECT_EQ(file.checksum(), kShaOfAbc);
  file.commit();
  EXPECT_EQ(read_text_file(blob, 10), "abc");
  EXPECT_FALSE(fs::exists(blob.string() + ".incomplete"));
}

TEST(IncompleteDownload, TooLongAFileStartsOver) {
  ScratchFolder folder;
  folder.write(cat(kShaOfAbc, ".incomplete"), "abcd");
  IncompleteFile file(folder.path() / kShaOfAbc, kShaOfAbc, 3);
  EXPECT_EQ(file.length(), 0u);
  file.append(bytes_of("abx"));
  EXPECT_NE(file.checksum(), kShaOfAbc);
  file.restart();
  file.append(bytes_of("abc"));
  EXPECT_EQ(file.checksum(), kShaOfAbc);
}

TEST(HubLock, KeepsAnotherProcessOutAndEndsWithItsHolder) {
  ScratchFolder folder;
  fs::path path = folder.path() / ".locks" / "x.lock", mark = folder.path() / "mark";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    FileLock lock(path, "test");
    char byte = 1;
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::usleep(300000);
    folder.write("mark", "done");
    ::_exit(0);  // without unlocking
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  FileLock lock(path, "test");
  EXPECT_TRUE(fs::exists(mark));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace quaver::hub
