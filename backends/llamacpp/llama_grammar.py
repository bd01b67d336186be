# SPDX-License-Identifier: BSD-3-Clause
"""JSON schemas as grammars in GBNF, the form that llama.cpp's grammar sampler reads.

A keyword that constrains the text and that this file does not know is refused by its name.
"""
import json
import os

from llama_paths import all_constants, compact, count_ways

MAX_DEPTH = 32
MAX_RULES = 4096
MAX_REPEATS = 1000
MAX_REPEATS_IN_ALL = 64 << 10  # of a request; the library makes a rule of about 200 bytes of each
MAX_SCHEMA_BYTES = 64 << 10
MAX_WAYS = 256  # that are followed at the same time: the time of each token grows with them
MAX_TREE_DEPTH = 64  # of the parentheses of an enumeration

ANNOTATIONS = frozenset(("title", "description", "default", "examples", "$schema", "$id", "$comment",
                         "deprecated", "readOnly", "writeOnly", "$defs", "definitions", "strict"))

# Rules that all grammars may use.
BASIC = {
    "ws": '( " " | "\\n" [ \\t]{0,16} )?',
    "char": '[^"\\\\\\x7F\\x00-\\x1F] | "\\\\" ( ["\\\\/bfnrt] | "u" [0-9a-fA-F]{4} )',
    "string": '"\\"" char* "\\""',
    "integral": '"0" | [1-9] [0-9]{0,15}',
    "integer": '"-"? integral',
    "number": '"-"? integral ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "member": 'string ws ":" ws value',
    "object": '"{" ws ( member ( "," ws member )* )? ws "}"',
    "array": '"[" ws ( value ( "," ws value )* )? ws "]"',
    "value": "object | array | string | number | boolean | null",
}

KEYWORDS = {
    "string": {"minLength", "maxLength"},
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "integer": set(), "number": set(), "boolean": set(), "null": set(),
}


class SchemaError(Exception):
    """The schema cannot be obeyed."""


def _quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def _literal(value):
    """A JSON value as a literal of the grammar."""
    return _quoted(compact(value))


def _tree(texts, depth=0):
    """One of several texts. Their common beginnings are written once, so that few are followed at a time."""
    groups = {}
    for text in texts:
        groups.setdefault(text[:1], []).append(text)
    if depth == MAX_TREE_DEPTH or len(groups) == len(texts):
        return " | ".join(map(_quoted, texts))
    return " | ".join(_branch(group, depth) for group in groups.values())


def _branch(texts, depth):
    if len(texts) == 1:
        return _quoted(texts[0])
    head = os.path.commonprefix(texts)
    return "%s ( %s )" % (_quoted(head), _tree([text[len(head):] for text in texts], depth + 1))


def _count(schema, name, default):
    value = schema.get(name, default)
    if value is default:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_REPEATS:
        raise SchemaError("'%s' of the schema must be an integer from 0 to %d" % (name, MAX_REPEATS))
    return value


class _Repeats:
    """Counts the repetitions of a request, since each choice has a grammar of its own."""

    def __init__(self, n_choices):
        self._left = MAX_REPEATS_IN_ALL // n_choices

    def read(self, schema, low_name, high_name):
        """The limits of how often something comes; the upper one is None when there is none."""
        low, high = _count(schema, low_name, 0), _count(schema, high_name, None)
        if high is not None and high < low:  # the library would repeat without an end
            raise SchemaError("'%s' of the schema is %d, less than '%s', which is %d" % (
                high_name, high, low_name, low))
        self._left -= low if high is None else high
        if self._left < 0:
            raise SchemaError("the lengths of the schema, times the choices, are more than %d"
                              % MAX_REPEATS_IN_ALL)
        return low, high


