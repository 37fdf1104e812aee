// Parts of quantized matrices have the bits of the whole: every element, group, second level, offset and
// order, and every layer that a vendor's tool wrote.
#include "formats/shard.h"

#include <filesystem>
#include <numeric>
#include <random>

#include "format_checks.h"
#include "formats/bitstream.h"

namespace quaver {
namespace {

using Runs = std::vector<IndexRun>;

// What the random weights below differ in.
struct ShardCase {
  Element element;
  Extent2d shape, group;
  ScaleCodec codec = ScaleCodec::kF16;
  int64_t above = 0;  // scales of the second level; 0: there is none
  enum class Offset { kNone, kZeros, kMins } offset = Offset::kNone;
};

// Finite and not zero in every codec, and unlike its neighbours.
Buffer scales_in(ScaleCodec codec, int64_t count, std::mt19937& generator) {
  const int bytes = scale_codec_info(codec).bytes;
  std::vector<uint8_t> data(static_cast<size_t>(count * bytes));
  for (size_t i = 0; i < data.size(); ++i) {
    const bool top = static_cast<int>(i % static_cast<size_t>(bytes)) == bytes - 1;
    data[i] = static_cast<uint8_t>(bytes == 1 ? 1 + generator() % 15 : top ? 0x3c : generator() % 128);
  }
  return Buffer::copy_of(data);
}

Scales random_scales(const ShardCase& which, int64_t count, std::mt19937& generator) {
  Scales scales{.codec = which.codec, .data = scales_in(which.codec, count, generator)};
  if (which.above == 0) return scales;
  scales.super = std::make_unique<Scales>();
  scales.super->data = scales_in(ScaleCodec::kF32, which.above, generator);
  return scales;
}

QuantWeight random_weight(const ShardCase& which, uint32_t seed = 5) {
  std::mt19937 generator(seed);
  QuantWeight w{.element = which.element, .shape = which.shape, .group = which.group};
  const int bits = element_info(w.element).bits;
  std::byte* target = nullptr;
  w.codes = Buffer::allocate(static_cast<size_t>(w.shape.rows * w.row_bytes()), target);
  std::vector<uint8_t> codes(static_cast<size_t>(w.shape.cols));
  for (int64_t row = 0; row < w.shape.rows; ++row) {
    for (uint8_t& code : codes) code = static_cast<uint8_t>(generator() % (bits == 8 ? 120u : 1u << bits));
    pack_codes(codes.data(), bits, w.shape.cols, target + row * w.row_bytes());
  }
  const int64_t count = w.num_group_rows() * w.num_group_cols();
  w.scale = random_scales(which, count, generator);
  if (which.offset == ShardCase::Offset::kMins) w.offset = RealMins{random_scales(which, count, generator)};
  if (which.offset == ShardCase::Offset::kZeros) {
    std::vector<uint8_t> zeros(static_cast<size_t>(count));
    for (uint8_t& zero : zeros) zero = static_cast<uint8_t>(generator() % (1u << bits));
    w.offset = IntegerZeros{Buffer::copy_of(zeros)};
  }
  return w;
}

std::vector<int64_t> indices(const Runs& runs) {
  std::vector<int64_t> all;
  for (const IndexRun& run : runs)
    for (int64_t i = 0; i < run.count; ++i) all.push_back(run.first + i);
  return all;
}

// Bits of the values, so that -0 and 0 differ.
void expect_slice(const QuantWeight& whole, const std::vector<float>& values, const QuantWeight& part,
                  const std::vector<int64_t>& rows, const std::vector<int64_t>& columns) {
  ASSERT_EQ(part.shape, (Extent2d{static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size())}));
  validate(part, "part");
  const std::vector<float> got = dequantize(part);
  size_t at = 0;
  for (const int64_t row : rows)
    for (const int64_t column : columns) {
      const float want = values[static_cast<size_t>(row * whole.shape.cols + column)];
      ASSERT_EQ(std::bit_cast<uint32_t>(got[at++]), std::bit_cast<uint32_t>(want)) << row << " " << column;
    }
}

void expect_rows(const QuantWeight& whole, const std::vector<float>& values, const Runs& runs) {
  expect_slice(whole, values, rows_of(whole, runs), indices(runs), indices({{0, whole.shape.cols}}));
}

void expect_columns(const QuantWeight& whole, const std::vector<float>& values, const Runs& runs) {
  expect_slice(whole, values, columns_of(whole, runs, "layer"), indices({{0, whole.shape.rows}}),
               indices(runs));
}

// Whole, halves, thirds at odd places, two parts in one, and two in the wrong order.
std::vector<Runs> cuts_of(int64_t extent) {
  const int64_t half = extent / 2, third = extent / 3;
  return {{{0, extent}},
          {{0, half}},
          {{half, extent - half}},
          {{third, third}},
          {{extent - 1, 1}},
          {{1, third}, {half, extent - half}},
          {{half, extent - half}, {0, third}}};
}

void expect_parts(const QuantWeight& whole) {
  const std::vector<float> values = dequantize(whole);
  for (const Runs& runs : cuts_of(whole.shape.rows)) expect_rows(whole, values, runs);
  for (const Runs& runs : cuts_of(whole.shape.cols)) expect_columns(whole, values, runs);
}

TEST(Shard, EveryElementHasTheBitsOfTheWhole) {
  for (const ElementInfo& element : kElements)
    for (const Extent2d group : {Extent2d{1, 8}, Extent2d{1, 72}, Extent2d{4, 16}, Extent2d{9, 72}}) {
      SCOPED_TRACE(cat(element.name, " ", group.rows, "x", group.cols));
      expect_parts(random_weight({element.element, {9, 72}, group}));
    }
}

// Rows of an odd number of codes below a byte end inside one.
TEST(Shard, OddColumnsOfEveryWidth) {
  for (const ElementInfo& element : kElements) {
    SCOPED_TRACE(element.name);
    expect_parts(random_weight({element.element, {7, 37}, {1, 16}}));
    const QuantWeight part = columns_of(random_weight({element.element, {7, 37}, {1, 16}}), Runs{{3, 5}}, "");
    EXPECT_EQ(part.row_bytes(), (5 * element.bits + 7) / 8);
  }
}

TEST(Shard, EveryScaleCodecOffsetAndSecondLevel) {
  using Offset = ShardCase::Offset;
  for (const ScaleCodecInfo& codec : kScaleCodecs)
    for (const Offset offset : {Offset::kNone, Offset::kZeros, Offset::kMins})
      for (const int64_t above : {0, 1, 3, 6, 12, 36, 72}) {
        SCOPED_TRACE(cat(codec.name, " ", static_cast<int>(offset), " ", above));
        expect_parts(random_weight({Element::kInt4, {12, 96}, {1, 16}, codec.codec, above, offset}));
      }
}

// F038: ranks that share a block both read its scale.
TEST(Shard, F038BlocksThatACutDivides) {
  for (const int64_t extent : {320, 192, 186}) {
    const QuantWeight w = random_weight({Element::kE4M3FN, {extent, extent}, {128, 128}});
    const std::vector<float> values = dequantize(w);
    for (const int64_t ranks : {2, 4})
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t first = extent * rank / ranks, end = extent * (rank + 1) / ranks;
        expect_rows(w, values, {{first, end - first}});
        expect_columns(w, values, {{first, end - first}});
      }
  }
}

