// The Reply that answers one request of one connection.
#pragma once

#include <cstdint>
#include <memory>

#include "server/http_types.h"

namespace quaver::server {

class Connection;

std::shared_ptr<Reply> make_reply(std::shared_ptr<Connection> connection, uint64_t number);

}  // namespace quaver::server
