// Transformers in one file under the names of the model's makers: a GGUF as diffusers computes with it, plain
// files, and what is refused.
#include "models/dit/flux_original_names.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "checkpoint/tensor_file.h"
#include "models/dit/dit.h"
#include "models/golden_model.h"
#include "nn/kernel_path.h"

namespace quaver::models {
namespace {

using ::testing::HasSubstr;

const std::string kFluxGolden = std::string(QUAVER_TEST_DATA) + "/golden/diffusion/";
constexpr int64_t kGridRows = 3, kGridCols = 5;  // of make_transformers.py and make_flux_gguf.py

DitInput golden_input(const std::string& name, const Dit& model) {
  const auto tensor = [&](const char* part) {
    return read_tensor(kFluxGolden + name + ".safetensors", part);
  };
  return {.latents = tensor("latents"),
          .text = tensor("text"),
          .pooled = tensor("pooled"),
          .sigma = tensor("sigma"),
          .guidance = tensor("guidance"),
          .rope = model.rope(tensor("text").size(1), kGridRows, kGridCols)};
}

std::unique_ptr<Checkpoint> open_flux_gguf() {
  const std::string folder = kFluxGolden + "flux_gguf/";
  return present_flux(
      open_tensor_file(folder + "flux-tiny-mixed.gguf", read_json_file(folder + "config.json")));
}

at::Tensor velocity_of(const Checkpoint& files, const std::string& golden, const nn::LoadOptions& options) {
  c10::InferenceMode no_gradients;
  nn::WeightSource source(files, options);
  const std::unique_ptr<Dit> model = load_dit(source);
  return model->forward(golden_input(golden, *model));
}

void expect_gguf_like_diffusers(const nn::LoadOptions& options) {
  const at::Tensor want = read_tensor(kFluxGolden + "flux_gguf.safetensors", "velocity");
  // Nine sums in series in each of two blocks, and five outside of them.
  EXPECT_LE(error_ratio(velocity_of(*open_flux_gguf(), "flux_gguf", options), want, kEpsilonF32, 23, 160), 1);
}

TEST(FluxGgufTest, EqualsDiffusersWithKernels) { expect_gguf_like_diffusers({.exact_activations = true}); }

TEST(FluxGgufTest, EqualsDiffusersWithoutKernels) {
  nn::AtenOnly aten;
  expect_gguf_like_diffusers({});
}

TEST(FluxGgufTest, FusedRowsAndSwappedHalvesStayInTheirBlocks) {
  const std::unique_ptr<Checkpoint> files = open_flux_gguf();
  EXPECT_EQ(files->stored_type("transformer_blocks.0.attn.to_k.weight"),
            files->stored_type("transformer_blocks.0.attn.to_q.weight"));
  EXPECT_NE(files->stored_type("norm_out.linear.weight"), DType::kBF16);
  EXPECT_EQ(files->find("single_transformer_blocks.0.proj_mlp.weight")->shape,
            (std::vector<int64_t>{128, 32}));
  EXPECT_EQ(files->find("single_transformer_blocks.0.proj_mlp.bias")->shape, (std::vector<int64_t>{128}));
  uint64_t stored = 0;
  for (const TensorInfo& info : files->tensors()) stored += files->stored_bytes(info);
  EXPECT_LT(stored, 66688u);  // no more than the file
}

// --- the plain golden model under the makers' names, fused again

struct Fused {
  std::string original;
  std::vector<std::string> layers;
};

std::vector<Fused> fused_modules() {
  std::vector<Fused> out = {
      {"img_in", {"x_embedder"}}, {"txt_in", {"context_embedder"}}, {"final_layer.linear", {"proj_out"}}};
  const auto add = [&](std::string original, std::vector<std::string> layers) {
    out.push_back({std::move(original), std::move(layers)});
  };
  for (const auto& [original, layer] :
       {std::pair{"time", "timestep"}, std::pair{"guidance", "guidance"}, std::pair{"vector", "text"}})
    for (const auto& [in, number] : {std::pair{"in", 1}, std::pair{"out", 2}})
      add(cat(original, "_in.", in, "_layer"), {cat("time_text_embed.", layer, "_embedder.linear_", number)});
  for (int i = 0; i < 2; ++i) {
    const std::string block = cat("double_blocks.", i, "."), to = cat("transformer_blocks.", i, ".");
    add(block + "img_mod.lin", {to + "norm1.linear"});
    add(block + "txt_mod.lin", {to + "norm1_context.linear"});
    add(block + "img_attn.qkv", {to + "attn.to_q", to + "attn.to_k", to + "attn.to_v"});
    add(block + "txt_attn.qkv", {to + "attn.add_q_proj", to + "attn.add_k_proj", to + "attn.add_v_proj"});
    add(block + "img_attn.proj", {to + "attn.to_out.0"});
    add(block + "txt_attn.proj", {to + "attn.to_add_out"});
    add(block + "img_mlp.0", {to + "ff.net.0.proj"});
    add(block + "img_mlp.2", {to + "ff.net.2"});
    add(block + "txt_mlp.0", {to + "ff_context.net.0.proj"});
    add(block + "txt_mlp.2", {to + "ff_context.net.2"});
    const std::string single = cat("single_blocks.", i, "."), one = cat("single_transformer_blocks.", i, ".");
    add(single + "modulation.lin", {one + "norm.linear"});
    add(single + "linear1", {one + "attn.to_q", one + "attn.to_k", one + "attn.to_v", one + "proj_mlp"});
    add(single + "linear2", {one + "proj_out"});
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> norm_names() {
  std::vector<std::pair<std::string, std::string>> out;
  for (int i = 0; i < 2; ++i) {
    const std::string block = cat("double_blocks.", i, "."),
                      to = cat("transformer_blocks.", i, ".attn.norm_");
    out.emplace_back(block + "img_attn.norm.query_norm.scale", to + "q.weight");
    out.emplace_back(block + "img_attn.norm.key_norm.scale", to + "k.weight");
    out.emplace_back(block + "txt_attn.norm.query_norm.scale", to + "added_q.weight");
    out.emplace_back(block + "txt_attn.norm.key_norm.scale", to + "added_k.weight");
    const std::string single = cat("single_blocks.", i, ".norm."), one = cat("single_transformer_blocks.", i);
    out.emplace_back(single + "query_norm.scale", one + ".attn.norm_q.weight");
    out.emplace_back(single + "key_norm.scale", one + ".attn.norm_k.weight");
  }
  return out;
}

// `prefix` stands before all names.
std::unique_ptr<nn::MemoryCheckpoint> original_copy(const std::string& prefix) {
  const auto plain = open_hugging_face_folder(kFluxGolden + "flux_guided");
  const auto read = [&](const std::string& name) { return nn::tensor_over(plain->read(name), name); };
  auto out = std::make_unique<nn::MemoryCheckpoint>(plain->config());
  for (const Fused& module : fused_modules())
    for (const char* part : {".weight", ".bias"}) {
      std::vector<at::Tensor> rows;
      for (const std::string& layer : module.layers) rows.push_back(read(layer + part));
      out->add(cat(prefix, module.original, part), at::cat(rows));
    }
  for (const char* part : {".weight", ".bias"}) {
    const std::vector<at::Tensor> halves = read(cat("norm_out.linear", part)).chunk(2);
    out->add(cat(prefix, "final_layer.adaLN_modulation.1", part), at::cat({halves[1], halves[0]}));
  }
  for (const auto& [original, name] : norm_names()) out->add(prefix + original, read(name));
  return out;
}

TEST(FluxOriginalNamesTest, PlainFilesGiveTheSameAsDiffusersFolders) {
  const at::Tensor want =
      velocity_of(*open_hugging_face_folder(kFluxGolden + "flux_guided"), "flux_guided", {});
  EXPECT_TRUE(velocity_of(*present_flux(original_copy("")), "flux_guided", {}).equal(want));
  auto whole = original_copy("model.diffusion_model.");
  whole->add("vae.decoder.conv_in.weight", at::zeros({4, 4}));
  EXPECT_TRUE(velocity_of(*present_flux(std::move(whole)), "flux_guided", {}).equal(want));
}

TEST(FluxOriginalNamesTest, FilesUnderDiffusersNamesStayAsTheyAre) {
  auto plain = open_hugging_face_folder(kFluxGolden + "flux_guided");
  const Checkpoint* same = plain.get();
  EXPECT_EQ(present_flux(std::move(plain)).get(), same);
}

std::string refusal_of(const std::function<void(nn::MemoryCheckpoint&)>& change) {
  auto copy = original_copy("");
  change(*copy);
  try {
    present_flux(std::move(copy));
  } catch (const Error& error) {
    return error.what();
  }
  return "shown";
}

TEST(FluxOriginalNamesTest, NamesWhatHasNoPlace) {
  EXPECT_THAT(refusal_of([](auto& c) {
                c.add("double_blocks.0.img_attn.odd.weight", at::zeros({2, 2}));
              }),
              HasSubstr("double_blocks.0.img_attn.odd.weight' has no place"));
  EXPECT_THAT(refusal_of([](auto& c) {
                c.add("joint_blocks.0.x.weight", at::zeros({2, 2}));
              }),
              HasSubstr("joint_blocks.0.x.weight' has no place"));
  EXPECT_THAT(refusal_of([](auto& c) {
                c.add("single_blocks.1.linear1.weight", at::zeros({90, 48}));
              }),
              HasSubstr("has 90 rows, expected more than 3 times its 48 columns"));
  EXPECT_THAT(refusal_of([](auto& c) { c.remove("double_blocks.1.txt_attn.qkv.weight"); }),
              HasSubstr("double_blocks.1.txt_attn.qkv.weight' is missing"));
}

}  // namespace
}  // namespace quaver::models
