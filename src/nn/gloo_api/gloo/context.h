// Stands for Gloo's header, which torch's wheel lacks (see algorithm.h).
#pragma once

#include <chrono>
#include <memory>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class UnboundBuffer;
}

}  // namespace gloo
