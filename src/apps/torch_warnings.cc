#include "apps/torch_warnings.h"

#include <c10/util/Exception.h>

#include <ios>

#include "base/log.h"

namespace quaver::apps {
namespace {

class LogWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { log_warning("libtorch: ", warning.msg()); }
};

}  // namespace

void log_torch_warnings() {
  static const std::ios_base::Init streams;
  static LogWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);
}

std::string first_line(const std::exception& error) {
  auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace quaver::apps
