// Sends libtorch's warnings of this thread to the program's own log.
#pragma once

namespace quaver::apps {

// For the calling thread, for the rest of its life. Also sets up std::cerr, to which libtorch writes what
// comes from its other threads: a program that is linked with libstdc++ as an archive would leave that
// undone.
void log_torch_warnings();

}  // namespace quaver::apps
