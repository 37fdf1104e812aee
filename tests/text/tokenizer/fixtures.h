// What the tokenizer tests share: the stored tokenizers and texts, and the hashes of answers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace quaver::text {

std::string golden_path(const std::string& name);  // tests/golden/text/tokenizers/NAME
std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& kind);
std::unique_ptr<Tokenizer> golden_sentencepiece(const std::string& kind);
// The texts of the golden answers, broken UTF-8 among them.
const std::vector<std::string>& golden_texts();
const json& golden_answers();

// FNV-1a over little-endian ids, each list closed by 0xFFFFFFFF; and over texts, each closed by 0xFF.
uint32_t hash_ids(std::span<const std::vector<int32_t>> lists);
uint32_t hash_texts(std::span<const std::string> texts);

// The n-th of the 32-bit numbers written as hexadecimal digits one after the other.
uint32_t hash_at(const std::string& digits, size_t n);

// The random lists of ids that make_tokenizers.py decodes.
std::vector<std::vector<int32_t>> golden_id_lists(int32_t vocab_size, size_t count);

// A minimal tokenizer.json; `members` replace or add keys.
json minimal_document(const json& members = json::object());

}  // namespace quaver::text
