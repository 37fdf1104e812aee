// Which addresses are public, by the registries' own examples and borders.
#include "hub/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

namespace quaver::hub {
namespace {

bool is_public(const std::string& text) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1)
    return is_public_address(reinterpret_cast<sockaddr&>(v4));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
  return is_public_address(reinterpret_cast<sockaddr&>(v6));
}

TEST(Address, KnowsWhatIsNotPublic) {
  for (const char* text : {"0.0.0.0",
                           "0.255.255.255",
                           "10.0.0.1",
                           "100.64.0.1",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.8",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.7",
                           "203.0.113.9",
                           "224.0.0.1",
                           "239.1.1.1",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.1.1.1",
                           "64:ff9b::a9fe:a9fe",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "2001::1",
                           "2001:1ff::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:a00:1::1",
                           "3fff:fff::1",
                           "100::1"})
    EXPECT_FALSE(is_public(text)) << text;
}

TEST(Address, KnowsWhatIsPublic) {
  for (const char* text :
       {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255",   "100.128.0.0",
        "126.255.255.255", "128.0.0.0",       "172.15.255.255",  "172.32.0.0",       "192.0.1.1",
        "198.17.255.255",  "198.20.0.0",      "223.255.255.255", "2606:4700::1111",  "2a00:1450::1",
        "2001:200::1",     "2002:101:101::1", "::ffff:8.8.8.8",  "64:ff9b::808:808", "3fff:1000::1"})
    EXPECT_TRUE(is_public(text)) << text;
}

TEST(Address, OtherFamiliesAreNotPublic) {
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(is_public_address(other));
}

}  // namespace
}  // namespace quaver::hub
