#include "apps/interrupt.h"

#include <csignal>

namespace quaver::apps {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_action_before = {};

}  // namespace

InterruptWatch::InterruptWatch() {
  g_interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &g_action_before);
}

InterruptWatch::~InterruptWatch() { sigaction(SIGINT, &g_action_before, nullptr); }

bool InterruptWatch::interrupted() const { return g_interrupted != 0; }

}  // namespace quaver::apps
