#include "checkpoint/pickle_tensors.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "checkpoint/checked.h"
#include "checkpoint/pickle_names.h"
#include "checkpoint/pickle_reader.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/torch_zip.h"

namespace quaver {
namespace {

using Kind = PickleValue::Kind;
using Items = std::vector<const PickleValue*>;

constexpr size_t kMaxTensors = size_t{1} << 20;
constexpr size_t kMaxTensorNameBytes = 1024;
constexpr size_t kMaxParts = 16;
constexpr int kMaxDepth = 16;

std::string_view kind_name(const PickleValue& value) {
  constexpr std::string_view kKindNames[] = {"None",     "a bool",    "a number", "a number",
                                             "a string", "a tuple",   "a list",   "a dictionary",
                                             "a name",   "a storage", "an object"};
  return kKindNames[static_cast<size_t>(value.kind)];
}

// How a tensor is made: the function, what it gets, and for a class of its own what hangs on it.
struct Recipe {
  std::string_view function;
  const Items* arguments = nullptr;
  std::string_view class_name;
  const PickleValue* state = nullptr;
};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

class Collector {
 public:
  Collector(std::span<const std::byte> file, std::string_view what)
      : what_(what), zip_(parse_torch_zip(file, what)) {
    const auto pickle = file.subspan(zip_.pickle.offset, zip_.pickle.size_bytes);
    tree_ = read_pickle(pickle, what);
    budget_ = 4 * pickle.size() + 4096;
  }

  PickledTensors collect() {
    const PickleValue& root = *tree_.root;
    require(root.kind == Kind::kDict, ErrorKind::kUnsupported, what_, ": holds ", kind_name(root),
            ", expected a dictionary from names to tensors");
    for (size_t i = 0; i < root.items.size(); i += 2) add(*root.items[i], *root.items[i + 1]);
    require(!found_.tensors.empty(), ErrorKind::kBadFile, what_, ": holds no tensors");
    sort();
    return std::move(found_);
  }

 private:
  // Names the tensor at hand.
  template <class... Args>
  [[noreturn]] void refuse(ErrorKind kind, const Args&... message) const {
    fail(kind, what_, ": tensor ", printable(name_), ": ", message...);
  }
  template <class... Args>
  void demand(bool holds, const Args&... message) const {
    if (!holds) refuse(ErrorKind::kBadFile, message...);
  }

  // Text is copied out of the pickle, where one string may stand for many: pays for it.
  void spend(size_t bytes) {
    require(bytes <= budget_, ErrorKind::kBadFile, what_,
            ": names and attributes of tensors repeat themselves beyond all measure");
    budget_ -= bytes;
  }

  void add(const PickleValue& key, const PickleValue& value) {
    require(key.kind == Kind::kString, ErrorKind::kUnsupported, what_, ": has ", kind_name(key),
            " as the name of a tensor, expected a string");
    require(key.text.size() <= kMaxTensorNameBytes, ErrorKind::kBadFile, what_, ": the name of a tensor, ",
            printable(key.text), ", is ", key.text.size(), " bytes long, more than the ", kMaxTensorNameBytes,
            " allowed");
    spend(key.text.size());
    name_ = key.text;
    const Recipe recipe = recipe_of(value);
    if (recipe.function == "torch._utils._rebuild_wrapper_subclass")
      add_parts(recipe);
    else
      add_tensor(std::string(name_), recipe);
  }

  bool is_call_of(const PickleValue& value, std::string_view function) const {
    return value.kind == Kind::kCall && value.items[0]->text == function;
  }

  // Looks through parameters and types down to the function that makes the tensor.
  Recipe recipe_of(const PickleValue& value) const {
    if (value.kind != Kind::kCall) refuse(ErrorKind::kUnsupported, "is ", kind_name(value), ", not a tensor");
    demand(value.state == nullptr, "has a state set on it");
    return recipe_of(value.items[0]->text, *value.items[1]);
  }
  Recipe recipe_of(std::string_view function, const PickleValue& arguments, int depth = 0) const {
    demand(depth < 4, "is wrapped too often");
    const Items& items = arguments.items;
    if (function == "torch._utils._rebuild_parameter") {
      demand(items.size() == 3 && items[0]->kind == Kind::kCall && !items[0]->state,
             "is a parameter of something else than a tensor");
      return recipe_of(items[0]->items[0]->text, *items[0]->items[1], depth + 1);
    }
    if (function == "torch._tensor._rebuild_from_type_v2") return typed_recipe(items, depth);
    if (function != "torch._utils._rebuild_tensor_v2" && function != "torch._utils._rebuild_tensor_v3")
      refuse(ErrorKind::kUnsupported, "is made by ", printable(function), ", which makes no tensor");
    return {function, &items, {}, nullptr};
  }

