// Sigmas equal diffusers', and what scheduler configs are refused.
#include "diffusion/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quaver::diffusion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

json schedule_goldens() {
  return read_json_file(std::string(QUAVER_TEST_DATA) + "/golden/diffusion/schedules.json");
}

TEST(ScheduleTest, EqualsDiffusers) {
  for (const json& row : schedule_goldens().at("schedules")) {
    const FlowMatchSettings settings = read_flow_match(row.at("settings"), "scheduler_config.json");
    const Schedule schedule = flow_match_schedule(settings, row.at("steps"), row.at("tokens"));
    ASSERT_EQ(schedule.sigmas.size(), row.at("sigmas").size());
    // The reference rounds to float32 five times on the way.
    for (size_t i = 0; i < schedule.sigmas.size(); ++i)
      EXPECT_NEAR(schedule.sigmas[i], row.at("sigmas")[i].get<double>(), 5 * 0x1p-24)
          << row.at("settings") << i;
  }
}

TEST(ScheduleTest, TailKeepsTheShareThatStrengthSays) {
  const Schedule whole = flow_match_schedule({}, 10, 64);
  EXPECT_EQ(whole.tail(1).sigmas, whole.sigmas);
  EXPECT_EQ(whole.tail(0.5).steps(), 5);
  EXPECT_EQ(whole.tail(0.55).steps(), 6);  // as diffusers: int(10 - 5.5) = 4 steps are skipped
  EXPECT_EQ(whole.tail(0.01).steps(), 1);
  EXPECT_EQ(whole.tail(0.3).sigmas.back(), 0);
}

std::string refusal(const json& config, ErrorKind kind = ErrorKind::kBadFile) {
  try {
    read_flow_match(config, "scheduler_config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "it is read";
}

TEST(ScheduleTest, RefusesOtherSchedulersAndWrongNumbers) {
  EXPECT_THAT(refusal({{"_class_name", "DDIMScheduler"}}, ErrorKind::kUnsupported),
              HasSubstr("DDIMScheduler"));
  EXPECT_THAT(refusal({{"use_karras_sigmas", true}}, ErrorKind::kUnsupported),
              HasSubstr("use_karras_sigmas"));
  EXPECT_THAT(refusal({{"shift", 0}}), HasSubstr("'shift' is 0"));
  EXPECT_THAT(refusal({{"shift", "3"}}), HasSubstr("'shift' has the wrong type"));
  EXPECT_THAT(refusal({{"time_shift_type", "cubic"}}), HasSubstr("exponential or linear"));
  EXPECT_THAT(refusal({{"max_image_seq_len", 256}}), HasSubstr("max_image_seq_len"));
  EXPECT_THAT(refusal({{"shift_terminal", 1}}), HasSubstr("shift_terminal"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace quaver::diffusion
