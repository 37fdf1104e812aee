#include "pipeline/dtype_names.h"

#include "base/error.h"

namespace quaver::pipeline {

std::optional<at::ScalarType> parse_dtype(const std::string& text, const char* field) {
  if (text == "float32") return at::kFloat;
  if (text == "float16") return at::kHalf;
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "auto") return std::nullopt;
  throw Error(ErrorKind::kInvalidInput,
              cat(field, " must be auto, float32, float16 or bfloat16, got '", text, "'"), field);
}

}  // namespace quaver::pipeline
