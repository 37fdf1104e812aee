// The linear table itself, and how a row is chosen.
#include <array>
#include <string>

#include "base/env.h"
#include "base/error.h"
#include "kernels/linear/kernel.h"
#include "kernels/linear/rows.h"

namespace quaver::kernels {
namespace {

std::string describe(const LinearProblem& p) {
  std::string weight = p.quantized ? cat(element_info(p.element).name, " group ", p.group_rows, "x", p.group,
                                         p.has_zeros  ? " with zeros"
                                         : p.has_mins ? " with minima"
                                                      : "")
                                   : std::string(dtype_info(p.plain).name);
  return cat("a [", p.n, ", ", p.k, "] weight of ", weight,
             p.exact_activations ? " with exact activations" : "");
}

bool listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace

std::span<const LinearKernel> linear_kernels() {
  static const std::array kRows = {
      int_a8_vnni_row(),  int_a8_avx512_row(),    int_a8_avx2_row(),    int_a32_avx512_row(),
      int_a32_avx2_row(), float_a32_avx512_row(), float_a32_avx2_row(), plain_avx512_row(),
      plain_avx2_row(),   reference_scalar_row(),
  };
  return kRows;
}

const LinearKernel& choose_linear_kernel(const LinearProblem& problem, const CpuFeatures& cpu) {
  std::string forced = env_string("QUAVER_KERNEL").value_or("");
  for (const LinearKernel& row : linear_kernels())
    if ((forced.empty() || listed(forced, row.name)) && row.supports(problem, cpu)) return row;
  if (forced.empty()) fail(ErrorKind::kUnsupported, "no linear kernel multiplies ", describe(problem));
  fail(ErrorKind::kUnsupported, "QUAVER_KERNEL=", forced, " names no kernel that multiplies ",
       describe(problem), " on this processor");
}

const LinearKernel& choose_linear_kernel(const LinearProblem& problem) {
  return choose_linear_kernel(problem, cpu_features());
}

}  // namespace quaver::kernels
