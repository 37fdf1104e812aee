// The part of the calibration that the head is tuned on: logits of every position would fill the memory.
#pragma once

#include "quantize/autoround.h"

namespace quaver::quantize {

// Positions of each row so that a batch's logits stay within 64 million values; at least 2, at most `seqlen`.
int64_t head_positions(int64_t vocab_size, int64_t batch_size, int64_t seqlen);

// `count` positions of every row, drawn without repetition by the seed and kept in their order: the same ones
// for rows of equal number and length.
Activations drawn_positions(const Activations& from, int64_t count, uint64_t seed);

// What `head`, which it borrows, makes of the rows: computed anew each time it is asked.
TuneTarget head_target(const models::DecoderBlock& head, const Activations& rows, int64_t vocab_size);

}  // namespace quaver::quantize
