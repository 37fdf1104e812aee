// What a checkpoint's side files say about a text model: the tokens that end an answer, the model card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "models/llm/causal_lm.h"
#include "pipeline/pipeline.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quaver::pipeline {

// Those of generation_config.json and the eos_token of tokenizer_config.json; where neither names one,
// config.json's. Throws Error(kBadFile) on ids outside the vocabulary.
std::vector<int32_t> end_tokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer, int64_t vocab_size);

// "bos_token" or "eos_token" as text; "" when the model has none.
std::string special_token(const Checkpoint& checkpoint, const Tokenizer& tokenizer, const std::string& name);

// Whether the prompt that the template writes can open (or close) a thinking section.
bool can_reason(const ChatTemplate& chat_template, const std::string& bos, const std::string& eos);

// Weights of linear layers, embeddings and head; norms and biases, less than a thousandth, are not counted.
int64_t num_parameters(models::CausalLm& model);

}  // namespace quaver::pipeline
