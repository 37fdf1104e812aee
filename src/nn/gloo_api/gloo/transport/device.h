// Stands for Gloo's header, which torch's wheel lacks (see algorithm.h).
#pragma once

namespace gloo::transport {
class Device;
}
