#include "formats/bitsandbytes_4bit.h"

#include <cmath>
#include <numeric>

#include "formats/bitstream.h"
#include "formats/layer_reader.h"
#include "numerics/element_value.h"

namespace quaver {
namespace {

constexpr const char* kNF4State = "weight.quant_state.bitsandbytes__nf4";
constexpr const char* kFP4State = "weight.quant_state.bitsandbytes__fp4";

// The JSON that stands in a tensor of bytes.
struct State {
  Element element;
  Extent2d shape;
  int64_t block, nested_block;
  float nested_offset;
};

const char* state_part(const LayerReader& reader) { return reader.has(kNF4State) ? kNF4State : kFP4State; }

int64_t positive(const json& state, const char* key, int64_t fallback, const std::string& what) {
  const auto value = json_value<int64_t>(state, key, fallback, what);
  require(value > 0 && value <= int64_t{1} << 20, ErrorKind::kBadFile, what, ": key '", key, "' is ", value,
          ", expected a size");
  return value;
}

State read_state(const LayerReader& reader) {
  const char* part = state_part(reader);
  const std::string what = reader.where(part);
  const auto bytes = reader.read(part, {DType::kU8}).data.as<char>();
  const json state = parse_json({bytes.data(), bytes.size()}, what, {.max_bytes = 4096, .max_depth = 4});
  require(state.is_object(), ErrorKind::kBadFile, what, " must hold an object");
  const auto type = json_required<std::string>(state, "quant_type", what);
  const bool nf4 = part == kNF4State;
  require(type == (nf4 ? "nf4" : "fp4"), ErrorKind::kBadFile, what, ": key 'quant_type' is '",
          type.substr(0, 80), "', expected that of its name");
  const auto shape = json_required<std::vector<int64_t>>(state, "shape", what);
  require(shape.size() == 2, ErrorKind::kBadFile, what, ": key 'shape' is ", shape, ", expected two extents");
  return {.element = nf4 ? Element::kNF4 : Element::kFP4,
          .shape = reader.checked_shape(part, shape[0], shape[1]),
          .block = positive(state, "blocksize", 64, what),
          .nested_block = positive(state, "nested_blocksize", 256, what),
          .nested_offset = json_value<float>(state, "nested_offset", 0.0f, what)};
}

// The table beside the codes is that of the element, or its name lies.
void check_map(const LayerReader& reader, Element element) {
  const std::vector<float> map = reader.floats("weight.quant_map", 16);
  for (uint8_t code = 0; code < 16; ++code)
    require(map[code] == element_value(element, code), ErrorKind::kBadFile, reader.where("weight.quant_map"),
            " holds ", map[code], " for code ", static_cast<int>(code), ", expected ",
            element_value(element, code), ", as ", element_info(element).name, " has it");
}

// One scale for each run, through the second level where there is one.
std::vector<float> read_runs(const LayerReader& reader, const State& state, int64_t count) {
  if (!reader.has("weight.nested_absmax")) return reader.floats("weight.absmax", count);
  const TensorView stored = reader.read("weight.absmax", {DType::kU8});
  require(static_cast<int64_t>(stored.data.size_bytes()) == count, ErrorKind::kBadFile,
          reader.where("weight.absmax"), " has shape ", stored.shape, ", expected ", count, " entries");
  const std::vector<float> map = reader.floats("weight.nested_quant_map", 256);
  const std::vector<float> nested =
      reader.floats("weight.nested_absmax", (count + state.nested_block - 1) / state.nested_block);
  std::vector<float> scales;
  for (int64_t i = 0; i < count; ++i) {
    const float product = map[stored.data.as<uint8_t>()[static_cast<size_t>(i)]] *
                          nested[static_cast<size_t>(i / state.nested_block)];
    scales.push_back(product + state.nested_offset);
  }
  return scales;
}

// Flat codes; in the file the even one of two has the high half of the byte.
std::vector<uint8_t> read_flat_codes(const LayerReader& reader, const Checkpoint& checkpoint,
                                     const LayerPlan& plan, int64_t count) {
  const TensorView view = checkpoint.read(plan.tensors.at(0));  // any dtype: it only holds bytes
  require(static_cast<int64_t>(view.data.size_bytes()) == (count + 1) / 2, ErrorKind::kBadFile,
          reader.where("weight"), " has ", view.data.size_bytes(), " bytes, expected ", (count + 1) / 2);
  const auto bytes = view.data.bytes();
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint8_t>(bytes[i / 2] >> (i % 2 ? 0 : 4)) & 15;
  return codes;
}

uint8_t code_of_zero(Element element) { return element == Element::kNF4 ? 7 : 0; }

// A run of zeros has scale 0 and whatever codes its division by zero made.
void clear_zero_runs(const std::vector<float>& runs, const State& state, std::vector<uint8_t>& codes) {
  for (size_t i = 0; i < codes.size(); ++i)
    if (runs[i / static_cast<size_t>(state.block)] == 0.0f) codes[i] = code_of_zero(state.element);
}

Buffer pack_rows(const std::vector<uint8_t>& codes, Extent2d shape) {
  const int64_t row_bytes = bitstream_bytes(shape.cols, 4);
  std::byte* target = nullptr;
  Buffer buffer = Buffer::allocate(static_cast<size_t>(shape.rows * row_bytes), target);
  for (int64_t n = 0; n < shape.rows; ++n)
    pack_codes(codes.data() + n * shape.cols, 4, shape.cols, target + n * row_bytes);
  return buffer;
}

// Runs go over the ends of rows. Groups of the greatest length that divides run and row lie in one run each.
void set_scales(const std::vector<float>& runs, const State& state, QuantWeight& weight) {
  const int64_t group = std::gcd(state.block, state.shape.cols);
  weight.group = {1, group};
  std::vector<float> scales(static_cast<size_t>(state.shape.rows * state.shape.cols / group));
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = runs[i * static_cast<size_t>(group) / static_cast<size_t>(state.block)];
  weight.scale = {.codec = ScaleCodec::kF32, .data = Buffer::copy_of(scales)};
}

}  // namespace

std::string find_4bit_state(const Checkpoint& checkpoint, std::string_view layer) {
  std::string found;
  for (const char* part : {kNF4State, kFP4State}) {
    const std::string name = cat(layer, ".", part);
    if (!checkpoint.find(name)) continue;
    require(found.empty(), ErrorKind::kBadFile, checkpoint.file_of(name), ": tensor '", name,
            "' stands beside '", found, "'; a layer has one or the other");
    found = name;
  }
  return found;
}

std::vector<std::string> tensors_4bit(const Checkpoint& checkpoint, std::string_view layer,
                                      const std::string& state) {
  std::vector<std::string> names = {cat(layer, ".weight"), cat(layer, ".weight.absmax"),
                                    cat(layer, ".weight.quant_map"), state};
  const std::string nested = cat(layer, ".weight.nested_absmax"),
                    map = cat(layer, ".weight.nested_quant_map");
  if (checkpoint.find(nested) || checkpoint.find(map)) names.insert(names.end(), {nested, map});
  for (const std::string& name : names)
    require(checkpoint.find(name) != nullptr, ErrorKind::kBadFile, checkpoint.path().string(), ": tensor '",
            name, "' is missing although '", state, "' stands there");
  return names;
}

QuantWeight unpack_4bit(const LayerPlan& plan, const Checkpoint& checkpoint) {
  const LayerReader reader(plan, checkpoint);
  const State state = read_state(reader);
  check_map(reader, state.element);
  const int64_t count = state.shape.rows * state.shape.cols;
  std::vector<uint8_t> codes = read_flat_codes(reader, checkpoint, plan, count);
  const std::vector<float> runs = read_runs(reader, state, (count + state.block - 1) / state.block);
  clear_zero_runs(runs, state, codes);
  QuantWeight weight;
  weight.element = state.element;
  weight.shape = state.shape;
  weight.codes = pack_rows(codes, state.shape);
  set_scales(runs, state, weight);
  validate(weight, reader.what());
  return weight;
}

}  // namespace quaver
