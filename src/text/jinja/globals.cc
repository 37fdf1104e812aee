// The functions every chat template can call.
#include <chrono>
#include <ctime>

#include "base/error.h"
#include "text/jinja/args.h"
#include "text/jinja/objects.h"

namespace quaver::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;

int64_t range_length(int64_t start, int64_t stop, int64_t step) {
  __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  __int128 stride = step > 0 ? step : -static_cast<__int128>(step);
  __int128 length = span <= 0 ? 0 : (span + stride - 1) / stride;
  return length > kMaxRange ? kMaxRange + 1 : static_cast<int64_t>(length);
}

Value range(Interpreter&, Args& args) {
  Bound a(args, "range", {"", "", ""}, 1);
  int64_t start = a.has(1) ? a.integer(0) : 0, stop = a.integer(a.has(1) ? 1 : 0), step = a.integer(2, 1);
  if (step == 0) fault("range() arg 3 must not be zero");
  int64_t length = range_length(start, stop, step);
  if (length > kMaxRange)
    fault("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i)
    items.push_back(Value::integer(static_cast<int64_t>(start + static_cast<__int128>(i) * step)));
  Value result = Value::sequence(SequenceKind::kRange, std::move(items));
  int64_t* bounds = result.seq().range;
  bounds[0] = start;
  bounds[1] = stop;
  bounds[2] = step;
  return result;
}

// What dict() and namespace() are made of: a mapping or pairs, then keywords.
std::shared_ptr<Dict> make_dict(const Args& args, const char* function) {
  auto dict = std::make_shared<Dict>();
  if (args.positional.size() > 1)
    fault(function, " expected at most 1 argument, got ", args.positional.size());
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const auto& [key, value] : args.positional[0].as_dict().entries) dict->set(key, value);
  } else if (!args.positional.empty()) {
    for (const Value& pair : to_vector(args.positional[0])) {
      std::vector<Value> two = to_vector(pair);
      if (two.size() != 2)
        fault("dictionary update sequence element has length ", two.size(), "; 2 is required");
      dict->set(two[0], two[1]);
    }
  }
  for (const auto& [name, value] : args.keyword) dict->set(name, value);
  return dict;
}

Value dict(Interpreter&, Args& args) { return Value::dict(make_dict(args, "dict")); }

Value make_namespace(Interpreter& interpreter, Args& args) {
  auto ns = std::make_shared<NamespaceObject>();
  std::shared_ptr<Dict> attributes = make_dict(args, "dict");
  for (const auto& [key, value] : attributes->entries) {
    if (!key.is_string()) fault("a namespace attribute must be a string, not ", type_name(key));
    ns->set(key.str(), value);
  }
  return interpreter.adopt(std::move(ns));
}

Value cycler(Interpreter& interpreter, Args& args) {
  if (!args.keyword.empty()) fault("cycler() takes no keyword arguments");
  if (args.positional.empty()) fault("at least one item has to be provided");
  return interpreter.adopt(std::make_shared<CyclerObject>(args.positional));
}

Value joiner(Interpreter& interpreter, Args& args) {
  Bound a(args, "joiner", {"sep"});
  return interpreter.adopt(std::make_shared<JoinerObject>(a.has(0) ? a.at(0) : Value::string(", ")));
}

Value raise_exception(Interpreter& interpreter, Args& args) {
  Bound a(args, "raise_exception", {"message"}, 1);
  throw Error(ErrorKind::kInvalidInput, interpreter.to_string(a.at(0)));
}

Value strftime_now(Interpreter&, Args& args) {
  Bound a(args, "strftime_now", {"format"}, 1);
  std::string format = a.text(0) + " ";  // strftime gives 0 both for "" and for too little room
  if (format.size() > 1000) fault("strftime_now() format is longer than 1000 bytes");
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(16 * format.size() + 4096, '\0');
  size_t length = std::strftime(out.data(), out.size(), format.c_str(), &local);
  if (length == 0) fault("strftime_now() result is too long");
  out.resize(length - 1);
  return Value::string(std::move(out));
}

}  // namespace

std::vector<std::pair<std::string, Value>> global_functions(Interpreter& interpreter) {
  static constexpr std::pair<const char*, NativeFunction> kFunctions[] = {
      {"range", range},
      {"dict", dict},
      {"cycler", cycler},
      {"joiner", joiner},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  std::vector<std::pair<std::string, Value>> out;
  for (const auto& [name, function] : kFunctions)
    out.emplace_back(name, interpreter.adopt(std::make_shared<FunctionObject>(name, function)));
  return out;
}

}  // namespace quaver::jinja
