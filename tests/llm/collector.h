// Gathers the events of requests from the engine's thread and checks their order.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "llm/request.h"

namespace quaver::llm::testing {

struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<PositionLogprobs> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;
  std::optional<int32_t> stop_token;
  Usage usage;
  std::optional<Error> error;
  int events = 0;
};

// Thread safe; must outlive the engine it serves.
class Collector {
 public:
  EventSink sink() {
    return [this](Event event) { take(std::move(event)); };
  }

  Answer wait(const std::string& id) {
    std::unique_lock lock(mutex_);
    bool done = changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return answers_[id].finish != FinishReason::kNone; });
    EXPECT_TRUE(done) << id << " did not end";
    return answers_[id];
  }

  void wait_for_tokens(const std::string& id, size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      return answers_[id].tokens.size() >= count || answers_[id].finish != FinishReason::kNone;
    }));
  }

  bool has_ended(const std::string& id) {
    std::lock_guard lock(mutex_);
    return answers_[id].finish != FinishReason::kNone;
  }

 private:
  void take(Event event) {
    std::lock_guard lock(mutex_);
    Answer& answer = answers_[event.request_id];
    EXPECT_EQ(answer.finish, FinishReason::kNone) << "an event after the last of " << event.request_id;
    if (answer.events++ > 0) {
      EXPECT_TRUE(event.prompt_logprobs.empty());
    }
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    answer.text += event.text;
    for (auto& position : event.logprobs) answer.logprobs.push_back(std::move(position));
    for (auto& position : event.prompt_logprobs) answer.prompt_logprobs.push_back(std::move(position));
    answer.finish = event.finish;
    answer.stop_text = event.stop_text;
    answer.stop_token = event.stop_token;
    answer.usage = event.usage;
    answer.error = event.error;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Answer> answers_;
};

}  // namespace quaver::llm::testing
