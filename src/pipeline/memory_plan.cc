#include "pipeline/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "checkpoint/byte_size.h"

namespace quaver::pipeline {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::string row_text(const std::string& name, int64_t bytes, const char* note = "") {
  std::array<char, 120> line;
  std::snprintf(line.data(), line.size(), "\n  %-30s %10s%s", name.c_str(), bytes_text(bytes).c_str(), note);
  return line.data();
}

std::string allowed_text(int64_t bytes, const MemoryLimit& limit) {
  return limit.chosen ? cat("--memory-limit allows ", bytes_text(bytes))
                      : cat(bytes_text(bytes), " are free");
}

// What it is needed for: "weights 3.0 GiB, decoding 1024x1024 2.1 GiB".
std::string needs_text(const MemoryPlan& plan) {
  const MemoryPlan::Row* passing = plan.largest_passing();
  std::string text = cat("weights ", bytes_text(plan.held()));
  return passing ? cat(text, ", ", passing->name, " ", bytes_text(passing->bytes)) : text;
}

// "--offload would need 2.2 GiB; --vae-use-tiling 3.6 GiB, still too much"
std::string advice(const MemoryPlan& plan, const MemoryLimit& limit,
                   const std::vector<MemoryRemedy>& remedies) {
  std::string text;
  for (const bool good : {true, false})
    for (const MemoryRemedy& remedy : remedies) {
      if (fits(remedy.plan, limit) != good || remedy.plan.peak() >= plan.peak()) continue;
      text += cat("; with ", remedy.flag, " it is ", bytes_text(remedy.plan.peak()));
      if (remedy.plan.host > plan.host) text += cat(" and ", bytes_text(remedy.plan.host), " of host memory");
      if (!good) text += ", still too much";
    }
  return cat(text, "; --memory-limit none loads it all the same");
}

}  // namespace

int64_t MemoryPlan::held() const {
  int64_t sum = 0;
  for (const Row& row : resident) sum += row.bytes;
  return sum;
}

const MemoryPlan::Row* MemoryPlan::largest_passing() const {
  const auto largest = std::ranges::max_element(passing, {}, &Row::bytes);
  return largest == passing.end() ? nullptr : &*largest;
}

int64_t MemoryPlan::peak() const {
  const Row* largest = largest_passing();
  return held() + (largest ? largest->bytes : 0);
}

std::string bytes_text(int64_t bytes) {
  std::array<char, 40> text;
  const double mib = static_cast<double>(bytes) / 0x1p20;
  if (mib >= 1000)
    std::snprintf(text.data(), text.size(), "%.1f GiB", mib / 1024);
  else
    std::snprintf(text.data(), text.size(), "%.1f MiB", mib);
  return text.data();
}

void check_memory_limit(const std::string& text) { parse_memory_limit(text, 0, 0); }

MemoryLimit parse_memory_limit(const std::string& text, int64_t device, int64_t host) {
  if (text == "free") return {.device = device, .host = host};
  if (text == "none") return {.device = kNoLimit, .host = kNoLimit};
  const auto limit = static_cast<int64_t>(parse_byte_size(text, "memory_limit (free, none or a size)"));
  return {.device = limit, .host = host, .chosen = true};
}

bool fits(const MemoryPlan& plan, const MemoryLimit& limit) {
  return plan.peak() <= limit.device && plan.host <= limit.host;
}

std::string memory_table(const MemoryPlan& plan, const std::string& device, const MemoryLimit& limit) {
  std::string text = cat("memory of ", device);
  if (limit.device != kNoLimit) text += cat(": ", allowed_text(limit.device, limit));
  for (const MemoryPlan::Row& row : plan.resident) text += row_text(row.name, row.bytes);
  const MemoryPlan::Row* largest = plan.largest_passing();
  for (const MemoryPlan::Row& row : plan.passing)
    text += row_text(row.name, row.bytes, &row == largest ? "" : "  (not at the same time)");
  text += row_text("together", plan.peak());
  if (plan.host > 0) text += row_text("in host memory", plan.host);
  if (plan.mapped > 0) text += row_text("mapped from files", plan.mapped, "  (not counted)");
  return text;
}

void check_memory(const MemoryPlan& plan, const std::string& model, const std::string& device,
                  const MemoryLimit& limit, const std::vector<MemoryRemedy>& remedies) {
  if (fits(plan, limit)) return;
  if (plan.peak() > limit.device)
    fail(ErrorKind::kOutOfMemory, model, ": needs ", bytes_text(plan.peak()), " on ", device, " (",
         needs_text(plan), "), and ", allowed_text(limit.device, limit), advice(plan, limit, remedies));
  fail(ErrorKind::kOutOfMemory, model, ": needs ", bytes_text(plan.host), " of host memory beside ",
       bytes_text(plan.peak()), " on ", device, ", and ", bytes_text(limit.host), " are free",
       advice(plan, limit, remedies));
}

}  // namespace quaver::pipeline
