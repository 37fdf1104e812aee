// spdlog lives here and nowhere else: torch's own copy of fmt must not meet it in one file.
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <string>

#include "base/env.h"

namespace quaver {
namespace {

constexpr std::array kLevels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                spdlog::level::err, spdlog::level::off};

spdlog::level::level_enum to_spdlog(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created =
        std::make_shared<spdlog::logger>("quaver", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern("%H:%M:%S %^%l%$ %v");
    std::string wanted = env_string("QUAVER_LOG_LEVEL").value_or("info");
    created->set_level(spdlog::level::from_str(wanted));
    created->flush_on(spdlog::level::info);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view line) {
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace quaver
