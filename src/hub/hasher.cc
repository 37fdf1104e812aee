#include "hub/hasher.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace quaver::hub {

struct Hasher::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

bool is_checksum(std::string_view text) {
  auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return (text.size() == 40 || text.size() == 64) && std::all_of(text.begin(), text.end(), hex);
}

Hasher::Hasher(std::string_view checksum, uint64_t size_bytes) : context_(std::make_unique<Context>()) {
  bool git = checksum.size() == 40;
  require(context_->digest != nullptr &&
              EVP_DigestInit_ex(context_->digest, git ? EVP_sha1() : EVP_sha256(), nullptr) == 1,
          ErrorKind::kInternal, "OpenSSL offers no ", git ? "SHA-1" : "SHA-256");
  if (!git) return;
  std::string head = cat("blob ", size_bytes, '\0');
  update(std::as_bytes(std::span(head)));
}

Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1, ErrorKind::kInternal,
          "OpenSSL can't continue a checksum");
}

std::string Hasher::finish() {
  constexpr char kHex[] = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  require(EVP_DigestFinal_ex(context_->digest, digest.data(), &length) == 1, ErrorKind::kInternal,
          "OpenSSL can't finish a checksum");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text.append({kHex[digest[i] >> 4], kHex[digest[i] & 15]});
  return text;
}

}  // namespace quaver::hub
