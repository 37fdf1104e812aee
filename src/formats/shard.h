// A quantized matrix cut into parts, for ranks that hold one each: some of its rows, or some of its columns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/quant_weight.h"

namespace quaver {

// Neighbouring rows or columns.
struct IndexRun {
  int64_t first = 0, count = 0;
  bool operator==(const IndexRun&) const = default;
};

// The rows, or the columns, of these runs one run after the other: `dequantize` gives the same bits as for
// the whole weight. Where a run cuts a group of rows or columns, groups become as small as the cut asks (the
// greatest common divisor of where they change) and their scales and offsets are repeated. An activation
// order may scatter a part over all groups, so that in the end each column has a scale of its own. The result
// shares no bytes with `weight`.
// Precondition: the weight is valid, the runs lie inside it and hold something.
QuantWeight rows_of(const QuantWeight& weight, std::span<const IndexRun> rows);

// Of what the checkpoint asks of the input, scales over a whole row or tensor stay so: who quantizes a part
// of the input must find them over all parts. Where runs cut the groups that share a scale, the part can't be
// quantized alone: Error(kUnsupported) beginning with `what`.
QuantWeight columns_of(const QuantWeight& weight, std::span<const IndexRun> columns, std::string_view what);

}  // namespace quaver
