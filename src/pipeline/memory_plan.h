// What a model will hold in memory, told before it is loaded, and the refusal of one that can't fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quaver::pipeline {

// In bytes. It counts tensors alone: what libraries take for themselves (kernels' code, work space of
// convolutions, an allocator's remains) depends on their versions and on the GPU. So a plan is nearer the
// least that a model needs than the most, and refusing what is planned above the free memory refuses nothing
// that would have run, but for memory that other processes give back meanwhile.
struct MemoryPlan {
  struct Row {
    std::string name;
    int64_t bytes = 0;
  };
  std::vector<Row> resident;  // on the device that computes, from loading on
  std::vector<Row> passing;   // there too, of these one at a time
  int64_t host = 0;           // in host memory beside it; 0 where the device is the host
  int64_t mapped = 0;         // read where it lies in files; the system takes it back when memory is short

  int64_t held() const;                // all that is resident
  const Row* largest_passing() const;  // null where there is none
  int64_t peak() const;                // of the device
};

// "1.5 GiB", "12.3 MiB"
std::string bytes_text(int64_t bytes);

// What --memory-limit says: "free" (what is free on the device), "none" or a size. INT64_MAX is no limit.
struct MemoryLimit {
  int64_t device = 0, host = 0;
  bool chosen = false;  // by the user
};
// Error(kInvalidInput) naming memory_limit on other words.
void check_memory_limit(const std::string& text);
// `device` and `host` are what is free of either.
MemoryLimit parse_memory_limit(const std::string& text, int64_t device, int64_t host);

bool fits(const MemoryPlan& plan, const MemoryLimit& limit);

// A line a row: "memory of cuda:0: 20.1 GiB free ...".
std::string memory_table(const MemoryPlan& plan, const std::string& device, const MemoryLimit& limit);

// What a flag would make of the plan.
struct MemoryRemedy {
  std::string flag;
  MemoryPlan plan;
};

// Error(kOutOfMemory) that begins with `model` unless the plan fits, with what is needed for what, what there
// is, and the figures of those remedies that need less.
void check_memory(const MemoryPlan& plan, const std::string& model, const std::string& device,
                  const MemoryLimit& limit, const std::vector<MemoryRemedy>& remedies);

}  // namespace quaver::pipeline
