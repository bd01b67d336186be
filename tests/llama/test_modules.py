# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the llamacpp backend without the library: texts as they grow, and grammars."""
import json
import sys
import types

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "backends" / "llamacpp"))
from llama_grammar import SchemaError, grammar_of, grammar_of_calls  # noqa: E402
from llama_paths import count_ways  # noqa: E402
from llama_request import Refusal, Request  # noqa: E402
from llama_text import TextStream  # noqa: E402


def pieces(stops, *tokens):
    """What each token makes certain, and the end."""
    stream, found = TextStream(stops), []
    for token in tokens:
        found.append(stream.push(token))
        if stream.has_stopped:
            return found
    return found + [stream.end()]


@pytest.mark.parametrize("stops, tokens, texts", [
    ([], [b"a", b"b"], ["a", "b", ""]),
    ([], [b"\xe2", b"\x82", b"\xac!"], ["", "", "\u20ac!", ""]),
    ([], [b"x\xf0\x9f", b"\x98\x80"], ["x", "\U0001f600", ""]),
    ([], [b"\xff", b"a", b"\xe2\x82"], ["\ufffd", "a", "", "\ufffd"]),
    (["END"], [b"aE", b"N", b"D", b"x"], ["a", "", ""]),
    (["END"], [b"aEN", b"x"], ["a", "ENx", ""]),
    (["END"], [b"EEN", b"D"], ["E", ""]),
    (["aab"], [b"a", b"a", b"a", b"b"], ["", "", "a", ""]),
    (["bc", "abcd"], [b"xabcd"], ["x"]),
    (["\u20ac"], [b"1\xe2\x82", b"\xac2"], ["1", ""]),
    (["z"], [b"\xe2", b"\x82", b"\xacz"], ["", "", "\u20ac"]),
    (["\ud800"], [b"a", b"?", b"b"], ["a", ""])])  # of no encoding, as the prompt would have it
def test_texts(stops, tokens, texts):
    assert pieces(stops, *tokens) == texts


@pytest.mark.parametrize("name", [["a"], {"a": 1}, 1, None])
def test_a_choice_of_a_tool_by_something_else_than_a_name(name):
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "a"}}],
            "tool_choice": {"function": {"name": name}}}
    with pytest.raises(Refusal, match="'tool_choice' must be none, auto, required, or name one of 'tools'"):
        Request(json.dumps(body))


def test_no_seed():
    """Clients of llama.cpp send -1; the choices after the first one would have fixed seeds."""
    for seed in (-1, -1.0, None):
        found = {Request(json.dumps({"prompt": "x", "seed": seed})).sampling["seed"] for _ in range(8)}
        assert len(found) > 1, seed
    assert Request(json.dumps({"prompt": "x", "seed": -5})).sampling["seed"] == 2**32 - 5


def rules(schema):
    return dict(line.split(" ::= ", 1) for line in grammar_of(schema).splitlines())


def test_rules():
    assert rules({"type": "integer"})["root"] == "integer"
    assert rules({"enum": ["a\"b", 1, None]})["root"] == '( "\\"a\\\\\\"b\\"" | "1" | "null" )'
    assert rules({"type": "string", "minLength": 2})["r1"] == '"\\"" char{2,} "\\""'
    assert rules({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3})["r1"] == \
        '"[" ws null ( "," ws null ){1,2} ws "]"'
    found = rules({"properties": {"a": {"type": "null"}}, "required": ["a"]})
    assert found["r3"] == '"{" ws r1 ws "}"' and found["r1"] == '"\\"a\\"" ws ":" ws null ""'


def test_an_enumeration_is_a_tree():
    """Common beginnings are written once, so that a text follows few of the values at a time."""
    assert rules({"enum": ["red", "rose", "rot", 1, 12, "red"]})["root"] == \
        '( "\\"r" ( "ed\\"" | "o" ( "se\\"" | "t\\"" ) ) | "1" ( "" | "2" ) )'
    assert rules({"oneOf": [{"const": "ab", "title": "x"}, {"const": "ac"}]})["root"] == \
        '( "\\"a" ( "b\\"" | "c\\"" ) )'
    deep = rules({"enum": ["a" * n for n in range(300)]})["root"]
    assert deep.count("(") == 65


def one_of(*schemas):
    return {"anyOf": list(schemas)}


def node(kind, inner):
    return {"type": "object", "properties": {"kind": {"const": kind}, "inner": inner},
            "required": ["kind"], "additionalProperties": False}


MANY = [{"type": "array", "items": {"type": "integer"}, "minItems": n} for n in range(20)]
NODES = {"$ref": "#/$defs/n", "$defs": {"n": one_of(*[node(f"k{i}", {"$ref": "#/$defs/n"}) for i in range(50)])}}
TWICE = {"type": "array", "prefixItems": [{"$ref": "#/$defs/n"}]}


@pytest.mark.parametrize("schema, n", [
    (True, 6),
    ({"enum": list(range(2000))}, 96),
    (one_of(*[{"const": f"x{i}"} for i in range(2000)]), 96),
    (one_of(*MANY), 40),
    (one_of(*[node(f"k{i}", one_of(*MANY)) for i in range(20)]), 40),  # told apart by their first member
    (NODES, 50),
    ({"properties": {f"p{i}": {"type": "null"} for i in range(250)}}, 251)])
def test_ways_of_a_schema(schema, n):
    assert count_ways(schema) == n and grammar_of(schema)


