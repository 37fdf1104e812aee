#include "server/ids.h"

#include <random>

namespace quaver::server {

std::string random_hex(size_t digits) {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::string out(digits, '0');
  for (char& c : out) c = "0123456789abcdef"[generator() & 15];
  return out;
}

}  // namespace quaver::server
