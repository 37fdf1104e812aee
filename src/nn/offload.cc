#include "nn/offload.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace quaver::nn {

namespace {

constexpr int64_t kAlignment = 256;             // what device allocators keep to, and kernels may count on
constexpr int64_t kSmallestPiece = 256 * 1024;  // below this, rounding up is cheaper than one more copy

c10::Device numbered(c10::Device device) {
  return device.is_cpu() || device.has_index() ? device : c10::Device(device.type(), 0);
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A tensor like `form` over the bytes of `memory` from `offset` on.
at::Tensor over(const at::Tensor& memory, int64_t offset, const at::Tensor& form) {
  return memory.narrow(0, offset, bytes_of(form))
      .view(form.scalar_type())
      .as_strided(form.sizes(), form.strides());
}

// The allocator of pinned memory hands out powers of two, so a layer lies in pieces of such sizes.
std::vector<at::Tensor> host_pieces(int64_t bytes, bool pinned) {
  const at::TensorOptions options = at::TensorOptions(at::kByte).pinned_memory(pinned);
  std::vector<at::Tensor> pieces;
  while (pinned && bytes > kSmallestPiece) {
    const auto piece = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
    pieces.push_back(at::empty({piece}, options));
    bytes -= piece;
  }
  if (bytes > 0) pieces.push_back(at::empty({bytes}, options));
  return pieces;
}

// Calls copy(bytes of `memory`, piece) for each piece in turn.
template <class Copy>
void with_pieces(const at::Tensor& memory, const std::vector<at::Tensor>& pieces, const Copy& copy) {
  int64_t offset = 0;
  for (const at::Tensor& piece : pieces) {
    at::Tensor part = memory.narrow(0, offset, piece.numel());
    copy(part, piece);
    offset += piece.numel();
  }
}

}  // namespace

LayerOffload::LayerOffload(c10::Device device)
    : device_(numbered(device)),
      slots_{Slot{{}, -1, c10::Event(device.type()), c10::Event(device.type())},
             Slot{{}, -1, c10::Event(device.type()), c10::Event(device.type())}} {
  if (!device_.is_cpu())
    copies_beside_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
}

LayerOffload::~LayerOffload() = default;

int64_t LayerOffload::add(const std::function<void(const TensorVisit&)>& layer) {
  const c10::InferenceMode as_usual(false);
  Layer& added = layers_.emplace_back();
  layer([&](at::Tensor& tensor) {
    require(tensor.device() == device_ && tensor.is_non_overlapping_and_dense(), ErrorKind::kInternal,
            "a tensor of ", tensor.sizes().vec(), " can't be taken to host memory");
    added.places.push_back(
        {&tensor, at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta)),
         added.bytes});
    added.bytes += aligned(bytes_of(tensor));
  });
  at::Tensor packed = at::empty({added.bytes}, at::TensorOptions(at::kByte).device(device_));
  for (const Place& place : added.places) {
    over(packed, place.offset, *place.tensor).copy_(*place.tensor);
    *place.tensor = place.waiting;
  }
  added.pieces = host_pieces(added.bytes, !device_.is_cpu());
  with_pieces(packed, added.pieces, [](const at::Tensor& part, at::Tensor piece) { piece.copy_(part); });
  largest_ = std::max(largest_, added.bytes);
  return static_cast<int64_t>(layers_.size()) - 1;
}

void LayerOffload::clear(Slot& slot) {
  if (slot.layer >= 0)
    for (const Place& place : layers_[static_cast<size_t>(slot.layer)].places) *place.tensor = place.waiting;
  slot.layer = -1;
}

// Queues the copy behind the layer that was in the slot before.
void LayerOffload::copy_into(Slot& slot, const Layer& layer) {
  const auto copy = [&] {
    with_pieces(slot.memory, layer.pieces,
                [](at::Tensor part, const at::Tensor& piece) { part.copy_(piece, /*non_blocking=*/true); });
  };
  ++copies_;
  if (!has_streams()) return copy();
  slot.left.block(*copies_beside_);
  const c10::StreamGuard beside(*copies_beside_);
  copy();
  slot.arrived.record(*copies_beside_);
}

// Returns the slot that holds the layer, or will when its copy has arrived. The spared one stays as it is.
size_t LayerOffload::bring(int64_t index, std::optional<size_t> spared) {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].layer == index) return i;
  const size_t chosen = 1 - spared.value_or(last_);
  Slot& slot = slots_[chosen];
  clear(slot);
  if (!slot.memory.defined()) {
    slot.memory = at::empty({largest_}, at::TensorOptions(at::kByte).device(device_));
    if (has_streams()) slot.left.record(at::accelerator::getCurrentStream(device_.index()));
  }
  const Layer& layer = layers_.at(static_cast<size_t>(index));
  copy_into(slot, layer);
  slot.layer = index;
  for (const Place& place : layer.places) *place.tensor = over(slot.memory, place.offset, place.waiting);
  return chosen;
}

LayerOffload::Use::Use(LayerOffload& owner, int64_t layer) : lock_(owner.mutex_), owner_(owner) {
  const c10::InferenceMode as_usual(false);
  slot_ = owner.bring(layer, std::nullopt);
  if (owner.has_streams())
    owner.slots_[slot_].arrived.block(at::accelerator::getCurrentStream(owner.device_.index()));
  const int64_t next = (layer + 1) % static_cast<int64_t>(owner.layers_.size());
  if (next != layer) owner.bring(next, slot_);
}

LayerOffload::Use::~Use() {
  owner_.last_ = slot_;
  if (!owner_.has_streams()) return;
  try {
    owner_.slots_[slot_].left.record(at::accelerator::getCurrentStream(owner_.device_.index()));
  } catch (const c10::Error&) {
    // The device has failed, which the next call to it says too.
  }
}

OffloadPass::~OffloadPass() {
  if (!layers_) return;
  try {
    layers_->release();
  } catch (const c10::Error&) {
    // As above.
  }
}

void LayerOffload::release() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (!slot.memory.defined()) continue;
    // Whoever gets the memory next must not be overtaken by a copy that nobody waited for.
    if (has_streams()) slot.arrived.block(at::accelerator::getCurrentStream(device_.index()));
    clear(slot);
    slot.memory.reset();
  }
}

size_t LayerOffload::host_bytes() const {
  int64_t total = 0;
  for (const Layer& layer : layers_) total += layer.bytes;
  return static_cast<size_t>(total);
}

size_t LayerOffload::device_bytes() const {
  return static_cast<size_t>(largest_) * std::min<size_t>(layers_.size(), 2);
}

}  // namespace quaver::nn
