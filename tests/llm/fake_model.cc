#include "fake_model.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"

namespace quaver::llm::testing {
namespace {

constexpr int64_t kHidden = 8, kHeads = 2, kHeadDim = 4, kLayers = 2;
using Row = std::array<float, kHidden>;

Row mixed(const float* x, int salt) {  // a fixed rotation-like map of one row
  Row y{};
  for (int64_t i = 0; i < kHidden; ++i)
    for (int64_t j = 0; j < kHidden; ++j)
      y[static_cast<size_t>(i)] += x[j] * std::cos(static_cast<float>((i * 5 + j * 3 + salt) % 17));
  return y;
}

class FakeBlock : public models::DecoderBlock {
 public:
  explicit FakeBlock(int64_t layer) : layer_(layer) {}
  at::Tensor forward(const at::Tensor& hidden, const models::StepContext& step) const override {
    int64_t tokens = hidden.size(0);
    at::Tensor q = at::empty({tokens, kHeads, kHeadDim}), k = at::empty({tokens, 1, kHeadDim});
    at::Tensor v = at::empty({tokens, 1, kHeadDim}), y = at::empty({tokens, kHidden});
    const float* x = hidden.const_data_ptr<float>();
    for (int64_t t = 0; t < tokens; ++t) {
      Row a = mixed(x + t * kHidden, 1), b = mixed(x + t * kHidden, 2);
      std::copy(a.begin(), a.end(), q.mutable_data_ptr<float>() + t * kHidden);
      std::copy_n(b.begin(), kHeadDim, k.mutable_data_ptr<float>() + t * kHeadDim);
      std::copy_n(b.begin() + kHeadDim, kHeadDim, v.mutable_data_ptr<float>() + t * kHeadDim);
    }
    at::Tensor attended = step.attention->attend(layer_, q, k, v, {.scale = 0.5f});
    const float* z = attended.const_data_ptr<float>();
    const int64_t* position = step.positions.const_data_ptr<int64_t>();
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t i = 0; i < kHidden; ++i)
        y.mutable_data_ptr<float>()[t * kHidden + i] = std::tanh(x[t * kHidden + i] + z[t * kHidden + i]) +
                                                       0.3f * std::sin(static_cast<float>(position[t] + i));
    return y;
  }
  std::vector<NamedLinear> linears() override { return {}; }
  void prepare() const override {}

 private:
  int64_t layer_;
};

class FakeModel : public models::CausalLm {
 public:
  explicit FakeModel(ForwardHook hook) : hook_(std::move(hook)) {
    info_ = {.family = "fake",
             .num_layers = kLayers,
             .hidden_size = kHidden,
             .vocab_size = kFakeVocab,
             .num_heads = kHeads,
             .num_kv_heads = 1,
             .head_dim = kHeadDim,
             .max_position_embeddings = 4096};
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 1.5);
    for (Row& row : table_)
      for (float& value : row) value = normal(random);
    table_[kPoison].fill(std::numeric_limits<float>::quiet_NaN());
  }
  const models::CausalLmInfo& info() const override { return info_; }
  at::Tensor embed(const at::Tensor& ids) const override {
    const int64_t* id = ids.const_data_ptr<int64_t>();
    if (hook_) hook_({id, static_cast<size_t>(ids.size(0))});
    at::Tensor x = at::empty({ids.size(0), kHidden});
    for (int64_t t = 0; t < ids.size(0); ++t)
      std::copy_n(table_[static_cast<size_t>(id[t])].begin(), kHidden,
                  x.mutable_data_ptr<float>() + t * kHidden);
    return x;
  }
  at::Tensor logits(const at::Tensor& hidden) const override {
    at::Tensor y = at::empty({hidden.size(0), kFakeVocab});
    for (int64_t t = 0; t < hidden.size(0); ++t)
      for (int32_t token = 0; token < kFakeVocab; ++token)
        y.mutable_data_ptr<float>()[t * kFakeVocab + token] =
            logit(hidden.const_data_ptr<float>() + t * kHidden, token);
    return y;
  }
  std::unique_ptr<models::DecoderBlock> make_block(int64_t index, nn::WeightSource&) const override {
    return std::make_unique<FakeBlock>(index);
  }
  std::unique_ptr<models::DecoderBlock> make_head(nn::WeightSource&) const override {
    return std::make_unique<FakeBlock>(kLayers);
  }
  nn::Linear* head() override { return nullptr; }
  void prepare_head() const override {}

