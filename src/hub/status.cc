#include "hub/status.h"

#include <ctime>

#include "checkpoint/printable.h"
#include "hub/retries.h"

namespace quaver::hub {
namespace {

std::string name_of(const Asked& asked) {
  return cat(asked.repo.id, " (revision ", asked.repo.revision, ")",
             asked.file.empty() ? "" : cat(", file ", printable(asked.file)));
}

// The hub's own words, which are text from outside.
std::string remark(const HttpReply& reply) {
  std::string_view text = reply.header("x-error-message");
  return text.empty() ? "" : cat("; it says ", printable(text, 200));
}

std::string access_message(const HttpReply& reply, const Asked& asked) {
  std::string head = cat(name_of(asked), ": ", asked.endpoint, " answers ", reply.status, ": ");
  if (reply.status == 403 || reply.header("x-error-code") == "GatedRepo")
    return cat(head, "access must be granted first: ask for it at ", asked.endpoint, "/", asked.repo.id,
               asked.with_token ? ", with the account that HF_TOKEN (or --token) belongs to"
                                : ", then set HF_TOKEN to a token of that account",
               remark(reply));
  return cat(head,
             asked.with_token ? "the token in HF_TOKEN (or --token) is not valid, or does not open it"
                              : "there is no such repository, or it is private or gated: set HF_TOKEN to a "
                                "token that may read it",
             remark(reply));
}

std::string missing_message(const HttpReply& reply, const Asked& asked) {
  if (!asked.file.empty())
    return cat(asked.repo.id, ": ", asked.endpoint, " has no file ", printable(asked.file), " in revision ",
               asked.repo.revision);
  if (reply.header("x-error-code") == "RevisionNotFound")
    return cat(asked.repo.id, ": ", asked.endpoint, " has no revision ", asked.repo.revision, " of it");
  return cat(asked.endpoint, " has no model ", asked.repo.id, " with a revision ", asked.repo.revision);
}

}  // namespace

void check_status(const HttpReply& reply, const Asked& asked) {
  int status = reply.status;
  if (status == 200 || status == 206) return;
  if (status == 401 || status == 403) fail(ErrorKind::kNotFound, access_message(reply, asked));
  if (status == 404) fail(ErrorKind::kNotFound, missing_message(reply, asked));
  if (status == 429 || status == 408 || status >= 500) {
    std::string_view later = reply.header("retry-after");
    throw TransientError(cat(asked.endpoint, " answers ", status,
                             status == 429   ? ", too many requests"
                             : status == 408 ? ", too late"
                                             : ""),
                         later.empty() ? -1 : parse_retry_after(later, std::time(nullptr)));
  }
  fail(ErrorKind::kUnavailable, name_of(asked), ": ", asked.endpoint, " answers ", status,
       ", which is not expected", remark(reply));
}

}  // namespace quaver::hub
