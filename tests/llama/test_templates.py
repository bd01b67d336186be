# SPDX-License-Identifier: BSD-3-Clause
"""Chat templates: 20 of common form with the texts that they make, hostile ones, and the chat_template backend.
The numbers of checks are those of docs/llamacpp.md."""
import json
import sys
import time

import pytest

from conftest import ROOT
from openai_models import VLLM, VLLM_IO, call, chat, model, parameters
from python_programs import OPTIONS as PYTHON_OPTIONS

sys.path.insert(0, str(ROOT / "backends" / "chat_template"))
import chat_template  # noqa: E402
from chat_template import ChatTemplate, TemplateError, TemplateRefusal  # noqa: E402

pytest.importorskip("jinja2")

BACKENDS = ("python", "identity")
TALK = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}]
ASK = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "sum", "description": "Adds <numbers>",
                                           "parameters": {"type": "object"}}}]
CALLED = [{"role": "user", "content": "1+2?"},
          {"role": "assistant", "content": None, "tool_calls": [
              {"id": "c1", "type": "function", "function": {"name": "sum", "arguments": '{"a": 1, "b": 2}'}}]},
          {"role": "tool", "tool_call_id": "c1", "content": "3"}]

# name: (template, body of the request, text)
GOLDEN = {
    "marks of roles": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        {"messages": TALK},
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!"
        "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"),
    "no generation prompt": (
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}",
        {"messages": ASK, "add_generation_prompt": False}, "[user]Hi"),
    "instructions in brackets": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        {"messages": TALK[1:]}, "<s>[INST] Hi [/INST] Hello!</s>[INST] Bye [/INST]"),
    "a system message within the first one": (
        "{% if messages[0].role == 'system' %}{% set system = '<<SYS>>' + messages[0].content + '<</SYS>>' %}"
        "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{% if loop.first %}{{ system }}{% endif %}{{ m.content }}|{% endfor %}",
        {"messages": TALK}, "<<SYS>>Be kind.<</SYS>>Hi|Hello!|Bye|"),
    "headers": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
        "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + "
        "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
        "{{ content }}{% endfor %}",
        {"messages": [{"role": "user", "content": "  Hi \n"}]},
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"),
    "other names of roles": (
        "{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}"
        "<start_of_turn>{{ role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n",
        {"messages": TALK[1:3]},
        # Jinja drops the last line break of a template.
        "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
        "<start_of_turn>model"),
    "a namespace": (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}"
        "{{ ns.n }}: {{ m.content }};{% endif %}{% endfor %}",
        {"messages": TALK}, "1: Hi;2: Bye;"),
    "tools as JSON": (
        "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{{ messages[0].content }}",
        {"messages": ASK, "tools": TOOLS},
        '{"type": "function", "function": {"name": "sum", "description": "Adds <numbers>", "parameters": '
        '{"type": "object"}}}\nHi'),
    "tools with indents": (
        "{{ tools | map(attribute='function') | map(attribute='name') | list | tojson(indent=2) }}",
        {"messages": ASK, "tools": TOOLS}, '[\n  "sum"\n]'),
    "no tools": ("{% if tools %}tools{% else %}none{% endif %}",
                 {"messages": ASK, "tools": TOOLS, "tool_choice": "none"}, "none"),
    "a call of a tool": (
        "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}<call>{{ c.function.name }}"
        "({% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %})"
        "</call>{% endfor %}{% elif m.role == 'tool' %}<result>{{ m.content }}</result>{% else %}"
        "{{ m.content }}{% endif %}{% endfor %}",
        {"messages": CALLED}, "1+2?<call>sum(a=1,b=2)</call><result>3</result>"),
    "a content that is none": (
        "{% for m in messages %}{% if m.content is none %}-{% else %}{{ m.content }}{% endif %}{% endfor %}",
        {"messages": CALLED}, "1+2?-3"),
    "blocks on lines of their own": (
        "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n",
        {"messages": ASK}, "Hi\n"),
    "minus signs": (
        "{%- for m in messages -%}\n   {{- m.role + ': ' -}}\n   {{- m.content -}}\n{%- endfor -%}",
        {"messages": ASK}, "user: Hi"),
    "break and continue": (
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% if m.role == 'assistant' %}"
        "{% break %}{% endif %}{{ m.content }}{% endfor %}",
        {"messages": TALK}, "Hi"),
    "a macro": (
        "{% macro show(m) %}<{{ m.role }}>{{ caller() }}{% endmacro %}{% for m in messages %}"
        "{% call show(m) %}{{ m.content }}{% endcall %}{% endfor %}",
        {"messages": ASK}, "<user>Hi"),
    "the marks of training": (
        "{% for m in messages %}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}",
        {"messages": TALK[:2]}, "Be kind.;Hi;"),
    "variables of the request": (
        "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
        "{{ reasoning_effort }} {{ documents[0].title }}",
        {"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low",
         "documents": [{"title": "T"}]}, "<think></think>low T"),
    "parts of a content, and the role developer": (
        "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}",
        {"messages": [{"role": "developer", "content": "d"},
                      {"role": "user", "content": [{"type": "text", "text": "a"},
                                                   {"type": "text", "text": "b"}]}]},
        "system=d;user=a\nb;"),
    "a template that knows developers, and other alphabets": (
        "{% for m in messages %}{{ '#' if m.role == 'developer' else '>' }}{{ m.content }}{% endfor %}"
        "{{ {'x': messages[0].content} | tojson }}",
        {"messages": [{"role": "developer", "content": "Grüße, 世界 <&'\">"}]},
        "#Grüße, 世界 <&'\">{\"x\": \"Grüße, 世界 <&'\\\">\"}"),
    "the date": ("{{ strftime_now('%Y') | length }}", {"messages": ASK}, "4"),
}


