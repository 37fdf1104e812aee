#include "server/lora_field.h"

#include <array>
#include <string>

namespace quaver::server {
namespace {

// A value of the object and the names that clients know it by.
struct LoraKey {
  std::array<std::string_view, 3> names;  // empty behind the last
};
constexpr LoraKey kName{{"name", "lora_name", "adapter"}}, kPath{{"path", "lora_path", "local_path"}},
    kScale{{"scale", "lora_scale"}}, kNumber{{"int_id", "lora_int_id"}};

class LoraReader {
 public:
  LoraReader(Fields& fields, const json& object) : fields_(fields), object_(object) {}

  pipeline::AdapterChoice read() {
    pipeline::AdapterChoice choice{.name = text(kName), .path = text(kPath), .scale = {}};
    if (const auto [path, value] = find(kScale); value) choice.scale = fields_.check_number(*value, path, {});
    // Numbers are the caller's own, so they pick nothing here.
    if (const auto [path, value] = find(kNumber); value) fields_.check_integer(*value, path, {.low = 1});
    for (const auto& [key, value] : object_.items())
      if (!known_.contains(key))
        fields_.wrong("extra_forbidden", cat("lora.", key),
                      "is not known; known are name, path, scale, int_id", value);
    if (choice.name.empty() && choice.path.empty() && fields_.good()) fields_.missing("lora.name");
    return choice;
  }

 private:
  struct Entry {
    std::string path;
    const json* value = nullptr;
  };
  // The one of the names that is there; several are wrong.
  Entry find(const LoraKey& key) {
    Entry found;
    for (const std::string_view name : key.names) {
      if (name.empty()) break;
      known_.emplace(name);
      const auto it = object_.find(name);
      if (it == object_.end() || it->is_null()) continue;
      if (found.value)
        fields_.wrong("value_error", cat("lora.", name),
                      cat("is another name of ", found.path, "; give one of them"), *it);
      else
        found = {cat("lora.", name), &*it};
    }
    return found;
  }

  std::string text(const LoraKey& key) {
    const auto [path, value] = find(key);
    if (!value) return {};
    if (value->is_string()) return *value;
    return fields_.wrong("string_type", path, "must be text", *value), "";
  }

  Fields& fields_;
  const json& object_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

std::optional<pipeline::AdapterChoice> read_lora(Fields& fields) {
  const json* value = fields.raw("lora");
  if (!value || *value == json("") || *value == json("None") || *value == json::object()) return std::nullopt;
  const json* object = fields.object("lora");
  if (!object) return std::nullopt;
  return LoraReader(fields, *object).read();
}

}  // namespace quaver::server