 private:
  float logit(const float* hidden, int32_t token) const {
    if (token == kPoison)
      return hidden[0] * 0 - 1000;  // NaN spreads from the hidden row, the token never wins
    double sum = token == kFakeEnd ? -2 : 0;
    for (int64_t i = 0; i < kHidden; ++i)
      sum += hidden[i] * table_[static_cast<size_t>(token)][static_cast<size_t>(i)];
    return static_cast<float>(sum);
  }

  ForwardHook hook_;
  models::CausalLmInfo info_;
  std::array<Row, kFakeVocab> table_;
};

class NoTensors : public Checkpoint {
 public:
  const std::filesystem::path& path() const override { return path_; }
  const json& config() const override { return config_; }
  json sidecar(std::string_view) const override { return nullptr; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  TensorView read(std::string_view) const override { fail(ErrorKind::kNotFound, "no tensors"); }
  std::string file_of(std::string_view) const override { return "none"; }

 private:
  std::filesystem::path path_ = "fake";
  json config_ = json::object();
  std::vector<TensorInfo> tensors_;
};

// Decodes everything each time and holds back the bytes of an unfinished character.
class FakeStream : public DecodeStream {
 public:
  FakeStream(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  std::string push(int32_t id) override {
    ids_.push_back(id);
    std::string text = tokenizer_.decode(ids_, skip_special_);
    bool unfinished = id >= 1 && id <= 3;
    return unfinished ? "" : rest(text);
  }
  std::string finish() override { return rest(tokenizer_.decode(ids_, skip_special_)); }

 private:
  std::string rest(const std::string& text) {
    size_t from = std::exchange(sent_, text.size());
    return text.substr(from);
  }
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;
  size_t sent_ = 0;
};

class FakeTokenizer : public Tokenizer {
 public:
  FakeTokenizer() {
    texts_ = {"<end>", "\xf0", "\x9f", "\x98", "\x80"};
    const char* words[] = {" the", " of", "ing", " stop", "st", "op", ". "};
    while (texts_.size() < 40) texts_.push_back(words[texts_.size() % 7]);
    while (texts_.size() < kFakeVocab)
      texts_.push_back(std::string(1, static_cast<char>('A' + texts_.size() - 40)));
  }
  std::vector<int32_t> encode(std::string_view, bool, bool) const override { return {}; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string bytes;
    for (int32_t id : ids)
      if (!(skip_special && id == kFakeEnd)) bytes += texts_.at(static_cast<size_t>(id));
    return replaced(bytes);
  }
  std::unique_ptr<DecodeStream> decode_stream(bool skip_special) const override {
    return std::make_unique<FakeStream>(*this, skip_special);
  }
  std::string_view token_text(int32_t id) const override { return texts_.at(static_cast<size_t>(id)); }
  std::optional<int32_t> token_id(std::string_view) const override { return std::nullopt; }
  bool is_special(int32_t id) const override { return id == kFakeEnd; }
  int32_t vocab_size() const override { return kFakeVocab; }
  std::string to_tokenizer_json() const override { return "{}"; }

 private:
  // Whole copies of the one character beyond ASCII stay; every other run of its beginning, and every stray
  // byte, becomes U+FFFD.
  static std::string replaced(const std::string& bytes) {
    static const std::string kFace = "\xf0\x9f\x98\x80";
    std::string text;
    for (size_t i = 0; i < bytes.size();) {
      if (static_cast<unsigned char>(bytes[i]) < 0x80) {
        text += bytes[i++];
        continue;
      }
      size_t length = 0;
      while (length < 4 && i + length < bytes.size() && bytes[i + length] == kFace[length]) ++length;
      text += length == 4 ? kFace : "\xef\xbf\xbd";
      i += std::max<size_t>(1, length);
    }
    return text;
  }
  std::vector<std::string> texts_;
};

}  // namespace

std::shared_ptr<models::CausalLm> make_fake_model(ForwardHook hook) {
  auto model = std::make_shared<FakeModel>(std::move(hook));
  NoTensors checkpoint;
  nn::WeightSource source(checkpoint, {});
  model->load_blocks(source);
  return model;
}

std::shared_ptr<const Tokenizer> make_fake_tokenizer() { return std::make_shared<FakeTokenizer>(); }

}  // namespace quaver::llm::testing
