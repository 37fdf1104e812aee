// How much memory there is, and how much of it a KV cache may take when nobody says.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace quaver::pipeline {

// What this process may still allocate on the host: the least of what the system calls available and what is
// left of the limits of its control groups (version 2 and 1). In bytes.
int64_t available_host_memory();

// The least that is left of the limits of the groups that `membership` names, as /proc/self/cgroup does, and
// of those above them. `root` is where the groups are mounted. What the groups hold of files counts as free,
// as it does in what the system calls available: it is given up for who asks. INT64_MAX without a limit.
int64_t control_group_memory(const std::filesystem::path& root, const std::string& membership);

// The same on a device: available_host_memory() of the CPU, else what no process has taken.
int64_t free_memory(c10::Device device);

// For a cache of at most `wanted` bytes: that, or less where memory is short. On the CPU at most a quarter of
// `available` and 4 GiB, on an accelerator at most 85% of what is free after loading; the rest is for
// activations.
int64_t default_cache_bytes(int64_t wanted, int64_t available, bool on_host);

}  // namespace quaver::pipeline
