#include "server/idempotency.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "server/errors.h"

namespace quaver::server {

using Clock = std::chrono::steady_clock;

struct IdempotentAnswers::Entry {
  std::string key;
  size_t body_hash = 0, body_size = 0;
  std::vector<std::shared_ptr<Reply>> waiting;  // the first is the one that is computed for
  std::optional<HttpResponse> answer;           // with the headers that the handler added
  Clock::time_point answered;
  bool streams = false;
};

namespace {

constexpr size_t kMaxKey = 255;

// A key belongs to who sent it and to the route.
std::string scoped(const HttpRequest& request, const std::string& key) {
  const std::string* who = request.header("authorization");
  return cat(who ? *who : "", "\n", request.path, "\n", key);
}

// Of the body without the boundary of a form, which clients draw anew for each try.
std::string comparable_body(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  const size_t at = type ? type->find("boundary=") : std::string::npos;
  if (at == std::string::npos) return request.body;
  std::string_view boundary = std::string_view(*type).substr(at + 9);
  boundary = boundary.substr(0, boundary.find(';'));
  if (boundary.starts_with('"')) boundary = boundary.substr(1, boundary.find('"', 1) - 1);
  if (boundary.empty()) return request.body;
  std::string out;
  size_t from = 0;
  for (size_t next; (next = request.body.find(boundary, from)) != std::string::npos;
       from = next + boundary.size())
    out.append(request.body, from, next - from);
  return out.append(request.body, from);
}

bool is_final(int status) { return status < 500 && status != 408 && status != 429; }

size_t size_of(const HttpResponse& response) { return response.body.size() + 512; }

}  // namespace

// Stands between the handler and those who wait.
class IdempotentAnswers::Keeper : public Reply {
 public:
  Keeper(std::shared_ptr<IdempotentAnswers> table, EntryPtr entry, std::shared_ptr<Reply> first)
      : table_(std::move(table)), entry_(std::move(entry)), first_(std::move(first)) {}

  ~Keeper() override {
    std::vector<std::shared_ptr<Reply>> dropped;  // they say so themselves, without the lock
    std::lock_guard lock(table_->mutex_);
    if (!entry_->answer && !entry_->streams) table_->forget(entry_->key);
    dropped.swap(entry_->waiting);
  }

  void add_header(std::string name, std::string value) override {
    if (entry_->streams) return first_->add_header(std::move(name), std::move(value));
    headers_.emplace_back(std::move(name), std::move(value));
  }

  void send(HttpResponse response) override {
    for (auto& header : headers_) response.headers.push_back(std::move(header));
    for (const std::shared_ptr<Reply>& reply : finish(response)) reply->send(response);
  }

  void start_stream(std::string content_type) override {
    std::vector<std::shared_ptr<Reply>> others;
    std::function<void()> gone;
    {
      std::lock_guard lock(table_->mutex_);
      entry_->streams = true;
      table_->forget(entry_->key);
      others.swap(entry_->waiting);
      gone = std::exchange(gone_, nullptr);
    }
    for (const std::shared_ptr<Reply>& reply : others)
      if (reply != first_)
        reply->send(
            error_response(http_error(409, "the first request under this Idempotency-Key is a stream")));
    for (auto& [name, value] : headers_) first_->add_header(std::move(name), std::move(value));
    if (gone) first_->on_gone(std::move(gone));
    first_->start_stream(std::move(content_type));
  }

  void write(std::string piece) override { first_->write(std::move(piece)); }
  void end() override { first_->end(); }

  void on_gone(std::function<void()> callback) override {
    {
      std::lock_guard lock(table_->mutex_);
      if (!entry_->streams) {
        gone_ = std::move(callback);
        return;
      }
    }
    first_->on_gone(std::move(callback));
  }

  void post(std::function<void()> task) override { first_->post(std::move(task)); }

 private:
  // Keeps the answer, or forgets the key; returns those who wait for it.
  std::vector<std::shared_ptr<Reply>> finish(const HttpResponse& response) {
    std::lock_guard lock(table_->mutex_);
    if (entry_->answer || entry_->streams) return {};  // said already, as connections have it
    entry_->answer = response;
    entry_->answered = Clock::now();
    if (is_final(response.status)) {
      table_->kept_.push_back(entry_->key);
      table_->bytes_ += size_of(response);
      table_->make_room();
    } else {
      table_->forget(entry_->key);
    }
    return std::exchange(entry_->waiting, {});
  }

  const std::shared_ptr<IdempotentAnswers> table_;
  const EntryPtr entry_;
  const std::shared_ptr<Reply> first_;
  Headers headers_;
  std::function<void()> gone_;  // wanted by streams alone
};

void IdempotentAnswers::forget(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  entries_.erase(found);
}

void IdempotentAnswers::make_room() {
  const Clock::time_point oldest = Clock::now() - limits_.keep;
  while (!kept_.empty()) {
    const EntryPtr entry = entries_.at(kept_.front());
    if (bytes_ <= limits_.max_bytes && kept_.size() <= limits_.max_count && entry->answered >= oldest) return;
    bytes_ -= size_of(*entry->answer);
    forget(entry->key);
    kept_.pop_front();
  }
}

std::shared_ptr<Reply> IdempotentAnswers::admit(const HttpRequest& request, std::shared_ptr<Reply> reply) {
  const std::string* given = request.method == "POST" ? request.header("idempotency-key") : nullptr;
  if (!given) return reply;
  if (given->empty() || given->size() > kMaxKey)
    throw http_error(
        400, cat("the header Idempotency-Key has ", given->size(), " characters, expected 1 to ", kMaxKey));
  const std::string key = scoped(request, *given);
  const std::string body = comparable_body(request);
  const size_t hash = std::hash<std::string>()(body);
  std::unique_lock lock(mutex_);
  make_room();
  EntryPtr& entry = entries_[key];
  if (!entry) {
    entry = std::make_shared<Entry>(Entry{.key = key, .body_hash = hash, .body_size = body.size()});
    entry->waiting.push_back(reply);
    return std::make_shared<Keeper>(shared_from_this(), entry, std::move(reply));
  }
  if (entry->body_hash != hash || entry->body_size != body.size())
    throw http_error(422,
                     "this Idempotency-Key came before with another body; use a new key for a new request");
  reply->add_header("Idempotent-Replayed", "true");
  if (!entry->answer) {
    entry->waiting.push_back(std::move(reply));
    return nullptr;
  }
  HttpResponse answer = *entry->answer;
  lock.unlock();
  reply->send(std::move(answer));
  return nullptr;
}

}  // namespace quaver::server
