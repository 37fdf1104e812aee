// One request inside the engine: its tokens, how far they are computed, and the cache blocks it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quaver::llm {

using BlockId = int32_t;
// Names the content of one full block together with everything before it; never reused. 0 = nothing before.
using ContentId = uint64_t;

// Where a chain of full blocks stands after one more of them: how its content is found, and its name.
struct PrefixLink {
  uint64_t hash = 0;
  ContentId content = 0;
};

// What crosses between scheduler, block manager and runner. Owned by the engine; only its thread touches it.
// Invariant: blocks cover num_computed tokens, and num_computed < tokens.size() while the sequence lives,
// since the newest sampled token has no keys and values yet.
struct Sequence {
  uint64_t arrival = 0;         // order of submission; smaller is older
  std::vector<int32_t> tokens;  // prompt, then what was sampled
  int32_t prompt_length = 0;
  int32_t num_computed = 0;   // leading tokens whose keys and values are in the cache
  int32_t cached_tokens = 0;  // prompt tokens found in the cache when first admitted
  bool admitted_before = false;
  bool use_prefix_cache = true;  // off when the logits of every prompt position are wanted
  std::string cache_salt;

  std::vector<BlockId> blocks;
  std::vector<PrefixLink> links;  // of the leading full blocks that were found or registered

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t output_length() const { return length() - prompt_length; }
  int32_t num_pending() const { return length() - num_computed; }  // tokens still to be computed
};

}  // namespace quaver::llm
