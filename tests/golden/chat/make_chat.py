"""Writes chat.json: whole conversations through whole templates, as Transformers renders them.

smollm2.jinja is the template of HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0). The other templates were written for
this project; between them they use what the templates of the common families use.

Run: python tests/golden/chat/make_chat.py > tests/golden/chat/chat.json
"""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

TEMPLATES = sorted((pathlib.Path(__file__).parent / "templates").glob("*.jinja"))


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather now, e.g. in \"Zürich\" & <Ulm>.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Which city"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
        "detail": {"type": "object", "properties": {"wind": {"type": "boolean"}, "at": {"type": ["string", "null"]}}, "required": ["wind"]},
        "where": {"oneOf": [{"type": "string", "description": "name"}, {"type": "number", "default": 1.5}]},
    }, "required": ["city"]}, "return": {"type": "string"}}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}
TABLE = {"type": "function", "function": {"name": "table", "description": "Ein Tisch 桌子 🙂", "parameters": {
    "type": "object", "properties": {"rows": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                                     "map": {"type": "object", "additionalProperties": {"type": "integer"}}, "any": {}}}}}

CONVERSATIONS = {
    "one": [user("Hello")],
    "system": [system("  Be brief. "), user(" Hi \n")],
    "turns": [system("S"), user("a"), assistant("b"), user("c")],
    "no_system_turns": [user("a"), assistant("b "), user("c"), assistant("d"), user("e")],
    "assistant_last": [user("Count"), assistant("One, two,")],
    "assistant_last_spaces": [user("Count"), assistant("  One, two \n")],
    "unicode": [system("Grüße"), user("世界 🙂 \u200b \x00 ẞ"), assistant("مرحبا"), user("e\u0301")],
    "markup": [user("<b>&amp; \"q\" 'q' {{ x }} {% if %} \\n </b>")],
    "tags": [user("<think>no</think> <tool_call>"), assistant("<think>\nyes\n</think>\n\nout"), user("more")],
    "empty": [user(""), assistant(""), user("again")],
    "none": [user("call it"), assistant(None, tool_calls=[call("now", {})]), {"role": "tool", "content": "12:00", "tool_call_id": "call00001"}, user("ok")],
    "tool": [system("T"), user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Ulm", "n": 1.0, "x": [1, None, True]})]),
             {"role": "tool", "name": "get_weather", "content": "{\"t\": 21}", "tool_call_id": "call00001"}, assistant("21 degrees"), user("Thanks")],
    "two_tools": [user("Both"), assistant("Let me see", tool_calls=[call("now", {}), call("get_weather", {"city": "Bonn"}, "call00002")]),
                  {"role": "tool", "content": "12:00"}, {"role": "tool", "content": "rain"}],
    "string_arguments": [user("Go"), assistant("", tool_calls=[call("now", "{\"a\": 1}")]), {"role": "tool", "content": "x"}],
    "reasoning": [user("2+2?"), assistant("4", reasoning_content="two and two\n"), user("3+3?"), assistant("6", reasoning="hm")],
    "thinking": [user("2+2?"), assistant(None, thinking="I should call", tool_calls=[call("now", {})]), {"role": "tool", "content": "noon"}],
    "parts": [user([{"type": "text", "text": "Look: "}, {"type": "image", "image": "x"}, {"type": "text", "text": " and"}, {"type": "video", "video": "y"}])],
    "system_parts": [system([{"type": "text", "text": "Sys"}]), user([{"type": "text", "text": "Hi"}]), assistant([{"type": "text", "text": "Yo"}])],
    "empty_parts": [user([])],
    "bad_order": [user("a"), user("b")],
    "late_system": [user("a"), system("late"), user("b")],
    "two_systems": [system("1"), system("2"), user("b")],
    "developer": [{"role": "developer", "content": "Dev"}, user("x")],
    "lonely_tool": [{"role": "tool", "content": "x"}],
    "system_only": [system("alone")],
    "odd_keys": [{"role": "user", "content": "x", "name": "bob", "items": 5, "extra": {"a": None}}],
    "no_content": [{"role": "user"}],
    "long": [user("word " * 30), assistant("line one\nline two\n\nline four"), user("end")],
}
DOCUMENTS = [{"title": "a tale of TWO", "text": "It was\nthe best\n\nof times"}, {"title": "", "text": "x"}]

# What a request may add to a conversation: one row each, over every conversation and template where it can matter.
VARIANTS = [
    {}, {"add_generation_prompt": True}, {"tools": [WEATHER, NOW], "add_generation_prompt": True}, {"tools": [TABLE]},
    {"continue_final_message": True}, {"extra": {"enable_thinking": False}, "add_generation_prompt": True},
    {"extra": {"tools_in_user_message": False, "date_string": "5 May", "reasoning_effort": "high", "model_identity": "I.", "add_vision_id": True}, "tools": [NOW]},
    {"documents": DOCUMENTS, "extra": {"bos_token": "<bos2>"}},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def render(source, messages, variant):
    kwargs = {**TOKENS, **variant.get("extra", {})}
    if variant.get("continue_final_message") and variant.get("add_generation_prompt"):
        raise ValueError("not compatible")
    rendered, _ = render_jinja_template(
        [_normalize_chat_messages(messages)], tools=variant.get("tools"), documents=variant.get("documents"), chat_template=source,
        add_generation_prompt=variant.get("add_generation_prompt", False),
        continue_final_message=variant.get("continue_final_message", False), **kwargs)
    return rendered[0]


def main():
    cases = []
    for path in TEMPLATES:
        source = path.read_text()
        for name, messages in CONVERSATIONS.items():
            seen = set()
            for number, variant in enumerate(VARIANTS):
                row = {"template": path.name, "conversation": name, "variant": number}
                try:
                    row["text"] = render(source, messages, variant)
                except Exception as e:
                    row["error"] = str(e)
                    row["raised"] = "raise_exception" in source and str(e) in source
                outcome = row.get("text", row.get("error"))
                if number > 1 and outcome in seen:
                    continue
                seen.add(outcome)
                cases.append(row)
    json.dump({"tokens": TOKENS, "conversations": CONVERSATIONS, "variants": VARIANTS, "cases": cases}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
