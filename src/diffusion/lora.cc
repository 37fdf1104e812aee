#include "diffusion/lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include <map>
#include <set>

#include "base/log.h"
#include "checkpoint/lora_file.h"
#include "checkpoint/printable.h"
#include "nn/tensor_bridge.h"

namespace quaver::diffusion {

namespace {

using Updates = std::map<nn::Linear*, std::vector<nn::Linear::LowRank>>;

at::Tensor finite_tensor(const std::string& file, const NamedTensor& tensor) {
  const at::Tensor values = nn::tensor_over(tensor.tensor, cat(file, ": tensor ", printable(tensor.name)));
  require(at::isfinite(values).all().item<bool>(), ErrorKind::kBadFile, file, ": tensor ",
          printable(tensor.name), " has values that are not finite");
  return values;
}

// One adapter's way onto the layers.
class AdapterReader {
 public:
  AdapterReader(const Adapter& adapter, int64_t index, const LoraNames& names, const nn::LoadOptions& options)
      : file_(LoraFile::open(adapter.path)),
        path_(file_.path().string()),
        index_(index),
        names_(names),
        options_(options) {}

  void read_into(Updates& updates, OtherLayers others) {
    for (const LoraLayer& layer : file_.layers()) {
      const LoraNames::Found found = names_.find(layer.name);
      if (found.target)
        add(layer, *found.target, updates);
      else if (found.component == "transformer")
        unknown_.push_back(layer.name);
      else
        left_out_.push_back(layer.name);
    }
    require_known();
    if (others == OtherLayers::kLacking) tell_of_left_out();
  }

 private:
  void require_known() const {
    require(unknown_.empty(), ErrorKind::kBadFile, path_, ": ", unknown_.size(), " of its ",
            file_.layers().size(), " layers are not in this transformer, ",
            unknown_.empty() ? "" : printable(unknown_.front()), " for one; was it made for another model?");
  }

  void tell_of_left_out() const {
    const size_t all = file_.layers().size();
    require(left_out_.size() < all, ErrorKind::kBadFile, path_, ": none of its ", all,
            " layers is in this model, ", left_out_.empty() ? "" : printable(left_out_.front()), " for one");
    if (!left_out_.empty())
      log_warning(path_, ": ", left_out_.size(), " of its ", all,
                  " layers are left out, since this model's text encoders don't have them: ",
                  printable(left_out_.front()), left_out_.size() > 1 ? " and others" : "");
  }

  void check_shapes(const LoraLayer& layer, const LoraTarget& target) const {
    int64_t rows = 0;
    std::string names;
    for (const models::NamedLinear& part : target.layers) {
      rows += part.linear->whole_shape().rows;
      names += cat(names.empty() ? "" : ", ", part.name);
    }
    const int64_t columns = target.layers.front().linear->whole_shape().cols;
    require(layer.down.tensor.shape[1] == columns, ErrorKind::kBadFile, path_, ": tensor ",
            printable(layer.down.name), " is ", layer.down.tensor.shape, ", expected [", layer.rank(), ", ",
            columns, "] for ", names);
    require(layer.up.tensor.shape[0] == rows, ErrorKind::kBadFile, path_, ": tensor ",
            printable(layer.up.name), " is ", layer.up.tensor.shape, ", expected [", rows, ", ", layer.rank(),
            "] for ", names);
  }

  void add(const LoraLayer& layer, const LoraTarget& target, Updates& updates) {
    check_shapes(layer, target);
    at::Tensor up = finite_tensor(path_, layer.up).to(at::kFloat) * layer.scale;
    if (target.halves_swapped) {
      const std::vector<at::Tensor> halves = up.chunk(2, 0);
      up = at::cat({halves[1], halves[0]});
    }
    const at::Tensor down = placed(finite_tensor(path_, layer.down));
    int64_t row = 0;
    for (const models::NamedLinear& part : target.layers) {
      const auto [before, fresh] = taken_.try_emplace(part.linear, layer.name);
      require(fresh, ErrorKind::kBadFile, path_, ": ", printable(before->second), " and ",
              printable(layer.name), " are both for the layer ", part.name);
      const int64_t rows = part.linear->whole_shape().rows;
      updates[part.linear].push_back(
          {.adapter = index_, .down = down, .up = placed(up.narrow(0, row, rows))});
      row += rows;
    }
  }

  // A copy of its own: the file need not stay mapped.
  at::Tensor placed(const at::Tensor& x) const {
    return x.to(at::TensorOptions(options_.compute_dtype).device(options_.device), false, true).contiguous();
  }

  const LoraFile file_;
  const std::string path_;
  const int64_t index_;
  const LoraNames& names_;
  const nn::LoadOptions& options_;
  std::map<nn::Linear*, std::string> taken_;  // by which of the file's layers
  std::vector<std::string> unknown_, left_out_;
};

}  // namespace

void load_adapters(std::span<const Adapter> adapters, const std::vector<ComponentLinears>& components,
                   const LoraSpellings& spellings, const nn::LoadOptions& options, OtherLayers others) {
  const LoraNames names(components, spellings);
  Updates updates;
  for (size_t i = 0; i < adapters.size(); ++i)
    AdapterReader(adapters[i], static_cast<int64_t>(i), names, options).read_into(updates, others);
  for (const ComponentLinears& component : components)
    for (const models::NamedLinear& layer : component.linears)
      layer.linear->set_low_rank(std::move(updates[layer.linear]));
}

}  // namespace quaver::diffusion