TEST(Shard, GroupsAreAsLargeAsTheCutAllows) {
  const QuantWeight w = random_weight({Element::kInt4, {4, 384}, {1, 128}});
  const auto group_of = [&](const Runs& runs) { return columns_of(w, runs, "").group.cols; };
  EXPECT_EQ(group_of({{0, 256}}), 128);
  EXPECT_EQ(group_of({{128, 200}}), 128) << "a last group may be short";
  EXPECT_EQ(group_of({{64, 192}}), 64);
  EXPECT_EQ(group_of({{96, 160}}), 32);
  EXPECT_EQ(group_of({{0, 64}, {64, 64}}), 128) << "neighbours are one run";
  EXPECT_EQ(group_of({{0, 64}, {128, 64}}), 64);
  EXPECT_EQ(group_of({{130, 100}}), 100) << "inside one group there is no border";
  EXPECT_EQ(rows_of(w, Runs{{1, 2}}).group, (Extent2d{1, 128}));
}

// F034: columns in any order over the groups.
TEST(Shard, F034ActivationOrder) {
  for (const int64_t group : {32, 8, 96}) {
    QuantWeight w =
        random_weight({Element::kInt4, {6, 96}, {1, group}, ScaleCodec::kF16, 0, ShardCase::Offset::kZeros});
    w.permutation.resize(96);
    std::iota(w.permutation.begin(), w.permutation.end(), 0);
    SCOPED_TRACE(cat("in order, g", group));
    expect_parts(w);
    EXPECT_EQ(columns_of(w, Runs{{0, 48}}, "").permutation.size(), 0u);
    std::ranges::shuffle(w.permutation, std::mt19937(3));
    SCOPED_TRACE("shuffled");
    expect_parts(w);
  }
}

