// The functions and classes that a pickle of tensors may name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/dtype.h"

namespace quaver {

// Functions, classes and types by full name, "torch.Size"; naming one does nothing by itself.
bool is_known_pickle_name(std::string_view name);

// "torch.FloatStorage": the element it holds. Nothing for storages of bytes and for what is no storage.
std::optional<DType> dtype_of_storage(std::string_view name);

// "torch.bfloat16". Nothing for types that no reader takes, such as "torch.int4".
std::optional<DType> dtype_of_torch(std::string_view name);

// "torch.int4" and the like.
bool is_torch_dtype(std::string_view name);

// Classes outside the table. They stand for nothing here but their name, which reaches a reader as text: no
// class is known to this folder, and none is ever made.
class PickleClasses {
 public:
  // True for a class of tensors ("package.module", "SomeTensor"), and then for other classes of its package,
  // which describe such tensors. Never for functions, nor for packages that named no tensor class before.
  bool admit(std::string_view module, std::string_view name);

 private:
  std::vector<std::string> packages_;
};

}  // namespace quaver
