#include "server/output_parser.h"

namespace quaver::server {
namespace {

class PlainParser : public OutputParser {
 public:
  OutputDelta push(std::string_view text) override { return {.content = std::string(text)}; }
  OutputDelta finish() override { return {}; }
};

}  // namespace

std::unique_ptr<OutputParser> make_output_parser(const OutputParserOptions&) { return std::make_unique<PlainParser>(); }

}  // namespace quaver::server