// Two groups of 32 that take turns: each rank has 16 columns of both, so no scale is stored twice.
TEST(Shard, ActivationOrderKeepsWhatGroupsItCan) {
  QuantWeight w = random_weight({Element::kInt4, {6, 64}, {1, 32}});
  for (int32_t k = 0; k < 64; ++k) w.permutation.push_back(k % 2 * 32 + k / 2);
  const QuantWeight part = columns_of(w, Runs{{32, 32}}, "");
  EXPECT_EQ(part.group, (Extent2d{1, 16}));
  EXPECT_EQ(part.num_group_cols(), 2);
  expect_parts(w);
}

TEST(Shard, ColumnsTakeTheirMultipliersAndRowsAllOfThem) {
  QuantWeight w = random_weight({Element::kInt8, {4, 6}, {1, 6}});
  w.input_multiplier = {1, 2, 3, 4, 5, 6};
  expect_parts(w);
  EXPECT_EQ(columns_of(w, Runs{{4, 2}, {1, 1}}, "").input_multiplier, (std::vector<float>{5, 6, 2}));
}

TEST(Shard, InputsKeepTheirGroupsOrAreRefused) {
  QuantWeight w = random_weight({Element::kE2M1, {4, 80}, {1, 16}});
  w.activation = {.mode = ActivationQuant::Mode::kDynamic, .element = Element::kE2M1, .group = 32};
  EXPECT_EQ(rows_of(w, Runs{{1, 2}}).activation, w.activation);
  EXPECT_EQ(columns_of(w, Runs{{32, 32}}, "").activation, w.activation);
  EXPECT_EQ(columns_of(w, Runs{{0, 32}, {64, 16}}, "").activation, w.activation) << "short at the end";
  for (const Runs& cut : {Runs{{16, 64}}, Runs{{0, 48}}, Runs{{64, 16}, {0, 32}}})
    EXPECT_THROW(columns_of(w, cut, ""), Error);
  EXPECT_EQ(
      error_of([&] {
        columns_of(w, Runs{{0, 48}}, "file: layer 'a'");
      }),
      "file: layer 'a': inputs are quantized in groups of 32 columns, and a part from column 0 to 48 of "
      "80 cuts one; divide the layer among fewer ranks");
  w.activation.group = -1;
  EXPECT_EQ(columns_of(w, Runs{{3, 5}}, "").activation, w.activation);
}

// What is asked of inputs is left out: cuts at odd places are refused there.
TEST(Shard, EveryFixturesLayersHaveTheBitsOfTheWhole) {
  size_t layers = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(cat(QUAVER_TEST_DATA, "/fixtures/checkpoints"))) {
    const auto checkpoint = open_hugging_face_folder(entry.path());
    const Format* format = detect_format(*checkpoint);
    if (!format) continue;
    std::vector<std::string> names = quantized_layers(*checkpoint, *format);
    if (names.size() > 3) names.resize(3);
    for (const std::string& name : names) {
      SCOPED_TRACE(cat(entry.path().filename().string(), " ", name));
      QuantWeight w = load(*checkpoint, name);
      w.activation = {};
      expect_parts(w);
      ++layers;
    }
  }
  EXPECT_GT(layers, 100u);
}

}  // namespace
}  // namespace quaver
