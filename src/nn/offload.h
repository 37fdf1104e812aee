// Layers whose weights wait in host memory and are on the device only while the layer runs, the next layer's
// copy under way meanwhile.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace quaver::nn {

using TensorVisit = std::function<void(at::Tensor&)>;

// Layers are run one after the other, the first again behind the last. Two slots of device memory, each as
// large as the largest layer, take turns: one holds the layer that runs, into the other a stream of its own
// copies the next one, once the layer that was there before has run. Host memory is pinned where the device
// is not the host, so that copies are no business of the processor's. Values, strides and so the kernels that
// run are those of a layer that stays. Thread safe: a layer that is used keeps others waiting.
class LayerOffload {
 public:
  explicit LayerOffload(c10::Device device);  // the one that layers were loaded to and run on
  ~LayerOffload();
  LayerOffload(const LayerOffload&) = delete;
  LayerOffload& operator=(const LayerOffload&) = delete;

  // Takes over the tensors that `layer` shows its argument, and frees their memory on the device; while the
  // layer isn't used they have shapes and dtypes alone (at::kMeta). They must be dense, on the device, and
  // stay where they are in memory. Returns the layer's number, from 0 on. Before first use.
  int64_t add(const std::function<void(const TensorVisit&)>& layer);

  // While one lives, its layer's tensors hold their values.
  class Use {
   public:
    Use(LayerOffload& owner, int64_t layer);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::unique_lock<std::mutex> lock_;
    LayerOffload& owner_;
    size_t slot_;
  };
  [[nodiscard]] Use use(int64_t layer) { return {*this, layer}; }

  // Gives the slots' memory back until the next use.
  void release();

  size_t host_bytes() const;                  // of all layers
  size_t device_bytes() const;                // of the slots, while layers are used
  int64_t copies() const { return copies_; }  // of a layer to the device, so far

 private:
  struct Place {
    at::Tensor* tensor;
    at::Tensor waiting;  // what stands there meanwhile
    int64_t offset;      // in the layer's bytes
  };
  struct Layer {
    std::vector<Place> places;
    std::vector<at::Tensor> pieces;  // of the layer's bytes, in host memory
    int64_t bytes = 0;
  };
  struct Slot {
    at::Tensor memory;  // uint8 [largest_]
    int64_t layer = -1;
    c10::Event arrived, left;
  };

  size_t bring(int64_t layer, std::optional<size_t> spared);
  void copy_into(Slot& slot, const Layer& layer);
  void clear(Slot& slot);
  bool has_streams() const { return copies_beside_.has_value(); }

  c10::Device device_;
  std::optional<c10::Stream> copies_beside_;
  std::mutex mutex_;
  std::vector<Layer> layers_;
  std::array<Slot, 2> slots_;
  size_t last_ = 1;  // the slot used last
  int64_t largest_ = 0, copies_ = 0;
};

// One pass of a model whose layers are needed for no other soon: at its end the slots are given back. Null: a
// model that stays on the device.
class OffloadPass {
 public:
  explicit OffloadPass(LayerOffload* layers) : layers_(layers) {}
  ~OffloadPass();
  OffloadPass(const OffloadPass&) = delete;
  OffloadPass& operator=(const OffloadPass&) = delete;

 private:
  LayerOffload* layers_;
};

}  // namespace quaver::nn
