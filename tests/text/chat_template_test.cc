// Whole conversations against Transformers' apply_chat_template, the limits against hostile templates, and
// the errors.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/mapped_file.h"

namespace quaver {
namespace {

const std::string kFolder = QUAVER_TEST_DATA "/golden/chat/";

std::string show_text(std::string_view s) {
  return ordered_json(s).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ChatTemplateInput input_of(const ordered_json& data, const ordered_json& row) {
  const ordered_json& variant = data.at("variants").at(row.at("variant").get<size_t>());
  ChatTemplateInput input;
  input.messages = data.at("conversations").at(row.at("conversation").get<std::string>());
  input.bos_token = data.at("tokens").at("bos_token");
  input.eos_token = data.at("tokens").at("eos_token");
  input.add_generation_prompt = variant.value("add_generation_prompt", false);
  input.continue_final_message = variant.value("continue_final_message", false);
  if (variant.contains("tools")) input.tools = variant.at("tools");
  if (variant.contains("documents")) input.documents = variant.at("documents");
  if (variant.contains("extra")) input.extra = variant.at("extra");
  return input;
}

void check_template_case(const ChatTemplate& compiled, const ordered_json& data, const ordered_json& row) {
  std::string where = cat(std::string_view(row.at("template").get_ref<const std::string&>()), " ",
                          row.at("conversation").get<std::string>(), " ", row.at("variant").get<int>());
  try {
    std::string text = compiled.render(input_of(data, row));
    if (row.contains("error"))
      ADD_FAILURE() << where << "\n gives " << show_text(text) << "\n due: error " << row.at("error");
    else
      EXPECT_EQ(show_text(text), show_text(row.at("text").get<std::string>())) << where;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidInput);
    if (!row.contains("error")) {
      ADD_FAILURE() << where << "\n fails: " << e.what() << "\n due: " << row.at("text");
    } else if (row.at("raised").get<bool>()) {
      EXPECT_EQ(e.what(), row.at("error").get<std::string>()) << where;
    }
  }
}

TEST(ChatTemplate, RendersWhatTransformersRenders) {
  ordered_json data = ordered_json::parse(read_text_file(kFolder + "chat.json", size_t{8} << 20));
  std::map<std::string, std::unique_ptr<ChatTemplate>> compiled;
  ASSERT_GT(data.at("cases").size(), 800u);
  for (const auto& row : data.at("cases")) {
    std::string name = row.at("template");
    auto& slot = compiled[name];
    if (!slot) slot = ChatTemplate::compile(read_text_file(kFolder + "templates/" + name, 1 << 20), name);
    check_template_case(*slot, data, row);
  }
}

ChatTemplateInput hello() {
  ChatTemplateInput input;
  input.messages = ordered_json::parse(R"([{"role": "user", "content": "hello"}])");
  return input;
}

std::string error_of(const std::string& source) {
  try {
    return cat("no error: ", ChatTemplate::compile(source, "t.jinja")->render(hello()).substr(0, 100));
  } catch (const Error& e) {
    return e.what();
  }
}

std::string times(size_t n, std::string_view s) {
  std::string out;
  while (n--) out += s;
  return out;
}

TEST(ChatTemplate, NamesLineAndColumnOfASyntaxError) {
  EXPECT_EQ(error_of("a\n  {% if x %}\n{{ 1 + }}"),
            "t.jinja: line 3, column 8: unexpected 'end of print statement'");
  EXPECT_EQ(error_of("a\n{% include 'x' %}"),
            "t.jinja: line 2, column 4: tag 'include' is not supported in chat templates");
  try {
    ChatTemplate::compile("{% foo %}", "t");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kBadFile);
  }
}

TEST(ChatTemplate, RuntimeErrorsNameTheLineAndRaisedOnesDoNot) {
  EXPECT_EQ(error_of("\n{{ nope.x }}"), "t.jinja, line 2: 'nope' is undefined");
  EXPECT_EQ(error_of("\n{{ raise_exception('No ' ~ messages[0].role) }}"), "No user");
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  auto t = ChatTemplate::compile("x", "t");
  ChatTemplateInput input;
  EXPECT_THROW(t->render(input), Error);
  input.messages = ordered_json::parse("[1]");
  EXPECT_THROW(t->render(input), Error);
  input = hello();
  input.extra["messages"] = 1;
  EXPECT_THROW(t->render(input), Error);
  input = hello();
  input.extra["n"] = uint64_t{1} << 63;
  EXPECT_EQ(t->render(input), "x");  // not used by the template
  EXPECT_THROW(ChatTemplate::compile("{{ n }}", "t")->render(input), Error);
}

// Hostile templates end in a clear error, soon, without exhausting memory or the stack.
class Hostile : public testing::TestWithParam<std::string> {};

TEST_P(Hostile, EndsInAnError) {
  auto start = std::chrono::steady_clock::now();
  std::string message = error_of(GetParam());
  EXPECT_EQ(message.find("no error"), std::string::npos) << message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

const std::string kDeepRepr =
    "{% set ns = namespace(v=[]) %}{% for i in range(1000) %}{% set ns.v = [ns.v] %}{% endfor %}";
const std::string kWideTree =
    "{% set a = namespace(v=[1]) %}{% set b = namespace(v=[1]) %}{% for i in range(60) %}"
    "{% set a.v = [a.v, a.v] %}{% set b.v = [b.v, b.v] %}{% endfor %}";

INSTANTIATE_TEST_SUITE_P(
    All, Hostile,
    testing::Values(
        "{{ 'a' * 1000000000000 }}", "{{ [0] * 1000000000 }}",
        "{{ [] * 9223372036854775807 ~ [1] * 9223372036854775807 }}", "{{ range(1000000000) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '%.999999999f' % 1 }}", "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(10000000000) }}", "{{ 'a'.center(10000000000) }}", "{{ 'a'.zfill(10000000000) }}",
        "{{ 'a'|indent(10000000000, true) }}", "{{ '\t'.expandtabs(10000000000) }}",
        "{{ [1]|batch(10000000000, 0)|list }}", "{{ [1]|slice(10000000000)|list }}",
        "{{ {'a': 1}|tojson(indent=10000000000) }}", "{{ 2 ** 100 }}", "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ 9223372036854775808 }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='aa') %}{% for i in range(100) %}{% set ns.s = ns.s|replace('a', ns.s) %}{% "
        "endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(x) %}{% for i in [1] %}{% if true %}{{ f(x ~ 'a') }}{% endif %}{% endfor %}{% endmacro "
        "%}{{ f('') }}",
        "{% macro f() %}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", kDeepRepr, kWideTree + "{{ a.v == b.v }}",
        kWideTree + "{{ a.v }}", kWideTree + "{{ a.v|tojson }}", kWideTree + "{{ a.v < b.v }}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{% set ns = namespace(v=none) %}{% for i in range(99999) %}{% for j in range(9) %}{% set ns.v = "
        "namespace(p=ns.v) %}{% endfor %}{% endfor %}",
        "{{ " + times(100000, "(") + " }}", "{{ " + times(100000, "[") + " }}",
        "{{ " + times(100000, "not ") + "1 }}", "{{ " + times(100000, "-") + "1 }}",
        "{{ 1" + times(100000, " + 1") + " }}", "{{ 'a'" + times(100000, "|upper") + " }}",
        "{{ x" + times(100000, ".a") + " }}", "{{ x" + times(100000, "[0]") + " }}",
        "{{ x" + times(100000, "()") + " }}", "{{ 1" + times(100000, " if 1 else 1") + " }}",
        "{{ 1" + times(100000, " if 1") + " }}", "{{ " + times(100000, "{1:") + " }}",
        "{{ 1" + times(100000, " is odd is not none") + " }}", "{{ f(" + times(100000, "f(") + " }}",
        times(100000, "{% if 1 %}"), times(100000, "{% for i in x %}"), times(100000, "{% raw %}"),
        times(100000, "{#"), "{{ x" + times(100000, " is not") + " }}", "{{ 'a'.__class__.__mro__ }}",
        "{{ ''['__class__']['__base__'] }}", "{{ messages.append(1) }}", "{{ messages.__init__() }}"));

// What holds its own tail is freed; a long chain is not freed recursively. Both show under a sanitizer.
TEST(ChatTemplate, CyclesAndChainsOfObjectsAreFreed) {
  auto render = [](const std::string& s) { return ChatTemplate::compile(s, "t")->render(hello()); };
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{{ m }}{% endmacro %}{% set "
                   "ns.m = m %}x"),
            "x");
  EXPECT_EQ(
      render("{% set ns = namespace(v=none) %}{% for i in range(90000) %}{% set ns.v = namespace(p=ns.v) %}"
             "{% endfor %}y"),
      "y");
  EXPECT_EQ(
      render(
          "{% set ns = namespace(l=[]) %}{% for i in range(9000) %}{% for j in ns.l %}{% set ns.k = loop %}"
          "{% endfor %}{% set ns.l = [ns.k] %}{% endfor %}z"),
      "z");
}

TEST(ChatTemplate, ManyElifsAndLongConcatenationsAreFine) {
  EXPECT_EQ(error_of("{% if 0 %}" + times(20000, "{% elif 0 %}") + "{% endif %}"), "no error: ");
  EXPECT_EQ(error_of("{{ ''" + times(20000, " ~ ''") + " }}"), "no error: ");
}

TEST(ChatTemplate, BrokenUtf8PassesThrough) {
  EXPECT_EQ(error_of("a\xff{{ '\xe4\xb8' ~ 'x' }}"), "no error: a\xff\xe4\xb8x");
}

}  // namespace
}  // namespace quaver
