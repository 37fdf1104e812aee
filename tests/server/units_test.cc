// The small parts: scrubbing, log-probability tokens, special text.
#include <gtest/gtest.h>

#include <cmath>

#include "server/errors.h"
#include "server/fake_tokenizer.h"
#include "server/logprobs.h"
#include "server/special_text.h"

namespace quaver::server::testing {
namespace {

TEST(Errors, ScrubPathsAndAddresses) {
  EXPECT_EQ(scrub("cannot read /home/u/model/a.safetensors: cut"), "cannot read a.safetensors: cut");
  EXPECT_EQ(scrub("'/a/b/c/'"), "'c/'");
  EXPECT_EQ(scrub("at 0x7ffdeadbeef and 0x10"), "at 0x... and 0x10");
  EXPECT_EQ(scrub("use /v1/completions, 1/2 or and/or, http://x/y"),
            "use /v1/completions, 1/2 or and/or, http://x/y");
}

TEST(Logprobs, PaddingRowsOfTheHeadHaveNoText) {
  FakeTokenizer tokenizer;
  EXPECT_EQ(token_string(tokenizer, tokenizer.vocab_size() + 3, false), "");
  EXPECT_EQ(token_bytes(tokenizer, tokenizer.vocab_size() + 3), "");
}

TEST(Errors, EveryKindHasItsStatus) {
  auto status = [](ErrorKind kind, bool draining = false) {
    return to_api_error(Error(kind, "m", "f"), draining).status;
  };
  EXPECT_EQ(status(ErrorKind::kInvalidInput), 400);
  EXPECT_EQ(status(ErrorKind::kUnsupported), 400);
  EXPECT_EQ(status(ErrorKind::kNotFound), 404);
  EXPECT_EQ(status(ErrorKind::kUnavailable), 429);
  EXPECT_EQ(status(ErrorKind::kUnavailable, true), 503);
  EXPECT_EQ(status(ErrorKind::kOutOfMemory), 503);
  EXPECT_EQ(status(ErrorKind::kNonFinite), 500);
  EXPECT_EQ(status(ErrorKind::kInternal), 500);
  EXPECT_EQ(to_api_error(Error(ErrorKind::kInvalidInput, "m", "f"), false).param, "body.f");
}

TEST(Errors, ObjectIsValidUtf8) {
  EXPECT_NO_THROW(json::parse(error_response(refused("bad \xff byte")).body));
}

TEST(Logprobs, TokensAreShownAsTheyStandInText) {
  FakeTokenizer tokenizer;
  EXPECT_EQ(token_string(tokenizer, kSpaceWorld, false), " world");
  EXPECT_EQ(token_string(tokenizer, kImEnd, false), "<|im_end|>");
  EXPECT_EQ(token_string(tokenizer, 65, true), "token_id:65");
  EXPECT_EQ(token_bytes(tokenizer, 0xc3), "\xc3");
  EXPECT_EQ(token_bytes(tokenizer, kHello), "hello");
}

TEST(Logprobs, InfinityHasAFloorAndNanIsAnError) {
  EXPECT_EQ(json_logprob(-HUGE_VALF), -9999.0);
  EXPECT_EQ(json_logprob(-1.5f), -1.5);
  EXPECT_THROW(json_logprob(NAN), Error);
  EXPECT_THROW(json_logprob(HUGE_VALF), Error);
}

TEST(SpecialText, MarksOnlyWhatIsSpecial) {
  FakeTokenizer tokenizer;
  SpecialText special(tokenizer);
  ordered_json value = {{"a", "x<|im_end|>y"}, {"b", {"<s>", "<think>", "<|im_en", 5}}};
  std::string mark = SpecialText::choose_mark(value);
  special.mark(value, mark);
  EXPECT_EQ(value["a"], cat("x", mark, "<|im_end|>y"));
  EXPECT_EQ(value["b"], ordered_json({mark + "<s>", "<think>", "<|im_en", 5}));
}

TEST(SpecialText, EncodesMarkedTextPlainlyAndTheRestAsUsual) {
  FakeTokenizer tokenizer;
  SpecialText special(tokenizer);
  const std::string mark = "\xef\xb7\x90";
  EXPECT_EQ(special.encode("<s>ab<|im_end|>", mark, false), tokenizer.encode("<s>ab<|im_end|>", false, true));
  std::vector<int32_t> ids = special.encode(cat("<s>a", mark, "<s>b<|im_end|>c<s>"), mark, true);
  EXPECT_EQ(ids, (std::vector<int32_t>{kBos, kBos, 'a', '<', 's', '>', 'b', kImEnd, 'c', kBos}));
}

TEST(SpecialText, TakesAMarkThatTheTextDoesNotHold) {
  EXPECT_EQ(SpecialText::choose_mark("plain"), "\xef\xb7\x90");
  EXPECT_EQ(SpecialText::choose_mark("\xef\xb7\x90"), "\xef\xb7\x91");
}

}  // namespace
}  // namespace quaver::server::testing