class _Grammar:
    def __init__(self, root, repeats, prefix="r"):
        self._root = root
        self._repeats = repeats
        self._prefix = prefix
        self.rules = {}
        self._references = {}
        self._n = 0

    def _new(self):
        self._n += 1
        if self._n > MAX_RULES:
            raise SchemaError("the schema needs more than %d rules" % MAX_RULES)
        return "%s%d" % (self._prefix, self._n)

    def _add(self, body, name=None):
        name = name or self._new()
        self.rules[name] = body
        return name

    def expression(self, schema, depth=0):
        """An expression of the grammar for a schema."""
        if depth > MAX_DEPTH:
            raise SchemaError("the schema has more than %d levels" % MAX_DEPTH)
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, dict):
            raise SchemaError("a schema must be an object or true, not %s" % json.dumps(schema)[:64])
        for name, make in (("$ref", self._reference), ("const", self._constant), ("enum", self._enumeration),
                           ("anyOf", self._alternatives), ("oneOf", self._alternatives),
                           ("allOf", self._only_one)):
            if name in schema:
                self._check(schema, {name, "type"} if name in ("const", "enum") else {name})
                return make(schema[name], depth + 1)
        return self._typed(schema, depth)

    @staticmethod
    def _check(schema, known):
        for name in schema:
            if name not in known and name not in ANNOTATIONS:
                raise SchemaError("the keyword '%s' of the schema is not supported here" % name[:64])

    def _reference(self, target, depth):
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            raise SchemaError("the reference '%s' of the schema must begin with '#/'" % str(target)[:64])
        if target in self._references:
            return self._references[target]
        found = self._root
        for part in target.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                raise SchemaError("the reference '%s' of the schema leads nowhere" % target[:64])
            found = found[part]
        name = self._references[target] = self._new()
        self._add(self.expression(found, depth), name)
        return name

    @staticmethod
    def _constant(value, _):
        return _literal(value)

    @staticmethod
    def _enumeration(values, _):
        if not isinstance(values, list) or not values:
            raise SchemaError("'enum' of the schema must be a list of values")
        return "( %s )" % _tree(list(dict.fromkeys(map(compact, values))))

    def _alternatives(self, schemas, depth):
        if not isinstance(schemas, list) or not schemas:
            raise SchemaError("'anyOf' and 'oneOf' of the schema must be lists of schemas")
        expressions = [self.expression(one, depth) for one in schemas]
        if all_constants(schemas):
            return self._enumeration([one["const"] for one in schemas], depth)
        return self._add(" | ".join(expressions))

    def _only_one(self, schemas, depth):
        if not isinstance(schemas, list) or len(schemas) != 1:
            raise SchemaError("'allOf' of the schema must have one schema")
        return self.expression(schemas[0], depth)

    def _typed(self, schema, depth):
        kind = schema.get("type")
        if isinstance(kind, list) and kind and all(isinstance(one, str) for one in kind):
            rest = {key: value for key, value in schema.items() if key != "type"}
            kinds = [{**{k: v for k, v in rest.items() if k in KEYWORDS.get(one, ()) or k in ANNOTATIONS},
                      "type": one} for one in kind]
            self._check(rest, set().union(*(KEYWORDS.get(one, ()) for one in kind)))
            return self._alternatives(kinds, depth + 1)
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else None
        if not isinstance(kind, str) or kind not in KEYWORDS:
            raise SchemaError("the type %s of the schema is not supported here" % json.dumps(kind)[:64])
        self._check(schema, KEYWORDS[kind] | {"type"})
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string" and ("minLength" in schema or "maxLength" in schema):
            return self._string(schema)
        return kind

    def _string(self, schema):
        low, high = self._repeats.read(schema, "minLength", "maxLength")
        return self._add('"\\"" char{%d,%s} "\\""' % (low, "" if high is None else high))

    def _array(self, schema, depth):
        low, high = self._repeats.read(schema, "minItems", "maxItems")
        prefix = schema.get("prefixItems", [])
        if not isinstance(prefix, list):
            raise SchemaError("'prefixItems' of the schema must be a list of schemas")
        first = [self.expression(one, depth + 1) for one in prefix]
        if first:
            if schema.get("items", False) is not False or "minItems" in schema or "maxItems" in schema:
                raise SchemaError("'prefixItems' of the schema excludes items, minItems and maxItems here")
            return self._add('"[" ws %s ws "]"' % ' "," ws '.join(first))
        item = self.expression(schema.get("items", True), depth + 1)
        if high == 0:
            return self._add('"[" ws "]"')
        more = '( "," ws %s ){%d,%s}' % (item, max(0, low - 1), "" if high is None else high - 1)
        body = "%s %s" % (item, more)
        return self._add('"[" ws %s ws "]"' % (body if low > 0 else "( %s )?" % body))

    def _object(self, schema, depth):
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise SchemaError("'properties' of the schema must be an object, and 'required' a list")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                raise SchemaError("'required' of the schema names '%s', which is no property" % str(name)[:64])
        more = schema.get("additionalProperties", not properties)
        members = [('%s ws ":" ws %s' % (_literal(name), self.expression(one, depth + 1)), name in required)
                   for name, one in properties.items()]
        if more is not False:
            other = 'string ws ":" ws %s' % self.expression(more, depth + 1)
            members.append((self._add('%s ( "," ws %s )*' % (other, other)), False))
        return self._add('"{" ws %s ws "}"' % self._members(members))

    def _members(self, members):
        """Members in their order, each but the required ones may be missing. Two rules for each: what may
        follow when no member has come yet, and when one has."""
        first, after = '""', '""'
        for body, is_required in reversed(members):
            with_it = "%s %s" % (body, after)
            new_first = with_it if is_required else "%s | %s" % (with_it, first)
            new_after = '"," ws %s' % with_it
            if not is_required:
                new_after = "%s | %s" % (new_after, after)
            first, after = self._add(new_first), self._add(new_after)
        return first


def _check_size(schema):
    try:
        size = len(json.dumps(schema))
    except RecursionError:
        raise SchemaError("the schema has more than %d levels" % MAX_DEPTH) from None
    if size > MAX_SCHEMA_BYTES:
        raise SchemaError("the schema has more than %d bytes" % MAX_SCHEMA_BYTES)


def _check_ways(schema):
    n = count_ways(schema)
    if n > MAX_WAYS:
        raise SchemaError("the schema has about %d alternatives that begin alike or follow at the same place, "
                          "more than %d: let objects begin with a required member of one value, and make fewer "
                          "members optional" % (n, MAX_WAYS))


def _print(start, rules):
    lines = ["root ::= " + start] + ["%s ::= %s" % rule for rule in {**BASIC, **rules}.items()]
    return "\n".join(lines) + "\n"


def grammar_of(schema, n_choices=1):
    """The grammar of the texts that obey a schema; each of the choices of a request gets one."""
    _check_size(schema)
    grammar = _Grammar(schema, _Repeats(n_choices))
    start = grammar.expression(schema)
    _check_ways(schema)
    return _print(start, grammar.rules)


def grammar_of_calls(functions, n_choices=1):
    """The grammar of the arguments of a function; of several, {"name": ..., "arguments": ...}."""
    if len(functions) == 1:
        return grammar_of(next(iter(functions.values())), n_choices)
    _check_size(functions)
    repeats = _Repeats(n_choices)
    rules, calls = {}, []
    for i, (name, schema) in enumerate(functions.items()):
        grammar = _Grammar(schema, repeats, "f%d-r" % i)
        calls.append('"{" ws "\\"name\\"" ws ":" ws %s "," ws "\\"arguments\\"" ws ":" ws %s ws "}"' % (
            _literal(name), grammar.expression(schema)))
        _check_ways(schema)
        rules.update(grammar.rules)
    return _print(" | ".join(calls), rules)