  // (function, type, arguments, state): a plain tensor of a known type, or one of a class of its own.
  Recipe typed_recipe(const Items& items, int depth) const {
    demand(items.size() == 4 && items[0]->kind == Kind::kName && items[1]->kind == Kind::kName &&
               items[2]->kind == Kind::kTuple,
           "is of a type without function, class and arguments");
    if (!items[1]->is_class) {
      const std::string_view type = items[1]->text;
      demand(type == "torch.Tensor" || type == "torch.nn.parameter.Parameter", "is of type ", printable(type),
             ", which is no class of tensors");
      return recipe_of(items[0]->text, *items[2], depth + 1);
    }
    if (items[0]->text != "torch._utils._rebuild_wrapper_subclass")
      refuse(ErrorKind::kUnsupported, "is a ", printable(items[1]->text), " made by ",
             printable(items[0]->text), ", expected '_rebuild_wrapper_subclass'");
    const Items& made_of = items[2]->items;
    demand(!made_of.empty() && made_of[0]->kind == Kind::kName && made_of[0]->text == items[1]->text,
           "is of class ", printable(items[1]->text), ", but made as another");
    return {items[0]->text, &made_of, items[1]->text, items[3]};
  }

  int64_t integer(const PickleValue& value, std::string_view what) const {
    demand(value.kind == Kind::kInt && value.integer >= 0, what, " is no whole number");
    return value.integer;
  }

  std::vector<int64_t> extents(const PickleValue& value, std::string_view what) const {
    const PickleValue* tuple = &value;
    if (is_call_of(value, "torch.Size") && value.items[1]->items.size() == 1)
      tuple = value.items[1]->items[0];
    demand(tuple->kind == Kind::kTuple, what, " is no tuple");
    demand(tuple->items.size() <= kMaxTensorRank, what, " has ", tuple->items.size(),
           " dimensions, more than the ", kMaxTensorRank, " allowed");
    std::vector<int64_t> out;
    for (const PickleValue* item : tuple->items) out.push_back(integer(*item, what));
    return out;
  }

  struct Storage {
    TorchZip::Range range;
    std::optional<DType> dtype;  // none: bytes
  };

  // ("storage", class, key, device, elements), held against the archive's entry.
  Storage storage(const PickleValue& value) const {
    demand(value.kind == Kind::kStorage, "has ", kind_name(value), " in place of its storage");
    const Items& id = value.items;
    demand(id[0]->kind == Kind::kString && id[0]->text == "storage" && id[1]->kind == Kind::kName &&
               id[2]->kind == Kind::kString && id[3]->kind == Kind::kString,
           "has a storage whose id is not ('storage', class, key, device, elements)");
    const std::string_view type = id[1]->text;
    const bool untyped = type == "torch.UntypedStorage" || type == "torch.storage.UntypedStorage";
    const auto dtype = dtype_of_storage(type);
    if (!untyped && !dtype)
      refuse(ErrorKind::kUnsupported, "has a storage of class ", printable(type), ", which is not read");
    const auto entry = zip_.storages.find(id[2]->text);
    demand(entry != zip_.storages.end(), "its storage ", printable(id[2]->text), " is not in the file");
    const auto bytes = checked_mul(static_cast<uint64_t>(integer(*id[4], "the length of its storage")),
                                   untyped ? 1 : static_cast<uint64_t>(dtype_info(*dtype).block_bytes));
    demand(bytes && *bytes == entry->second.size_bytes, "its storage ", printable(id[2]->text), " of ",
           id[4]->integer, untyped ? " bytes" : cat(" ", dtype_info(*dtype).name), " takes ",
           entry->second.size_bytes, " bytes in the file");
    return {entry->second, dtype};
  }

  // The last of v3's arguments says what v2 takes from the storage.
  DType element(const Items& arguments, bool v3, const Storage& storage) const {
    if (!v3) {
      demand(storage.dtype.has_value(), "has a storage of bytes and no dtype");
      return *storage.dtype;
    }
    demand(arguments[6]->kind == Kind::kName && is_torch_dtype(arguments[6]->text), "its dtype is none");
    const auto dtype = dtype_of_torch(arguments[6]->text);
    if (!dtype) refuse(ErrorKind::kUnsupported, "dtype ", printable(arguments[6]->text), " is not read");
    return *dtype;
  }

