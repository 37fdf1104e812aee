// A pipeline whose answers are scripted: one piece per step, on an engine thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/pipeline.h"
#include "server/fake_tokenizer.h"

namespace quaver::server::testing {

// "<|im_start|>role\ncontent<|im_end|>\n" per message; raises when a system message is not the first.
class FakeTemplate : public ChatTemplate {
 public:
  explicit FakeTemplate(std::string source = "tools <tool_call></tool_call> </think>")
      : source_(std::move(source)) {}
  std::string_view source() const override { return source_; }
  std::string render(const ChatTemplateInput& input) const override {
    std::string out;
    if (input.tools.is_array()) out += "tools:" + input.tools.dump() + "\n";
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const auto& message = input.messages[i];
      const std::string role = message.at("role");
      require(role != "system" || i == 0, ErrorKind::kInvalidInput,
              "System message must be at the beginning.");
      if (role == "developer") continue;
      out += "<|im_start|>" + role + "\n";
      const auto& content = message.at("content");
      out += content.is_string() ? content.get<std::string>() : content.dump();
      if (message.contains("tool_calls")) out += "calls:" + message.at("tool_calls").dump();
      if (!(input.continue_final_message && i + 1 == input.messages.size())) out += "<|im_end|>\n";
    }
    if (input.add_generation_prompt) out += "<|im_start|>assistant\n";
    if (input.extra.contains("enable_thinking") && input.extra["enable_thinking"] == false)
      out += "<no-thinking>";
    return out;
  }

 private:
  std::string source_;
};

struct Piece {
  std::vector<int32_t> tokens;
  std::string text;
};

// What one request gets. Pieces are repeated while `ignore_eos` and max_tokens is not reached.
struct Script {
  std::vector<Piece> pieces;
  llm::FinishReason finish = llm::FinishReason::kStop;
  std::string stop_text;
  std::optional<Error> error;  // after the last piece
  bool silent = false;         // never says anything until aborted
};

// One piece per byte; the text of a character comes with its last byte.
inline Script script_of(const std::string& text) {
  Script script;
  std::string pending;
  for (size_t i = 0; i < text.size(); ++i) {
    pending.push_back(text[i]);
    bool last = i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xc0) != 0x80;
    script.pieces.push_back({{static_cast<unsigned char>(text[i])}, last ? std::exchange(pending, "") : ""});
  }
  return script;
}

class FakePipeline : public pipeline::TextPipeline {
 public:
  FakePipeline() {
    card_.path = "/models/fake";
    card_.capabilities = {"chat", "completions"};
    card_.quantization = {{"llm", "none"}};
    card_.max_model_len = 4096;
    card_.generation_defaults = json::object();
    card_.bos_token = "<s>";
    card_.eos_token = "</s>";
    thread_ = std::thread([this] { work(); });
  }
  ~FakePipeline() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Set before requests come.
  std::function<Script(const llm::Request&)> script = [](const llm::Request&) {
    return script_of("The quick brown fox");
  };
  std::chrono::microseconds step{0};
  size_t queue_limit = 100000;
  std::function<void(const llm::Request&)> check;  // may throw, as submit does
  bool is_healthy = true;
  std::shared_ptr<const ChatTemplate> chat = std::make_shared<FakeTemplate>();
  pipeline::ModelCard& mutable_card() { return card_; }

  const pipeline::ModelCard& card() const override { return card_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const ChatTemplate* chat_template() const override { return chat.get(); }

  void submit(llm::Request request, llm::EventSink sink) override {
    if (check) check(request);
    Live live{request, std::move(sink), script(request)};
    std::lock_guard lock(mutex_);
    require(live_.size() < queue_limit && !draining_, ErrorKind::kUnavailable, "the queue is full");
    require(!live_.contains(request.id), ErrorKind::kInternal, "the id ", request.id, " is live already");
    seen_.push_back(request);
    live_.emplace(request.id, std::move(live));
    changed_.notify_all();
  }
  void abort(const std::string& request_id) override {
    std::lock_guard lock(mutex_);
    if (live_.contains(request_id)) aborting_.insert(request_id);
    changed_.notify_all();
  }
  pipeline::Stats stats() override {
    std::lock_guard lock(mutex_);
    pipeline::Stats out = stats_;
    out.running = static_cast<int64_t>(live_.size());
    stats_.time_to_first_token_s.clear();
    return out;
  }
  bool healthy() const override { return is_healthy; }
  void drain(double deadline_s) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (changed_.wait_for(lock, std::chrono::duration<double>(deadline_s), [this] { return live_.empty(); }))
      return;
    for (auto& [id, live] : live_) aborting_.insert(id);
    changed_.notify_all();
    changed_.wait(lock, [this] { return live_.empty(); });
  }

