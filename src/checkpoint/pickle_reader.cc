#include "checkpoint/pickle_reader.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/pickle_names.h"
#include "checkpoint/printable.h"

namespace quaver {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxNameBytes = 256;

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, std::string_view what) : bytes_(pickle), what_(what) {}

  PickleTree run() {
    demand(bytes_.size() <= kMaxPickleBytes, "is ", bytes_.size(), " bytes long, more than the ",
           kMaxPickleBytes, " allowed");
    demand(next_byte() == 0x80, "does not begin with its protocol");
    const auto protocol = next_byte();
    require(protocol >= 2 && protocol <= 5, ErrorKind::kUnsupported, what_, ": pickle protocol ",
            static_cast<int>(protocol), " is not read; 2 to 5 are");
    while (step()) {
    }
    demand(at_ == bytes_.size(), "goes on after its end");
    demand(stack_.size() == 1 && marks_.empty(), "ends with ", stack_.size(), " values, expected one");
    tree_.root = stack_.back();
    return std::move(tree_);
  }

 private:
  // False at the last opcode.
  bool step() {
    opcode_at_ = at_;
    const uint8_t opcode = next_byte();
    if (opcode == '.') return false;
    require(is_value(opcode) || is_container(opcode) || is_note_or_call(opcode), ErrorKind::kUnsupported,
            what_, ": pickle byte ", opcode_at_, ": opcode ", static_cast<int>(opcode),
            " is not read, as torch.save does not write it; only tensors are read");
    return true;
  }

  // Does what the opcode says, if it is one of these.
  bool is_value(uint8_t opcode) {
    switch (opcode) {
      case 'N':
        return push(Kind::kNone), true;
      case 0x88:
      case 0x89:
        return push(Kind::kBool).integer = opcode == 0x88, true;
      case 'K':
      case 'M':
      case 'J':
      case 0x8a:
        return push_integer(opcode), true;
      case 'G':
        return push_float(), true;
      case 'X':
      case 0x8c:
      case 0x8d:
        return push_string(next_number(opcode == 'X' ? 4 : opcode == 0x8c ? 1 : 8)), true;
      default:
        return false;
    }
  }

  bool is_container(uint8_t opcode) {
    switch (opcode) {
      case '(':
        return marks_.push_back(stack_.size()), true;
      case ')':
        return push_tuple(0), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(opcode - 0x84u), true;
      case 't':
        return push_tuple(above_mark()), true;
      case ']':
        return push(Kind::kList), true;
      case '}':
        return push(Kind::kDict), true;
      case 'a':
        return extend(Kind::kList, 1, "appends to"), true;
      case 'e':
        return extend(Kind::kList, above_mark(), "appends to"), true;
      case 's':
        return extend(Kind::kDict, 2, "sets items of"), true;
      case 'u':
        return extend(Kind::kDict, even(above_mark()), "sets items of"), true;
      default:
        return false;
    }
  }

  bool is_note_or_call(uint8_t opcode) {
    switch (opcode) {
      case 'q':
      case 'r':
        return put(next_number(opcode == 'q' ? 1 : 4)), true;
      case 0x94:
        return put(memo_.size()), true;
      case 'h':
      case 'j':
        return get(next_number(opcode == 'h' ? 1 : 4)), true;
      case 'c':
        return push_name_from_lines(), true;
      case 0x93:
        return push_name_from_stack(), true;
      case 'Q':
        return push_storage(), true;
      case 'R':
      case 0x81:
        return call(opcode == 'R'), true;
      case 'b':
        return set_state(), true;
      case 0x95:
        return demand(next_number(8) <= bytes_.size() - at_, "has a frame that runs past its end"), true;
      default:
        return false;
    }
  }

  template <class... Args>
  void demand(bool holds, const Args&... message) const {
    require(holds, ErrorKind::kBadFile, what_, ": the pickle ", message...);
  }
  template <class... Args>
  void demand_here(bool holds, const Args&... message) const {
    require(holds, ErrorKind::kBadFile, what_, ": pickle byte ", opcode_at_, ": ", message...);
  }

  std::string_view take(uint64_t count) {
    demand(count <= bytes_.size() - at_, "ends inside the value at byte ", opcode_at_, " (cut off?)");
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return text;
  }
  uint8_t next_byte() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t next_number(size_t width) {
    return read_little_endian(std::as_bytes(std::span(take(width))), 0, width);
  }
  std::string_view next_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                std::min(bytes_.size() - at_, kMaxNameBytes));
    const size_t length = rest.find('\n');
    demand_here(length != rest.npos, "a name is longer than ", kMaxNameBytes, " bytes, or cut off");
    return take(length + 1).substr(0, length);
  }

  PickleValue& push(Kind kind) {
    demand(tree_.values.size() < kMaxPickleValues, "holds more than the ", kMaxPickleValues,
           " values allowed");
    PickleValue& value = tree_.values.emplace_back();
    value.kind = kind;
    stack_.push_back(&value);
    return value;
  }

  // What lies above the last mark belongs to it; nothing may be taken from below.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  PickleValue* pop() {
    demand_here(available() > 0, "takes a value where there is none");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    demand_here(available() > 0, "takes a value where there is none");
    return *stack_.back();
  }
  size_t above_mark() {
    demand_here(!marks_.empty(), "looks for a mark where there is none");
    const size_t count = available();
    marks_.pop_back();
    return count;
  }
  size_t even(size_t count) const {
    demand_here(count % 2 == 0, "sets ", count, " keys and values, which are no pairs");
    return count;
  }

  void push_integer(uint8_t opcode) {
    const size_t width = opcode == 'K' ? 1 : opcode == 'M' ? 2 : opcode == 'J' ? 4 : next_byte();
    demand_here(width <= 8, "an integer has ", width, " bytes, more than 8");
    uint64_t bits = next_number(width);
    const bool has_sign = opcode == 'J' || opcode == 0x8a;
    if (has_sign && width > 0 && width < 8 && bits >> (8 * width - 1)) bits |= ~uint64_t{0} << (8 * width);
    push(Kind::kInt).integer = static_cast<int64_t>(bits);
  }

  // Big-endian, alone among the opcodes.
  void push_float() {
    uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
    push(Kind::kFloat).real = std::bit_cast<double>(bits);
  }

  void push_string(uint64_t length) {
    const std::string_view text = take(length);
    push(Kind::kString).text = text;
  }

  void push_tuple(size_t count) {
    std::vector<const PickleValue*> items = pop_many(count);
    push(Kind::kTuple).items = std::move(items);
  }

  std::vector<const PickleValue*> pop_many(size_t count) {
    demand_here(available() >= count, "takes ", count, " values where there are ", available());
    std::vector<const PickleValue*> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  void extend(Kind kind, size_t count, std::string_view does) {
    const std::vector<const PickleValue*> items = pop_many(count);
    PickleValue& target = top();
    demand_here(target.kind == kind, does, " what is no ", kind == Kind::kList ? "list" : "dictionary");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  // Picklers number their notes one after the other.
  void put(uint64_t number) {
    demand_here(number <= memo_.size(), "note ", number, " is stored after ", memo_.size(), " others");
    if (number == memo_.size())
      memo_.push_back(&top());
    else
      memo_[number] = &top();
  }
  void get(uint64_t number) {
    demand_here(number < memo_.size(), "note ", number, " was never stored");
    stack_.push_back(memo_[number]);
  }

  void push_name_from_lines() {
    const std::string_view module = next_line();
    push_name(module, next_line());
  }
  void push_name_from_stack() {
    const PickleValue *name = pop(), *module = pop();
    demand_here(name->kind == Kind::kString && module->kind == Kind::kString, "a name is no string");
    push_name(module->text, name->text);
  }
  void push_name(std::string_view module, std::string_view name) {
    std::string full = cat(module, ".", name);
    demand_here(full.size() <= kMaxNameBytes, "a name is longer than ", kMaxNameBytes, " bytes");
    const bool known = is_known_pickle_name(full);
    require(known || classes_.admit(module, name), ErrorKind::kUnsupported, what_, ": names ",
            printable(full), "; only tensors are read from a pickle, and nothing in it is run");
    PickleValue& value = push(Kind::kName);
    value.is_class = !known;
    value.text = tree_.names.emplace_back(std::move(full));
  }

  void push_storage() {
    const PickleValue* id = pop();
    demand_here(id->kind == Kind::kTuple && id->items.size() == 5, "the id of a storage is no tuple of five");
    push(Kind::kStorage).items = id->items;
  }

  void call(bool any_function) {
    const PickleValue *arguments = pop(), *function = pop();
    demand_here(function->kind == Kind::kName && arguments->kind == Kind::kTuple,
                "calls what is no function, or without a tuple of arguments");
    demand_here(any_function || function->is_class, "makes an object of ", printable(function->text),
                ", which is no class");
    if (function->text == "collections.OrderedDict" && arguments->items.empty()) {
      push(Kind::kDict);
      return;
    }
    push(Kind::kCall).items = {function, arguments};
  }

  // A dictionary's own state is what Python hung on it ("_metadata" of a state dict): no tensors.
  void set_state() {
    const PickleValue* state = pop();
    PickleValue& object = top();
    demand_here(object.kind == Kind::kCall || object.kind == Kind::kDict,
                "sets the state of what is no object");
    demand_here(object.state == nullptr, "sets the state of an object twice");
    object.state = state;
  }

  std::span<const std::byte> bytes_;
  std::string_view what_;
  size_t at_ = 0, opcode_at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<PickleValue*> memo_;
  PickleClasses classes_;
  PickleTree tree_;
};

}  // namespace

PickleTree read_pickle(std::span<const std::byte> pickle, std::string_view what) {
  return Machine(pickle, what).run();
}

}  // namespace quaver