  // (storage, offset, size, stride, requires_grad, hooks[, dtype][, flags])
  void add_tensor(std::string name, const Recipe& recipe) {
    const Items& items = *recipe.arguments;
    const bool v3 = recipe.function.ends_with("v3");
    const size_t count = v3 ? 7 : 6;
    demand(items.size() == count || items.size() == count + 1, "is made from ", items.size(), " values");
    if (items.size() > count)
      demand(items.back()->kind == Kind::kNone ||
                 (items.back()->kind == Kind::kDict && items.back()->items.empty()),
             "has the flag of a conjugate or negative view, which is not read");
    const Storage from = storage(*items[0]);
    PickledTensor tensor{
        .info = {std::move(name), element(items, v3, from), extents(*items[2], "its size"), 0}};
    place(tensor, from.range, static_cast<uint64_t>(integer(*items[1], "its offset")),
          extents(*items[3], "its stride"));
    require(found_.tensors.size() < kMaxTensors, ErrorKind::kBadFile, what_, ": holds more than the ",
            kMaxTensors, " tensors allowed");
    found_.tensors.push_back(std::move(tensor));
  }

  // Every element inside the storage, and no more of them than it has.
  void place(PickledTensor& tensor, TorchZip::Range range, uint64_t offset,
             const std::vector<int64_t>& strides) const {
    TensorInfo& info = tensor.info;
    demand(strides.size() == info.shape.size(), "has size ", info.shape, " and stride ", strides);
    const auto bytes = checked_tensor_bytes(info.dtype, info.shape);
    demand(bytes.has_value(), "the size of ", info.shape, " overflows");
    info.size_bytes = *bytes;
    const auto width = static_cast<uint64_t>(dtype_info(info.dtype).block_bytes);
    const std::optional<uint64_t> end = *bytes == 0 ? offset : end_of(info.shape, strides, offset);
    const std::optional<uint64_t> end_bytes = end ? checked_mul(*end, width) : std::nullopt;
    demand(end_bytes && *end_bytes <= range.size_bytes, "size ", info.shape, ", stride ", strides,
           " and offset ", offset, " leave its storage of ", range.size_bytes, " bytes");
    demand(*bytes <= range.size_bytes, "repeats elements: ", *bytes, " bytes of a storage of ",
           range.size_bytes);
    tensor.offset = range.offset + offset * width;
    tensor.span_bytes = *end_bytes - offset * width;
    if (!is_contiguous(info.shape, strides)) tensor.strides = strides;
  }

  // One past the last element. Precondition: no extent is 0.
  static std::optional<uint64_t> end_of(const std::vector<int64_t>& shape,
                                        const std::vector<int64_t>& strides, uint64_t offset) {
    std::optional<uint64_t> last = offset;
    for (size_t i = 0; last && i < shape.size(); ++i) {
      const auto span = checked_mul(static_cast<uint64_t>(shape[i] - 1), static_cast<uint64_t>(strides[i]));
      last = span ? checked_add(*last, *span) : std::nullopt;
    }
    return last ? checked_add(*last, 1) : std::nullopt;
  }

  static bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0; expected *= shape[i])
      if (shape[i] != 1 && strides[i] != expected) return false;
    return true;
  }

  // A tensor of a class of its own: what hangs on it, as tensors and as text.
  void add_parts(const Recipe& recipe) {
    demand(recipe.state && recipe.state->kind == Kind::kDict, "a ", printable(recipe.class_name),
           " without a dictionary of attributes");
    const size_t dot = name_.rfind('.');
    const std::string prefix = dot == name_.npos
                                   ? cat("_", name_, "_")
                                   : cat(name_.substr(0, dot), "._", name_.substr(dot + 1), "_");
    json attributes = json::object(), parts = json::array();
    const Items& items = recipe.state->items;
    for (size_t i = 0; i < items.size(); i += 2) {
      demand(items[i]->kind == Kind::kString, "an attribute's name is ", kind_name(*items[i]));
      const std::string_view key = items[i]->text;
      spend(2 * prefix.size() + key.size() + 16);
      demand(key.size() <= kMaxTensorNameBytes, "an attribute's name has ", key.size(), " bytes");
      if (is_tensor(*items[i + 1])) {
        demand(parts.size() < kMaxParts, "has more than the ", kMaxParts, " tensors allowed inside it");
        add_tensor(cat(prefix, key), part_recipe(key, *items[i + 1]));
        found_.tensors.back().part_of = name_;
        parts.push_back(key);
      } else {
        const bool first = attributes.emplace(key, attribute(*items[i + 1], 0)).second;
        demand(first, "attribute ", printable(key), " stands twice");
      }
    }
    describe(json{{"_type", last_part(recipe.class_name)},
                  {"_data", std::move(attributes)},
                  {"_tensor_data_names", std::move(parts)}});
  }