def rendered(template, body):
    found = ChatTemplate(template, "<s>", "</s>")
    try:
        return found.render(json.dumps(body).encode())
    finally:
        found.close()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_texts(name):
    """(10)"""
    template, body, text = GOLDEN[name]
    assert rendered(template, body) == text


# ---- hostile templates ----------------------------------------------------------------------------------------


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_an_endless_loop():
    """(10) 1 s, then an error; the next request finds a new process."""
    template = ChatTemplate("{% if messages[0].content == 'loop' %}" + LOOP + "{% endif %}done")
    began = time.monotonic()
    with pytest.raises(TemplateError, match="^the chat template took longer than 1 s$"):
        template.render(json.dumps({"messages": [{"role": "user", "content": "loop"}]}).encode())
    assert time.monotonic() - began >= 1
    assert template.render(json.dumps({"messages": ASK}).encode()) == "done"
    template.close()


@pytest.mark.parametrize("template", [
    "{{ ''.__class__ }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.__init__ }}",
    "{{ raise_exception.__globals__ }}", "{{ ''['__class__'] }}", "{{ messages | attr('__class__') }}",
    "{{ '{0.__class__}'.format(messages) }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}"])
def test_attributes_outside_of_the_sandbox(template):
    """(10)"""
    with pytest.raises(TemplateError, match="SecurityError: access to attribute '__[a-z]+__'"):
        rendered(template, {"messages": ASK})


@pytest.mark.parametrize("template, words", [
    ("{{ messages.append(1) }}", "SecurityError"),
    ("{% include 'x' %}", "no loader"),
    ("{{ 'x' * 2000000000 }}", "MemoryError: it needs more than 1073741824 bytes"),
    ("{% for i in range(9999) %}{{ 'x' * 2000 }}{% endfor %}", "its text has more than 16777216 bytes"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ("a\nb\n{{ 1 // 0 }}", r"ZeroDivisionError: .* \(line 3 of the template\)"),
    ("{% for %}", "cannot be used: TemplateSyntaxError: .* \\(line 1 of the template\\)")])
def test_templates_that_fail(template, words):
    with pytest.raises(TemplateError, match=words):
        rendered(template, {"messages": ASK})


def test_a_template_that_refuses():
    with pytest.raises(TemplateRefusal, match="^Roles must alternate$"):
        rendered("{{ raise_exception('Roles must alternate') }}", {"messages": ASK})


@pytest.mark.parametrize("messages, words", [
    ([{"role": "user", "content": [{"text": 3}]}], "the 'text' of a part of a message must be a string"),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}], "a list of parts, which are objects"),
    ([{"role": "user", "content": 3}], "the 'content' of a message must be a string or a list of parts"),
    ([{"role": 3, "content": "a"}], "the 'role' of a message must be a string"),
    ([{"role": "assistant", "tool_calls": 3}], "the 'tool_calls' of a message must be a list of objects"),
    ([{"role": "assistant", "tool_calls": [[]]}], "the 'tool_calls' of a message must be a list of objects"),
    (["a"], "'messages' must be a list of objects")])
def test_messages_that_are_refused(messages, words):
    with pytest.raises(TemplateRefusal, match=words):
        rendered("{% for m in messages %}{{ m.role + m.content }}{% endfor %}", {"messages": messages})


@pytest.mark.parametrize("body, words", [
    (b'{"messages":[],"x":Inf}', "the request is no JSON: Expecting value"),
    (b'{"messages":[],"x":' + b"1" * 5000 + b"}", "the request is no JSON: Exceeds the limit"),
    (b'{"messages":[],"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "the request is no JSON: maximum recursion depth"),
    (b"[1]", "the request must be a JSON object"),
    (b'{"messages":[],"tools":[3]}', "'tools' must be a list of objects"),
    (b'{"messages":[],"tools":{"a":1}}', "'tools' must be a list of objects")],
    ids=["a word", "a long number", "depth", "a list", "a tool", "tools"])
def test_bodies_that_are_refused(body, words):
    template = ChatTemplate("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}")
    with pytest.raises(TemplateRefusal, match=words):
        template.render(body)
    template.close()


def test_deep_arguments_of_a_call():
    """They stay the text that they are, as what is no JSON does."""
    body = {"messages": [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "f", "arguments": "[" * 100000}}]}]}
    assert rendered("{{ messages[0].tool_calls[0].function.arguments | length }}", body) == "100000"


