#include "nn/rank_channel.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "nn/rank_store_impl.h"

namespace quaver::nn {

namespace {

constexpr std::chrono::minutes kStart{10};  // until all processes have come; they load nothing before
constexpr const char* kPortKey = "channel";

// The first letter of what a follower says.
constexpr char kHello = 'h', kReady = 'r', kComplaint = 'c', kLast = 'l';

int64_t number_in(std::string_view text) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

RankLeader::RankLeader(const RankStore& store, int64_t size, bool local) {
  const MessageListener listener(local);
  store.impl().store->set(kPortKey, std::to_string(listener.port()));
  std::vector<std::optional<MessageSocket>> come(static_cast<size_t>(size - 1));
  for (size_t missing = come.size(); missing > 0;) {
    MessageSocket socket = listener.accept(kStart);
    const std::string hello = socket.receive().value_or("");
    const int64_t rank = hello.starts_with(kHello) ? number_in(std::string_view(hello).substr(1)) : -1;
    if (rank < 1 || rank >= size || come[static_cast<size_t>(rank - 1)]) continue;  // a stranger
    come[static_cast<size_t>(rank - 1)] = std::move(socket);
    --missing;
  }
  for (std::optional<MessageSocket>& socket : come) followers_.push_back({.socket = std::move(*socket)});
  tell("");  // all are here: what follows has limits of time
  watcher_ = std::thread([this] { watch(); });
}

RankLeader::~RankLeader() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  for (const Follower& follower : followers_) follower.socket.hang_up();
  watcher_.join();
}

void RankLeader::on_loss(OnLoss action) {
  std::lock_guard acting(action_mutex_);
  on_loss_ = std::move(action);
  if (!loss()) return;
  acted_ = true;
  if (on_loss_) on_loss_();
}

void RankLeader::tell(std::string_view message) {
  {
    std::lock_guard lock(mutex_);
    complaints_.clear();  // of what went before
  }
  for (const Follower& follower : followers_) follower.socket.send(message);
}

void RankLeader::await_ready() {
  std::unique_lock lock(mutex_);
  ++times_awaited_;
  changed_.wait(lock, [&] {
    return loss_ || std::ranges::all_of(followers_,
                                        [&](const Follower& f) { return f.times_ready >= times_awaited_; });
  });
  if (loss_) fail(ErrorKind::kUnavailable, *loss_);
}

Error RankLeader::complaint() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(5), [&] { return loss_ || !complaints_.empty(); });
  if (complaints_.empty())
    return {ErrorKind::kInternal, loss_.value_or("another rank failed without a word")};
  Error first = complaints_.front();
  complaints_.clear();
  return first;
}

std::optional<std::string> RankLeader::loss(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return loss_.has_value(); });
  return loss_;
}

void RankLeader::give_up(const std::string& why) { lose(cat("rank 0: ", why)); }

void RankLeader::watch() {
  while (true) {
    std::vector<pollfd> entries;
    std::vector<size_t> whose;
    for (size_t i = 0; i < followers_.size(); ++i)
      if (!followers_[i].gone) {
        entries.push_back({followers_[i].socket.fd(), POLLIN, 0});
        whose.push_back(i);
      }
    if (entries.empty()) return;
    if (::poll(entries.data(), entries.size(), -1) < 0) {
      if (errno == EINTR) continue;  // a signal of this process's, SIGTERM for one
      return;
    }
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].revents != 0) hear(whose[i]);
  }
}

void RankLeader::hear(size_t index) {
  Follower& follower = followers_[index];
  const std::optional<std::string> message = follower.socket.receive();
  const std::string who = cat("rank ", index + 1);
  if (!message || message->empty()) {
    follower.gone = true;
    return lose(who + " has ended");
  }
  const std::string_view rest = std::string_view(*message).substr(1);
  if (message->front() == kLast) return lose(cat(who, ": ", rest));
  std::lock_guard lock(mutex_);
  if (message->front() == kReady) ++follower.times_ready;
  if (message->front() == kComplaint)
    complaints_.emplace_back(static_cast<ErrorKind>(rest.front() - '0'), cat(who, ": ", rest.substr(1)));
  changed_.notify_all();
}

void RankLeader::lose(std::string what) {
  {
    std::lock_guard lock(mutex_);
    if (loss_ || closing_) return;
    loss_ = std::move(what);
    changed_.notify_all();
  }
  std::lock_guard acting(action_mutex_);
  if (!std::exchange(acted_, true) && on_loss_) on_loss_();
}

RankFollower::RankFollower(const RankStore& store, int64_t rank, const std::string& host)
    : socket_(MessageSocket::connect(
          host, static_cast<uint16_t>(number_in(store.impl().store->get_to_str(kPortKey))), kStart)) {
  socket_.send(cat(kHello, rank));
  hear();
}

std::string RankFollower::hear() const {
  std::optional<std::string> message = socket_.receive();
  require(message.has_value(), ErrorKind::kUnavailable, "rank 0 has gone");
  return *message;
}

void RankFollower::ready() const { socket_.send({&kReady, 1}); }

void RankFollower::complain(const Error& error) const {
  socket_.send(cat(kComplaint, static_cast<int>(error.kind()), error.what()));
}

void RankFollower::give_up(const std::string& why) const {
  try {
    socket_.send(cat(kLast, why));
  } catch (const Error&) {
  }
}

}  // namespace quaver::nn