@pytest.mark.parametrize("schema, n", [
    (one_of(*[{"type": "array", "prefixItems": [one_of(*MANY)]} for _ in range(20)]), 800),
    ({"properties": {f"p{i}": {"type": "null"} for i in range(500)}}, 501),
    ({"$ref": "#/$defs/n", "$defs": {"n": one_of(*[TWICE] * 3)}}, 2187)])
def test_a_schema_with_too_many_ways(schema, n):
    for made in (grammar_of, lambda schema: grammar_of_calls({"a": schema, "b": {}})):
        with pytest.raises(SchemaError, match=f"about {n} alternatives that begin alike"):
            made(schema)


def test_a_schema_that_refers_to_itself():
    found = rules({"$ref": "#/$defs/tree", "$defs": {"tree": {
        "type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}})
    assert found["root"] == "r1" and "r1 | null" in found.values()


@pytest.mark.parametrize("schema, words", [
    ({"type": "string", "format": "date"}, "the keyword 'format'"),
    ({"type": "integer", "maximum": 3}, "the keyword 'maximum'"),
    ({"type": ["string", "null"], "pattern": "x"}, "the keyword 'pattern'"),
    ({"type": "tuple"}, 'the type "tuple"'), (False, "must be an object or true"),
    ({"allOf": [{}, {}]}, "'allOf' of the schema must have one schema"),
    ({"type": "array", "maxItems": 5000}, "'maxItems' of the schema must be an integer from 0 to 1000"),
    ({"properties": {}, "required": ["x"]}, "'required' of the schema names 'x'"),
    ({"enum": ["x" * 70000]}, "the schema has more than 65536 bytes"),
    ({"$ref": "http://elsewhere"}, "must begin with '#/'"), ({"$ref": {}}, "must begin with '#/'"),
    ({"type": "string", "minLength": 5, "maxLength": 1}, "'maxLength' of the schema is 1, less than 'minLength'"),
    ({"type": "array", "minItems": 2, "maxItems": 0}, "'maxItems' of the schema is 0, less than 'minItems'"),
    ({"anyOf": [{"type": "string", "maxLength": 1000}] * 66}, "times the choices, are more than 65536"),
    ({"anyOf": [{"type": "array", "minItems": 1000}] * 66}, "times the choices, are more than 65536"),
    ({"type": [[]]}, r"the type \[\[\]\]"), ({"type": "array", "prefixItems": 3}, "'prefixItems' of the schema"),
    ({"properties": {"a": True}, "required": [["a"]]}, "'required' of the schema names")])
def test_schemas_that_are_refused(schema, words):
    with pytest.raises(SchemaError, match=words):
        grammar_of(schema)


def test_lengths_count_for_each_choice():
    schema = {"anyOf": [{"type": "string", "maxLength": 1000}] * 8}
    assert "char{0,1000}" in grammar_of(schema, 8)
    with pytest.raises(SchemaError, match="more than 65536"):
        grammar_of(schema, 9)
    with pytest.raises(SchemaError, match="more than 65536"):
        grammar_of_calls({"a": schema, "b": schema}, 5)


def test_a_deep_schema_is_refused():
    schema = {"type": "null"}
    for _ in range(40):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaError, match="more than 32 levels"):
        grammar_of(schema)
    for _ in range(900):
        schema = {"anyOf": [schema]}
    with pytest.raises(SchemaError, match="more than 32 levels"):
        grammar_of(schema)
    with pytest.raises(SchemaError, match="more than 32 levels"):
        grammar_of_calls({"a": {}, "b": schema})


def test_calls_of_several_functions_share_no_rules():
    text = grammar_of_calls({"a": {"properties": {"x": {"type": "null"}}}, "b": {"type": "object"}})
    names = [line.split(" ::= ")[0] for line in text.splitlines()]
    assert len(names) == len(set(names)) and any(name.startswith("f0-r") for name in names)


@pytest.fixture
def answers(monkeypatch):
    """TextAnswers, with what its module needs of the server's module when it is imported."""
    utils = types.ModuleType("triton_python_backend_utils")
    utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    utils.TritonError = types.SimpleNamespace(INVALID_ARG=3)
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    monkeypatch.syspath_prepend(str(ROOT / "backends" / "chat_template"))
    names = ("llama_generation", "llama_loop", "llama_slots")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    from llama_generation import TextAnswers
    yield TextAnswers(None, None)
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("arguments", [
    '{"a": 1e999}', '{"a":[-1e999]}', '{"a": 1' + "0" * 5000 + "}", '{ "arguments": "}", "b": "\\u00e4\\"" }', "{}", "[]"],
    ids=["infinite", "in a list", "long", "texts", "empty", "a list"])
@pytest.mark.parametrize("name", ["f", 'f"arguments', '"arguments": ', "a: }"])
def test_arguments_are_as_the_model_wrote_them(answers, name, arguments):
    """Also numbers that Python cannot hold, for which its module writes what is no JSON."""
    job = types.SimpleNamespace(request=types.SimpleNamespace(functions={name: {}, "other": {}}), call_ids=["id"])
    for form in ('{"name":%s,"arguments":%s}', '{ "name" : %s , \n "arguments" :\n %s\n }'):
        text = form % (json.dumps(name), arguments)
        (call,) = answers._parsed_calls(job, 0, text)
        assert call["function"] == {"name": name, "arguments": arguments}
        assert answers._parsed_calls(job, 0, text[:-1]) == []


def test_a_call_that_is_too_deep_does_not_end_the_loop(answers):
    job = types.SimpleNamespace(request=types.SimpleNamespace(functions={"f": {}, "other": {}}), call_ids=["id"])
    assert answers._parsed_calls(job, 0, '{"name":"f","arguments":%s1%s}' % ("[" * 100000, "]" * 100000)) == []
