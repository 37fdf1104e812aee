// Divides panels and rows of x among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/linear/kernel.h"
#include "kernels/parallel.h"

namespace quaver::kernels {

constexpr int64_t kRowBlock =
    96;  // rows of x per unit: whole register tiles, and some units even for narrow weights

struct PanelUnit {
  const LinearPart* part;
  int64_t panel;            // within the part
  int64_t first_row, rows;  // of x
};

// Calls body(PanelUnit) once for every panel of every part and block of rows.
template <class Body>
void for_each_panel(std::span<const LinearPart> parts, const LinearInput& input, int64_t panel_rows,
                    const Body& body) {
  auto panels_of = [panel_rows](const LinearPart& part) {
    return (part.problem->n + panel_rows - 1) / panel_rows;
  };
  int64_t panels = 0, row_blocks = (input.m + kRowBlock - 1) / kRowBlock;
  for (const LinearPart& part : parts) panels += panels_of(part);
  parallel_rows(input.pool, panels * row_blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t panel = unit / row_blocks, first_row = unit % row_blocks * kRowBlock;
      const LinearPart* part = parts.data();
      for (; panel >= panels_of(*part); ++part) panel -= panels_of(*part);
      body(PanelUnit{part, panel, first_row, std::min(kRowBlock, input.m - first_row)});
    }
  });
}

}  // namespace quaver::kernels
