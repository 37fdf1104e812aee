// Brings one file of a repository into the cache: whole and verified, or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/client.h"
#include "hub/repo_cache.h"

namespace quaver::hub {

// How many bytes of the file are on the disk now.
using BytesListener = std::function<void(uint64_t)>;

// Returns the bytes that came over the network: 0 when the blob was there, or another process brought it.
// Precondition: size and checksum are known. A broken connection is continued by Range, a wrong checksum of
// continued bytes leads to one fresh start; a size or checksum that stays wrong is Error(kBadFile) with
// expected and got, and nothing is kept.
uint64_t download_file(Client& client, const RepoCache& cache, const std::string& commit,
                       const RepoFile& file, const BytesListener& on_bytes);

// Bytes of the file that are in the cache already, whole or incomplete.
uint64_t bytes_in_cache(const RepoCache& cache, const RepoFile& file);

}  // namespace quaver::hub