def test_parts_without_a_text():
    parts = [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": None}, {"text": "a"}]
    assert rendered("{{ messages[0].content }}", {"messages": [{"role": "user", "content": parts}]}) == "\n\na"


@pytest.mark.parametrize("template, kind", [
    ("{{ raise_exception(messages[0].content) }}", TemplateRefusal),
    ("{{ {}[messages[0].content] + 1 }}{{ messages | attr(messages[0].content) }}", TemplateError),
    ("{{ messages[0].content.encode('ascii').x }}", TemplateError)])
def test_the_text_of_an_error_is_cut(template, kind):
    """It may contain all of a request. The cut is not within a character."""
    with pytest.raises(kind) as found:
        rendered(template, {"messages": [{"role": "user", "content": "\u20ac" * 100000}]})
    text = str(found.value).removeprefix("the chat template failed: ")
    assert len(text.encode()) <= 1000 and "\ufffd" not in text
    if kind is TemplateRefusal:
        assert text == "\u20ac" * 332 + "..."


def test_a_process_that_is_killed_is_replaced():
    template = ChatTemplate("{{ messages[0].content }}")
    body = json.dumps({"messages": ASK}).encode()
    assert template.render(body) == "Hi"
    template._process.kill()
    with pytest.raises(TemplateError, match="ended with signal 9"):
        template.render(body)
    assert template.render(body) == "Hi"
    template.close()


def test_files_of_tokenizers(tmp_path):
    def config(**values):
        (tmp_path / "t.json").write_text(json.dumps(values))
        return chat_template.read_tokenizer_config(tmp_path, "t.json")

    assert config(chat_template="x", bos_token="<s>", eos_token={"content": "</s>"}) == ("x", "<s>", "</s>")
    assert config(chat_template=[{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}],
                  bos_token=None) == ("d", "", "")
    assert config() == (None, "", "")
    with pytest.raises(TemplateError, match="no chat template with the name 'default'"):
        config(chat_template=[{"name": "a", "template": "t"}, {"name": "b", "template": "d"}])
    (tmp_path / "link").symlink_to("/etc/hostname")
    for name in ("../x", "/etc/hostname", "link"):
        with pytest.raises(TemplateError, match="must be in the model's directory"):
            chat_template.read_file(tmp_path, name)


# ---- the backend ----------------------------------------------------------------------------------------------


SHOWN = "{% for m in messages %}{{ m.role }}: {{ m.content }}/{% endfor %}{{ bos_token }}"
ODD = ("{% if messages[0].content == 'loop' %}" + LOOP + "{% endif %}"
       "{% if messages[0].content == 'refuse' %}{{ raise_exception('not these') }}{% endif %}"
       "{% if messages[0].content == 'fail' %}{{ 1 // 0 }}{% endif %}fine")
OFF = 'backend: "chat_template"\n' + parameters(openai="off")


def speaks(template):
    return model(VLLM, VLLM_IO, parameters(log="/dev/null", openai_template=template))


MODELS = {
    "render": {"config.pbtxt": OFF, "1/chat_template.jinja": SHOWN,
               "1/tokenizer_config.json": json.dumps({"bos_token": "<b>", "chat_template": "not this"})},
    "named": {"config.pbtxt": OFF + parameters(chat_template="my.jinja", bos_token="<c>"), "my.jinja": SHOWN},
    "in_json": {"config.pbtxt": OFF,
                "tokenizer_config.json": json.dumps({"bos_token": "<d>", "chat_template": SHOWN})},
    "odd": {"config.pbtxt": OFF, "1/chat_template.jinja": ODD},
    **{f"by_{name}": speaks(name) for name in ("render", "named", "in_json", "odd")},
}
# The limits of the model itself end a template here, not that of the front.
OPTIONS = (*PYTHON_OPTIONS, "--backend-config=python,stub-timeout-seconds=120", "--openai-template-timeout-ms=20000")


@pytest.mark.parametrize("name, bos", [("render", "<b>"), ("named", "<c>"), ("in_json", "<d>")])
def test_the_front_uses_the_backend(server, name, bos):
    answer = chat(server, f"by_{name}", "Hi")
    assert answer.status == 200, answer.body
    assert answer.json["choices"][0]["message"]["content"] == f"user: Hi/{bos}"


def test_a_template_of_the_client_is_not_used(server):
    answer = chat(server, "by_render", "Hi", chat_template="evil")
    assert answer.status == 200 and answer.json["choices"][0]["message"]["content"] == "user: Hi/<b>"


@pytest.mark.parametrize("content, status, words", [
    ("refuse", 400, "not these"), ("loop", 500, "the chat template took longer than 1 s"),
    ("fail", 500, "the chat template failed: ZeroDivisionError")])
def test_errors_of_a_template(server, content, status, words):
    """(10)"""
    answer = chat(server, "by_odd", content)
    assert answer.status == status and words in answer.error["message"], answer.body
    assert chat(server, "by_odd", "Hi").json["choices"][0]["message"]["content"] == "fine"


def test_the_model_is_not_listed(server):
    names = {m["id"] for m in call(server, "/v1/models").json["data"]}
    assert "render" not in names and "by_render" in names
