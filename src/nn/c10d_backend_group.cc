#include "nn/c10d_backend_group.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"

namespace quaver::nn {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Waits for c10d's work until it is done or the group was aborted, which c10d's own wait does not heed.
class WorkWaiter {
 public:
  // False when aborted.
  bool wait(const WorkPtr& work) {
    auto done = std::make_shared<bool>(false);
    work->getFuture()->addCallback([state = state_, done](c10::ivalue::Future&) {
      std::lock_guard lock(state->mutex);
      *done = true;
      state->changed.notify_all();
    });
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return *done || state_->aborted; });
    return *done;
  }

  void abort() {
    std::lock_guard lock(state_->mutex);
    state_->aborted = true;
    state_->changed.notify_all();
  }

  bool aborted() const {
    std::lock_guard lock(state_->mutex);
    return state_->aborted;
  }

 private:
  struct State {  // outlives the group where work does
    std::mutex mutex;
    std::condition_variable changed;
    bool aborted = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class BackendGroup : public RankGroup {
 public:
  BackendGroup(c10::intrusive_ptr<c10d::Backend> backend, const RankGroupOptions& options)
      : backend_(std::move(backend)), name_(options.name), timeout_(options.timeout) {}

  // An aborted backend is left as it is: closing it would wait for the work that was given up.
  ~BackendGroup() override {
    if (waiter_.aborted()) backend_.release();
  }

  int64_t rank() const override { return backend_->getRank(); }
  int64_t size() const override { return backend_->getSize(); }

  at::Tensor all_reduce(const at::Tensor& x) const override {
    std::vector<at::Tensor> sum = {x.clone(at::MemoryFormat::Contiguous)};
    run([&] { return backend_->allreduce(sum); });
    return sum.front();
  }

  void broadcast(at::Tensor& x, int64_t root) const override {
    std::vector<at::Tensor> whole = {x.contiguous()};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    run([&] { return backend_->broadcast(whole, options); });
    if (!x.is_contiguous()) x.copy_(whole.front());
  }

  // Parts are padded to the longest, since not every backend takes uneven ones.
  at::Tensor all_gather(const at::Tensor& part, int64_t dim, std::span<const int64_t> sizes) const override {
    const int64_t longest = *std::ranges::max_element(sizes);
    at::Tensor mine = part.contiguous();
    if (const int64_t missing = longest - part.size(dim); missing > 0) {
      std::vector<int64_t> pad(static_cast<size_t>(2 * (part.dim() - dim)), 0);  // the last dimension first
      pad.back() = missing;
      mine = at::constant_pad_nd(mine, pad);
    }
    std::vector<int64_t> shape = mine.sizes().vec();
    shape.insert(shape.begin(), size());
    at::Tensor all = at::empty(shape, mine.options());
    at::Tensor flat = all.view({-1}), flat_mine = mine.view({-1});
    run([&] { return backend_->_allgather_base(flat, flat_mine); });
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < size(); ++r)
      parts.push_back(all.select(0, r).narrow(dim, 0, sizes[static_cast<size_t>(r)]));
    return at::cat(parts, dim);
  }

  at::Tensor all_to_all(const at::Tensor& x, std::span<const int64_t> send,
                        std::span<const int64_t> receive) const override {
    at::Tensor in = x.contiguous();
    std::vector<int64_t> shape = x.sizes().vec(), sent(send.begin(), send.end()),
                         received(receive.begin(), receive.end());
    shape.at(0) = std::accumulate(received.begin(), received.end(), int64_t{0});
    at::Tensor out = at::empty(shape, x.options());
    run([&] { return backend_->alltoall_base(out, in, received, sent); });
    return out;
  }

  void settle() const override {
    if (!last_) return;
    const auto end = std::chrono::steady_clock::now() + timeout_;
    while (!last_->isCompleted()) {
      require(!waiter_.aborted(), ErrorKind::kUnavailable, "the ranks of ", name_, " were told to stop");
      require(std::chrono::steady_clock::now() < end, ErrorKind::kUnavailable, "the ranks of ", name_,
              " have waited ", timeout_.count(), " s for one another");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (const std::exception_ptr error = last_->exception()) fail_as_group(name_, error);
  }

  void abort() override {
    waiter_.abort();
    backend_->abort();
  }

 private:
  template <class Start>
  void run(Start start) const {
    require(!waiter_.aborted(), ErrorKind::kUnavailable, "the ranks of ", name_, " were told to stop");
    bool done = false;
    try {
      last_ = start();
      done = waiter_.wait(last_);
      if (done) last_->wait();
    } catch (const std::exception&) {
      fail_as_group(name_, std::current_exception());
    }
    require(done, ErrorKind::kUnavailable, "the ranks of ", name_, " were told to stop");
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  const std::string name_;
  const std::chrono::seconds timeout_;
  mutable WorkWaiter waiter_;
  mutable WorkPtr last_;
};

}  // namespace

std::unique_ptr<RankGroup> make_backend_group(c10::intrusive_ptr<c10d::Backend> backend,
                                              const RankGroupOptions& options) {
  return std::make_unique<BackendGroup>(std::move(backend), options);
}

void fail_as_group(const std::string& name, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    const std::string text = e.what();
    fail(ErrorKind::kUnavailable, "the ranks of ", name,
         " have lost one another: ", text.substr(0, text.find('\n')));
  }
}

}  // namespace quaver::nn
