// PCRE2 with UTF and Unicode properties, compiled to machine code where possible.
#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "text/tokenizer/oniguruma_syntax.h"
#include "text/tokenizer/shown.h"
#include "text/tokenizer/utf8.h"

namespace quaver::text {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

constexpr uint32_t kMaxParenthesesNesting = 200;
constexpr size_t kMaxPatternBytes = size_t{1} << 20;
// Backtracking steps per search: about a second, a thousand times what real patterns need on a megabyte.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr size_t kJitStackStart = 64 * 1024, kJitStackMax = size_t{64} << 20;

// What a search needs to write to; one per thread, since a Regex is shared.
struct Workspace {
  MatchContext context{pcre2_match_context_create(nullptr)};
  MatchData data{pcre2_match_data_create(1, nullptr)};  // the whole match is all that is asked for
  JitStack stack{pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)};
  Workspace() {
    require(context && data, ErrorKind::kOutOfMemory, "no memory for a pattern search");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Workspace& workspace() {
  thread_local Workspace instance;
  return instance;
}

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  return pcre2_get_error_message(code, buffer, sizeof buffer) < 0 ? cat("error ", code)
                                                                  : reinterpret_cast<const char*>(buffer);
}

Code compile_code(std::string_view pattern, std::string_view source, std::string_view what) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  require(context != nullptr, ErrorKind::kOutOfMemory, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxParenthesesNesting);
  int error = 0;
  PCRE2_SIZE at = 0;
  // Oniguruma's ^ and $ match at every line.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &at,
                          context.get()));
  require(code != nullptr, ErrorKind::kBadFile, what, ": the pattern '", shown(source),
          "' is not valid: ", message_of(error));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it can't, matching interprets
  return code;
}

}  // namespace

struct Regex::Compiled {
  Code code;
  std::string source;  // as messages show it
};

Regex::Regex(std::string_view pcre2_pattern, std::string_view source, std::string_view what) {
  require(source.size() <= kMaxPatternBytes, ErrorKind::kBadFile, what, ": a pattern of ", source.size(),
          " bytes; the limit is ", kMaxPatternBytes);
  compiled_ =
      std::make_shared<const Compiled>(Compiled{compile_code(pcre2_pattern, source, what), shown(source)});
}

Regex Regex::compile(std::string_view pattern, std::string_view what) {
  return Regex(pcre2_from_oniguruma(pattern, what), pattern, what);
}

Regex Regex::compile_pcre2(std::string_view pattern, std::string_view what) {
  return Regex(pattern, pattern, what);
}

std::optional<Match> Regex::find(std::string_view subject, size_t from) const {
  Workspace& space = workspace();
  // Without NO_UTF_CHECK each search would read the whole subject again.
  const int result =
      pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), from,
                  PCRE2_NO_UTF_CHECK, space.data.get(), space.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  require(result >= 0, ErrorKind::kInvalidInput, "the tokenizer's pattern '", compiled_->source,
          "' can't be matched against this text: ", message_of(result));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(space.data.get());
  return Match{range[0], range[1]};
}

size_t next_character(std::string_view subject, size_t position) {
  return position < subject.size() ? position + utf8_length(subject[position]) : position + 1;
}

}  // namespace quaver::text
