// Repository ids, revisions, addresses: what is taken and what is refused before anything is asked.
#include <gtest/gtest.h>

#include "checkpoint/scratch_folder.h"
#include "hub/http.h"
#include "hub/repo_id.h"

namespace quaver::hub {
namespace {

using testing::catch_error;

TEST(RepoName, PartsOfAName) {
  RepoName plain = parse_repo_name("org/Name-1.5_x").value();
  EXPECT_EQ(plain.id, "org/Name-1.5_x");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.file, "");
  RepoName all = parse_repo_name("org/name@refs/pr/3:Q4/model.gguf").value();
  EXPECT_EQ(all.id, "org/name");
  EXPECT_EQ(all.revision, "refs/pr/3");
  EXPECT_EQ(all.file, "Q4/model.gguf");
  EXPECT_EQ(parse_repo_name("gpt2").value().id, "gpt2");
}

TEST(RepoName, WhatTheHubDoesNotAllow) {
  for (const char* bad : {"",       "/",        "a/",     "/a",   "./a",   "../a",       "a/..", "a/b/c",
                          "a--b/c", "a/b.git",  "-a/b",   "a/b-", "a b/c", "a/b:",       "a/b@", "a/b@../x",
                          "a/b@/x", "a/b@x//y", "a/b@.x", "~/a",  "a\\b",  "https://x/y"})
    EXPECT_FALSE(parse_repo_name(bad)) << bad;
  EXPECT_TRUE(parse_repo_name(std::string(47, 'a') + "/" + std::string(48, 'b')));
  EXPECT_FALSE(parse_repo_name(std::string(48, 'a') + "/" + std::string(48, 'b')));
}

TEST(RepoName, Commits) {
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789abcdef0123456789abcdef0123456"));
  EXPECT_FALSE(is_commit("../3456789abcdef0123456789abcdef01234567"));
}

TEST(Address, OriginsAreComparable) {
  EXPECT_EQ(origin_of("https://Hub.example/a?b"), "https://hub.example:443");
  EXPECT_EQ(origin_of("http://hub.example:8080"), "http://hub.example:8080");
  EXPECT_EQ(origin_of("https://user@hub.example:443/"), origin_of("https://hub.example"));
  EXPECT_NE(origin_of("http://hub.example"), origin_of("https://hub.example"));
  for (const char* bad : {"file:///etc/passwd", "ftp://x/y", "no address", ""})
    EXPECT_EQ(catch_error([&] { origin_of(bad); }).kind, ErrorKind::kBadFile) << bad;
}

TEST(Address, Escaping) {
  EXPECT_EQ(url_escape("a b/c#d?e%\xc3\xa9", true), "a%20b/c%23d%3Fe%25%C3%A9");
  EXPECT_EQ(url_escape("refs/pr/3", false), "refs%2Fpr%2F3");
}

}  // namespace
}  // namespace quaver::hub
