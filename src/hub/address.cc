#include "hub/address.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace quaver::hub {
namespace {

struct Block {
  uint32_t address;
  int bits;
};
constexpr Block kSpecialV4[] = {
    {0x00000000, 8},   // this network
    {0x0a000000, 8},   // private
    {0x64400000, 10},  // shared by carriers
    {0x7f000000, 8},   // loopback
    {0xa9fe0000, 16},  // link-local, metadata of clouds
    {0xac100000, 12},  // private
    {0xc0000000, 24},  // protocol assignments
    {0xc0000200, 24},  // documentation
    {0xc0586300, 24},  // 6to4 relays
    {0xc0a80000, 16},  // private
    {0xc6120000, 15},  // benchmarks
    {0xc6336400, 24},  // documentation
    {0xcb007100, 24},  // documentation
    {0xe0000000, 4},   // multicast
    {0xf0000000, 4},   // reserved, broadcast
};

bool is_public_v4(uint32_t address) {  // in the host's order
  return std::ranges::none_of(
      kSpecialV4, [&](const Block& block) { return (address ^ block.address) >> (32 - block.bits) == 0; });
}

uint32_t v4_at(std::span<const uint8_t, 16> bytes, size_t first) {
  return uint32_t{bytes[first]} << 24 | uint32_t{bytes[first + 1]} << 16 | uint32_t{bytes[first + 2]} << 8 |
         bytes[first + 3];
}

bool is_public_v6(std::span<const uint8_t, 16> bytes) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<uint8_t, 12> kTranslated = {0, 0x64, 0xff, 0x9b};
  const auto starts_with = [&](std::span<const uint8_t> prefix) {
    return std::equal(prefix.begin(), prefix.end(), bytes.begin());
  };
  if (starts_with(kMapped) || starts_with(kTranslated)) return is_public_v4(v4_at(bytes, 12));
  if ((bytes[0] & 0xe0) != 0x20) return false;  // global unicast is 2000::/3
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return is_public_v4(v4_at(bytes, 2));  // 6to4
  if (bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] < 2) return false;  // 2001::/23, protocols, Teredo
  if (starts_with(std::array<uint8_t, 4>{0x20, 0x01, 0x0d, 0xb8})) return false;  // documentation
  return !(bytes[0] == 0x3f && bytes[1] == 0xff && bytes[2] < 0x10);              // 3fff::/20, documentation
}

}  // namespace

bool is_public_address(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return is_public_v4(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  return is_public_v6(std::span<const uint8_t, 16>(v6.sin6_addr.s6_addr));
}

}  // namespace quaver::hub
