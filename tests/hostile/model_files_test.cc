// Thousands of damaged safetensors, GGUF and JSON files and model folders.
#include <filesystem>
#include <numeric>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_builder.h"
#include "checkpoint/gguf_dequantize.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/scratch_folder.h"
#include "hostile/mutate.h"

namespace quaver {
namespace {

using testing::MutationRun;
using testing::run_mutations;

std::string golden(std::string_view name) {
  return read_text_file(std::filesystem::path(QUAVER_TEST_DATA) / "golden/checkpoint" / name, 1 << 20);
}

// Reads every byte, so that a sanitizer sees a range that leaves the input.
int touch(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0,
                         [](int sum, std::byte b) { return (sum + std::to_integer<int>(b)) & 0xff; });
}

volatile int sink = 0;

TEST(MutatedFiles, Safetensors) {
  MutationRun run{.originals = {golden("every_dtype.safetensors"),
                                testing::one_tensor("model.layers.0.mlp.up_proj.weight")},
                  .count = 20000,
                  .seed = 11};
  int accepted = run_mutations(run, [](std::span<const std::byte> bytes) {
    for (const auto& entry : parse_safetensors_header(bytes, "x.safetensors").entries)
      sink = sink + touch(bytes.subspan(entry.offset, entry.info.size_bytes));
  });
  EXPECT_GT(accepted, 100) << "the damage is too coarse to reach the data";
  EXPECT_LT(accepted, 10000);
}

std::string small_gguf() {
  testing::GgufBuilder file{.data = std::string(96, 'd')};
  file.pair("general.architecture", GgufType::kString, testing::gguf_string("llama"));
  file.pair("tokenizer.ggml.tokens", GgufType::kArray,
            cat(testing::gguf_type(GgufType::kString), testing::little_endian(2), testing::gguf_string("a"),
                testing::gguf_string("bc")));
  file.pair("llama.block_count", GgufType::kU32, testing::gguf_u32(1));
  return file.tensor("token_embd.weight", {32, 1}, 2, 0).tensor("output_norm.weight", {8}, 0, 32).bytes();
}

void use_value(const GgufValue& value) {
  for (uint64_t i = 0; i < value.count; ++i) {
    if (auto text = value.string(i))
      sink = sink + touch(std::as_bytes(std::span(*text)));
    else if (auto number = value.number(i))
      sink = sink + (*number > 0);
    else if (auto flag = value.boolean(i))
      sink = sink + *flag;
  }
  for (const GgufValue& inner : value.arrays) use_value(inner);
}

TEST(MutatedFiles, Gguf) {
  MutationRun run{.originals = {golden("every_value.gguf"), small_gguf()}, .count = 20000, .seed = 12};
  int accepted = run_mutations(run, [](std::span<const std::byte> bytes) {
    auto contents = parse_gguf(bytes, "x.gguf");
    for (const auto& [key, value] : contents.metadata) use_value(value);
    for (const auto& entry : contents.entries) {
      auto blocks = bytes.subspan(entry.offset, entry.info.size_bytes);
      if (!can_dequantize_gguf(entry.info.dtype)) continue;
      TensorView view{entry.info.dtype, entry.info.shape, Buffer(blocks, nullptr)};
      sink = sink + static_cast<int>(gguf_dequantize(view).size());
    }
  });
  EXPECT_GT(accepted, 100) << "the damage is too coarse to reach the data";
  EXPECT_LT(accepted, 14000);
}

TEST(MutatedFiles, Json) {
  json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"hidden_size", 576},
                 {"rope_theta", 1e5},
                 {"tie", true},
                 {"nested", {{"list", {1, -2, 3.5, nullptr, "\u00e9\n"}}, {"empty", json::object()}}}};
  json index = {{"metadata", {{"total_size", 12345}}},
                {"weight_map", {{"a", "model-00001-of-00002.safetensors"}}}};
  MutationRun run{.originals = {config.dump(), index.dump(2), std::string(60, '[') + std::string(60, ']')},
                  .count = 20000,
                  .seed = 13,
                  .bytes_per_byte = 128};
  int accepted = run_mutations(run, [](std::span<const std::byte> bytes) {
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    sink = sink + static_cast<int>(parse_json(text, "x.json").dump().size());
  });
  EXPECT_GT(accepted, 50);
  EXPECT_LT(accepted, 15000);
}

TEST(MutatedFiles, ModelFolders) {
  testing::ScratchFolder folder;
  const std::string index_text =
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";
  const std::vector<std::pair<std::string, std::string>> files = {
      {"config.json", R"({"model_type": "tiny", "hidden_size": 2})"},
      {"model-00001-of-00002.safetensors", testing::one_tensor("a")},
      {"model-00002-of-00002.safetensors", testing::one_tensor("b")},
      {"model.safetensors.index.json", index_text}};
  for (const auto& [victim, original] : files) {
    for (const auto& [name, bytes] : files) folder.write(name, bytes);
    MutationRun run{.originals = {original}, .count = 200, .seed = 14};
    int accepted = run_mutations(run, [&, name = victim](std::span<const std::byte> bytes) {
      folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      auto checkpoint = open_hugging_face_folder(folder.path());
      for (const auto& info : checkpoint->tensors())
        sink = sink + touch(checkpoint->read(info.name).data.bytes());
    });
    EXPECT_LT(accepted, 150) << victim;
  }
}

TEST(Mutator, TheSameSeedGivesTheSameDamage) {
  testing::Mutator a(5), b(5), c(6);
  std::string original = golden("every_value.gguf"), first = a.mutate(original, original);
  EXPECT_EQ(first, b.mutate(original, original));
  EXPECT_NE(first, c.mutate(original, original));
}

TEST(AllocationGuard, SeesWhatIsAllocated) {
  testing::reset_peak_allocated_bytes();
  {
    std::vector<char> block(5 << 20);
    sink = sink + block[7];
  }
  size_t expected = testing::allocations_are_counted() ? size_t{5} << 20 : 0;
  EXPECT_GE(testing::peak_allocated_bytes(), expected);
}

}  // namespace
}  // namespace quaver
