// Text to token ids and back, for every tokenizer kind that checkpoints carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quaver {

// The vocabulary that a GGUF carries in its metadata; filled by whoever reads the file.
struct GgufVocabulary {
  std::string model;  // "gpt2", "llama", "bert", "t5"
  std::string pre;    // pre-tokenizer name, "smollm"; may be empty
  std::vector<std::string> tokens;
  std::vector<float> scores;   // may be empty
  std::vector<int32_t> types;  // 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte; may be empty
  std::vector<std::string> merges;  // "a b"; may be empty
  std::optional<int32_t> bos, eos, unk, pad;
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  bool remove_extra_whitespaces = false;
  std::vector<std::byte> precompiled_charsmap;  // of "t5"; may be empty
};

// What a SentencePiece model does not say, but the files beside it may.
struct SentencePieceOptions {
  // Unset: as the families that use such files do, BOS for BPE (Llama, Gemma) and EOS for unigram models
  // (T5).
  std::optional<bool> add_bos, add_eos;
};

// Decoding that goes on, of one sequence. Not thread safe; borrows the tokenizer.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;
  // The text that the ids so far settle and that was not returned before: whole characters, maybe none.
  virtual std::string push(int32_t id) = 0;
  // The rest; once, and last.
  virtual std::string finish() = 0;
};

// Immutable and thread safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes; broken UTF-8 is replaced as the reference implementation does. With `add_special_tokens` the
  // post-processor's BOS, EOS and the like are added. Special tokens written in the text are recognised when
  // `parse_special`, else they are plain text.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                                      bool parse_special = true) const = 0;

  // The inverse, as `tokenizers`' decode. Ids outside the vocabulary are Error(kInvalidInput).
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  // All pieces that it returns, joined, equal decode of all ids. This default decodes anew with every id;
  // what the functions below return does only the work of the new token.
  virtual std::unique_ptr<DecodeStream> decode_stream(bool skip_special_tokens) const;

  // The spelling in the vocabulary ("Ġthe", "<0x0A>").
  virtual std::string_view token_text(int32_t id) const = 0;
  virtual std::optional<int32_t> token_id(std::string_view token) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // one past the largest id, added tokens included

  // A tokenizer.json document that gives this same tokenizer; for export.
  virtual std::string to_tokenizer_json() const = 0;
};

// tokenizer.json. Throws Error(kBadFile) beginning with `what` on anything unknown or inconsistent.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view document, std::string_view what);
// A SentencePiece model (tokenizer.model). Encodes as SentencePiece does, but for its character map, which is
// applied as the `tokenizers` library does; the two differ where several marks follow one letter.
std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(std::span<const std::byte> model,
                                                        std::string_view what,
                                                        const SentencePieceOptions& options = {});
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufVocabulary& vocabulary, std::string_view what);

}  // namespace quaver
