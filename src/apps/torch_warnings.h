// What libtorch has to say, in this program's own words: warnings go to the log, errors become one line.
#pragma once

#include <exception>
#include <string>

namespace quaver::apps {

// For the calling thread, for the rest of its life. Also sets up std::cerr, to which libtorch writes what
// comes from its other threads: a program that is linked with libstdc++ as an archive would leave that
// undone.
void log_torch_warnings();

// What an error says, without the stack that libtorch puts behind it.
std::string first_line(const std::exception& error);

}  // namespace quaver::apps
