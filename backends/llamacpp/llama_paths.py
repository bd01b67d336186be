# SPDX-License-Identifier: BSD-3-Clause
"""How many ways a grammar follows at the same time, at most: an estimate from the JSON schema.

The library compares each token of the vocabulary with each way in which the text so far can go on, and the ways
multiply where alternatives that begin alike contain alternatives. Alternatives whose fixed beginnings differ are
told apart by the text, so only one of them goes on.

A schema that refers to itself more than once, in alternatives that begin alike, has more ways with each level:
seven levels are counted here, and the time of each token is limited besides (llama_library.Sampler).
"""
import json
import os


def compact(value):
    """A JSON value as the grammar has it."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def all_constants(schemas):
    """True for alternatives that are an enumeration in another form, as descriptions of values need."""
    return all(isinstance(one, dict) and "const" in one for one in schemas)


class _Ways:
    """Of a schema: the text with which it begins in any case, how many ways there are, and how many of them are
    references to a schema that contains it."""
    __slots__ = ("head", "n", "n_inner")

    def __init__(self, head, n=1, n_inner=0):
        self.head = head
        self.n = n
        self.n_inner = n_inner


def _either(ways):
    """One of several: those that begin alike are followed together."""
    most = len(ways)
    most_inner = n = n_inner = 0
    head = None
    for one in sorted(ways, key=lambda one: one.head):
        if head is None or not one.head.startswith(head):
            head, n, n_inner = one.head, 0, 0
        n += one.n
        n_inner += one.n_inner
        most, most_inner = max(most, n), max(most_inner, n_inner)
    return _Ways(os.path.commonprefix([one.head for one in ways]), most, most_inner)


def _sequence(head, ways, at_least=1):
    """One after the other: each ends before the next one begins."""
    return _Ways(head, max([one.n for one in ways] + [at_least]), max([one.n_inner for one in ways], default=0))


class _Counter:
    def __init__(self, root):
        self._root = root
        self._known = {}  # references; None: its ways are being counted

    def of(self, schema):
        """`schema` is one of which a grammar was made, so its form is right."""
        if not isinstance(schema, dict) or not schema:
            return _Ways("", 6)  # any value
        for name, count in (("$ref", self._reference), ("const", self._constant), ("enum", self._enumeration),
                            ("anyOf", self._alternatives), ("oneOf", self._alternatives),
                            ("allOf", self._alternatives)):
            if name in schema:
                return count(schema[name])
        kind = schema.get("type")
        if isinstance(kind, list):
            return _either([self._typed(schema, one) for one in kind])
        return self._typed(schema, kind)

    def _reference(self, target):
        if target in self._known:
            return self._known[target] or _Ways("", 1, 1)
        self._known[target] = None
        found = self._root
        for part in target.split("/")[1:]:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        ways = self.of(found)
        if ways.n_inner > 1:
            ways = _Ways(ways.head, ways.n * ways.n_inner ** 6)
        self._known[target] = _Ways(ways.head, ways.n)
        return self._known[target]

    @staticmethod
    def _constant(value):
        return _Ways(compact(value))

    @staticmethod
    def _enumeration(values):
        texts = [compact(value) for value in values]
        return _Ways(os.path.commonprefix(texts), min(len(texts), 96))  # a tree: printable characters

    def _alternatives(self, schemas):
        if all_constants(schemas):
            return self._enumeration([one["const"] for one in schemas])
        return _either([self.of(one) for one in schemas])

    def _typed(self, schema, kind):
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema)
        if kind == "array" or (kind is None and "items" in schema):
            return self._array(schema)
        return _Ways({"string": '"', "null": "null"}.get(kind, ""), 2)

    def _array(self, schema):
        first = [self.of(one) for one in schema.get("prefixItems", [])]
        if first:
            return _sequence("[" + first[0].head, first)
        return _sequence("[", [self.of(schema.get("items", True))], 2)

    def _object(self, schema):
        properties = schema.get("properties", {})
        required = set(schema.get("required", []))
        ways = [self.of(one) for one in properties.values()]
        head = "{"
        if properties and next(iter(properties)) in required:
            head += compact(next(iter(properties))) + ":" + ways[0].head
        more = schema.get("additionalProperties", not properties)
        found = _sequence(head, ways, 1 + len(properties.keys() - required))
        if more is not False:  # any name may be one of them
            other = self.of(more)
            found = _Ways(head, found.n + other.n, found.n_inner + other.n_inner)
        return found


def count_ways(schema):
    """How many ways a grammar of this schema, which is valid, may have at a time."""
    return _Counter(schema).of({"$ref": "#"}).n
