// The table of routes: method and path to handler.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/call.h"

namespace quaver::server {

// kMedia: on threads of their own, since other servers may keep them waiting.
enum class RunOn { kIoThread, kWorker, kMedia };

struct Route {
  std::string_view method;
  std::string_view path;     // `{}` stands for one segment, `{...}` at the end for the rest
  Handler handler;           // null: known, and not served by this build
  std::string_view ability;  // what the model must be able to do; "" = nothing, "model" = be loaded
  RunOn run_on = RunOn::kWorker;
  bool open = false;  // needs no API key
};

// Every route there is (routes.cc). Rows of the same method and path stand together: the first whose ability
// the model has serves.
std::span<const Route> all_routes();

struct Match {
  std::span<const Route> rows;  // of this method and path; empty when there is none
  std::vector<std::string> captures;
  std::string allowed;  // methods that the path takes; empty when the path is unknown
};

// HEAD finds the row of GET.
Match find_route(std::span<const Route> routes, std::string_view method, std::string_view path);

}  // namespace quaver::server
