// Runs one request to its end in the terminal, printing text as it comes.
#pragma once

#include <string>
#include <vector>

#include "llm/request.h"
#include "pipeline/pipeline.h"

namespace quaver::apps {

// Prints to standard output and returns the whole text. Throws the request's error.
std::string print_answer(pipeline::TextPipeline& model, std::vector<int32_t> prompt,
                         const llm::SamplingParams& sampling);

// The longest answer that still fits behind a prompt of this length.
int32_t room_for_answer(const pipeline::TextPipeline& model, size_t prompt_tokens);

}  // namespace quaver::apps