  size_t live() {
    std::lock_guard lock(mutex_);
    return live_.size();
  }
  std::vector<llm::Request> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  int64_t aborted() {
    std::lock_guard lock(mutex_);
    return stats_.finished_abort;
  }
  bool wait_until_empty(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return live_.empty(); });
  }

 private:
  struct Live {
    llm::Request request;
    llm::EventSink sink;
    Script script;
    size_t next = 0;
    int32_t made = 0;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !live_.empty(); });
      if (stopping_ && live_.empty()) return;
      run_step(lock);
      lock.unlock();
      step.count() ? std::this_thread::sleep_for(step) : std::this_thread::yield();
      lock.lock();
    }
  }

  void run_step(std::unique_lock<std::mutex>& lock) {
    std::vector<std::string> ids;
    for (auto& [id, live] : live_) ids.push_back(id);
    for (const std::string& id : ids) {
      Live& live = live_.at(id);
      if (live.script.silent && !aborting_.contains(id) && !stopping_) continue;
      llm::Event event = next_event(live, aborting_.erase(id) > 0 || stopping_);
      llm::EventSink sink = live.sink;
      if (event.finish != llm::FinishReason::kNone) live_.erase(id);
      lock.unlock();
      sink(std::move(event));
      sink = nullptr;
      lock.lock();
    }
    changed_.notify_all();
  }

  llm::Event next_event(Live& live, bool abort) {
    const llm::SamplingParams& params = live.request.sampling;
    llm::Event event;
    event.request_id = live.request.id;
    if (live.made == 0 && params.prompt_logprobs) event.prompt_logprobs = prompt_logprobs(live.request);
    if (abort) {
      event.finish = llm::FinishReason::kAbort;
      ++stats_.finished_abort;
    } else if (live.next < live.script.pieces.size()) {
      const Piece& piece = live.script.pieces[live.next++];
      event.tokens = piece.tokens;
      event.text = piece.text;
      live.made += static_cast<int32_t>(piece.tokens.size());
      if (params.ignore_eos && live.next == live.script.pieces.size()) live.next = 0;
      if (params.logprobs)
        for (int32_t token : event.tokens) event.logprobs.push_back(position(token, *params.logprobs));
      if (live.made >= params.max_tokens) event.finish = llm::FinishReason::kLength;
    }
    bool over = live.next == live.script.pieces.size() && event.finish == llm::FinishReason::kNone;
    if (over && live.script.error) {
      event.finish = llm::FinishReason::kError;
      event.error = live.script.error;
    } else if (over) {
      event.finish = live.script.finish;
      event.stop_text = live.script.stop_text;
    }
    event.usage = {static_cast<int32_t>(live.request.prompt.size()), live.made, 3};
    if (event.finish == llm::FinishReason::kStop) ++stats_.finished_stop;
    if (event.finish == llm::FinishReason::kLength) ++stats_.finished_length;
    if (event.finish != llm::FinishReason::kNone) stats_.time_to_first_token_s.push_back(0.03);
    stats_.generation_tokens += static_cast<int64_t>(event.tokens.size());
    return event;
  }

  // The token itself, then fixed alternatives; the last is masked out.
  static llm::PositionLogprobs position(int32_t token, int32_t count) {
    llm::PositionLogprobs out = {{token, -0.25f, 1}};
    for (int32_t i = 0; i < count; ++i)
      out.push_back(
          {'a' + i, i + 1 == count && count > 1 ? -HUGE_VALF : -1.0f - static_cast<float>(i), i + 2});
    return out;
  }
  static std::vector<llm::PositionLogprobs> prompt_logprobs(const llm::Request& request) {
    std::vector<llm::PositionLogprobs> out(request.prompt.size());
    for (size_t i = 1; i < out.size(); ++i)
      out[i] = position(request.prompt[i], *request.sampling.prompt_logprobs);
    return out;
  }

  pipeline::ModelCard card_;
  FakeTokenizer tokenizer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Live> live_;
  std::set<std::string> aborting_;
  std::vector<llm::Request> seen_;
  pipeline::Stats stats_;
  bool stopping_ = false, draining_ = false;
  std::thread thread_;
};

}  // namespace quaver::server::testing
