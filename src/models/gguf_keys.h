// The metadata keys of one architecture, and what files leave to their readers: shared by reading and
// writing.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf.h"

namespace quaver::models {

// Behind the architecture's name and a dot.
namespace gguf_keys {
inline constexpr const char *kContext = "context_length", *kHidden = "embedding_length",
                            *kBlocks = "block_count", *kWidth = "feed_forward_length",
                            *kHeads = "attention.head_count", *kKeyHeads = "attention.head_count_kv",
                            *kKeyWidth = "attention.key_length", *kValueWidth = "attention.value_length",
                            *kNormEpsilon = "attention.layer_norm_rms_epsilon",
                            *kWindow = "attention.sliding_window", *kFinalSoftcap = "final_logit_softcapping",
                            *kRopeBase = "rope.freq_base", *kRopeWidth = "rope.dimension_count",
                            *kRopeType = "rope.scaling.type", *kRopeFactor = "rope.scaling.factor",
                            *kRopeOriginal = "rope.scaling.original_context_length",
                            *kExperts = "expert_count", *kExpertsUsed = "expert_used_count",
                            *kExpertWidth = "expert_feed_forward_length", *kVocabulary = "vocab_size";
}  // namespace gguf_keys

// Of the vocabulary, whole.
namespace gguf_tokenizer_keys {
inline constexpr const char *kModel = "tokenizer.ggml.model", *kPre = "tokenizer.ggml.pre",
                            *kTokens = "tokenizer.ggml.tokens", *kScores = "tokenizer.ggml.scores",
                            *kTypes = "tokenizer.ggml.token_type", *kMerges = "tokenizer.ggml.merges",
                            *kBos = "tokenizer.ggml.bos_token_id", *kEos = "tokenizer.ggml.eos_token_id",
                            *kEot = "tokenizer.ggml.eot_token_id", *kEom = "tokenizer.ggml.eom_token_id",
                            *kUnknown = "tokenizer.ggml.unknown_token_id",
                            *kPad = "tokenizer.ggml.padding_token_id",
                            *kAddBos = "tokenizer.ggml.add_bos_token",
                            *kAddEos = "tokenizer.ggml.add_eos_token",
                            *kAddSpace = "tokenizer.ggml.add_space_prefix",
                            *kChatTemplate = "tokenizer.chat_template";
}  // namespace gguf_tokenizer_keys

// What begins the keys that say which importance matrix the file's blocks were rounded with.
inline constexpr std::string_view kGgufImportanceKeys = "quantize.imatrix.";

// Where windows are known: every sixth layer sees everything, the others turn by this base, and only the
// largest model scales scores by hidden / heads instead of the head size.
inline constexpr int64_t kGgufWindowPattern = 6, kGgufLargestLayers = 62;
inline constexpr double kGgufLocalTheta = 10000;

// Scaling by parts, whose divisors are stored, has these bounds.
inline constexpr double kGgufPartsLow = 1, kGgufPartsHigh = 4, kGgufPartsOriginal = 8192;
std::vector<float> gguf_rope_divisors(double theta, double factor, size_t count);

// Metadata of one architecture: keys without its prefix.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}
  int64_t integer(const char* key) const { return file_.integer(full(key)); }
  std::optional<int64_t> find_integer(const char* key) const { return file_.find_integer(full(key)); }
  std::optional<std::string_view> find_string(const char* key) const { return file_.find_string(full(key)); }
  std::optional<double> find_number(const char* key) const {
    std::optional<double> value = file_.find_number(full(key));
    return value ? std::optional(shortest(*value)) : std::nullopt;
  }
  double number(const char* key) const { return shortest(file_.number(full(key))); }
  std::string full(const char* key) const { return cat(prefix_, ".", key); }

 private:
  // Metadata holds float32; the shortest decimal that reads back as the same float32 is what was meant
  // (1e-05).
  static double shortest(double value) {
    char text[64];
    auto end = std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
    double result = value;
    std::from_chars(text, end, result);
    return result;
  }
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace quaver::models
