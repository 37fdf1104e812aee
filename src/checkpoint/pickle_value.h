// What an unpickled file holds: plain values, names, and calls that were written down and not made.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kTuple,
    kList,
    kDict,     // items: key, value, key, value ... in the file's order, keys may repeat
    kName,     // of a function or class, "torch.Size"
    kStorage,  // items: the persistent id's parts
    kCall,     // items: function, arguments (a tuple); and a state, when one was set on the result
  };
  Kind kind = Kind::kNone;
  bool is_class = false;  // of kName: stands for a class that is known by its name alone
  int64_t integer = 0;    // kBool, kInt
  double real = 0;
  std::string_view text;  // kString, kName
  std::vector<const PickleValue*> items;
  const PickleValue* state = nullptr;  // what BUILD set
};

// Owns its values, which point at one another (in circles, too) and into the pickle's bytes.
struct PickleTree {
  std::deque<PickleValue> values;
  std::deque<std::string> names;  // what kName points at
  const PickleValue* root = nullptr;
};

}  // namespace quaver
