// Which network addresses belong to the public internet.
#pragma once

struct sockaddr;

namespace quaver::hub {

// False for loopback, private, link-local, shared, documentation, benchmark, multicast and reserved addresses
// of IPv4 and IPv6 (IANA's special-purpose registries, RFC 6890), also where IPv6 carries an IPv4 one.
bool is_public_address(const sockaddr& address);

}  // namespace quaver::hub