  static bool is_tensor(const PickleValue& value) {
    return value.kind == Kind::kCall && value.items[0]->text.find("._rebuild_") != std::string_view::npos;
  }

  Recipe part_recipe(std::string_view key, const PickleValue& value) const {
    const Recipe recipe = recipe_of(value);
    if (!recipe.class_name.empty())
      refuse(ErrorKind::kUnsupported, "its part ", printable(key), " is itself of a class, ",
             printable(recipe.class_name), "; parts must be plain tensors");
    return recipe;
  }

  void describe(const json& description) {
    std::string text;
    try {
      text = description.dump();
    } catch (const json::exception&) {
      demand(false, "its attributes hold broken UTF-8");
    }
    const bool first = found_.metadata.emplace(std::string(name_), std::move(text)).second;
    demand(first, "stands twice in the file");
  }

  json attribute(const PickleValue& value, int depth) {
    demand(depth < kMaxDepth, "its attributes are nested deeper than ", kMaxDepth, " levels");
    spend(16 + value.text.size());
    switch (value.kind) {
      case Kind::kNone:
        return nullptr;
      case Kind::kBool:
        return value.integer != 0;
      case Kind::kInt:
        return value.integer;
      case Kind::kFloat:
        demand(std::isfinite(value.real), "an attribute is not finite");
        return value.real;
      case Kind::kString:
        return value.text;
      case Kind::kTuple:
      case Kind::kList:
        return list(value.items, depth);
      case Kind::kDict:
        return dictionary(value.items, depth);
      case Kind::kName:
        demand(is_torch_dtype(value.text), "an attribute is the name ", printable(value.text));
        return {{"_type", "torch.dtype"}, {"_data", last_part(value.text)}};
      case Kind::kStorage:
        refuse(ErrorKind::kBadFile, "an attribute is a bare storage");
      case Kind::kCall:
        return object(value, depth);
    }
    return nullptr;
  }

  json list(const Items& items, int depth) {
    json out = json::array();
    for (const PickleValue* item : items) out.push_back(attribute(*item, depth + 1));
    return out;
  }

  json dictionary(const Items& items, int depth) {
    json out = json::object();
    for (size_t i = 0; i < items.size(); i += 2) {
      demand(items[i]->kind == Kind::kString, "an attribute's key is ", kind_name(*items[i]));
      spend(16 + items[i]->text.size());
      out[std::string(items[i]->text)] = attribute(*items[i + 1], depth + 1);
    }
    return out;
  }

  // A torch.Size is its list. Any other object is named, with its state or else what it was made of.
  json object(const PickleValue& value, int depth) {
    const Items& arguments = value.items[1]->items;
    if (is_call_of(value, "torch.Size") && arguments.size() == 1) return attribute(*arguments[0], depth + 1);
    if (!value.items[0]->is_class)
      refuse(ErrorKind::kUnsupported, "an attribute is made by ", printable(value.items[0]->text));
    const std::string_view name = last_part(value.items[0]->text);
    spend(16 + name.size());
    json data;
    if (value.state)
      data = attribute(*value.state, depth + 1);
    else
      data = arguments.size() == 1 ? attribute(*arguments[0], depth + 1) : list(arguments, depth);
    return {{"_type", name}, {"_data", std::move(data)}};
  }

  void sort() {
    auto& all = found_.tensors;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.info.name < b.info.name; });
    const auto twice = std::adjacent_find(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.info.name == b.info.name; });
    require(twice == all.end(), ErrorKind::kBadFile, what_, ": tensor ",
            twice == all.end() ? "" : printable(twice->info.name), " stands twice in the file");
    const auto before = [](const PickledTensor& a, const std::string& b) { return a.info.name < b; };
    for (const auto& [name, text] : found_.metadata) {
      const auto at = std::lower_bound(all.begin(), all.end(), name, before);
      require(at == all.end() || at->info.name != name, ErrorKind::kBadFile, what_, ": tensor ",
              printable(name), " stands twice in the file");
    }
  }

  std::string_view what_, name_;
  TorchZip zip_;
  PickleTree tree_;
  size_t budget_ = 0;
  PickledTensors found_;
};

}  // namespace

PickledTensors read_pickled_tensors(std::span<const std::byte> file, std::string_view what) {
  return Collector(file, what).collect();
}

}  // namespace quaver
