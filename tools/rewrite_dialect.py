#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rewrites null tests and unused parameters to the form of docs/style.md, in all C files of a build.

  rewrite_dialect.py [--check] BUILD

  !p, !!p                    ->  p == NULL, p != NULL
  if (p), p && q, bool b = p ->  if (p != NULL), ...
  void f(int x UNUSED)       ->  void f(int x) with (void)x; behind the declarations

--check changes nothing, lists the places, and fails when there are any. Needs clang's Python module
(python3-clang-14) and a build folder with compile_commands.json; takes a minute or two.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import json
import os
import re
import shlex
import sys

from clang import cindex
from clang.cindex import CursorKind, TypeKind

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGICAL = ("&&", "||")
# What a comparison with NULL may not stand beside without parentheses: all operators but these.
TIGHT_BEFORE = re.compile(rb"(?:[=!<>]=|[-+*/%^<>!~]|(?<!&)&|(?<!\|)\|)\s*$")
TIGHT_AFTER = re.compile(rb"\s*(?:[=!<>]=|[-+*/%^<>]|&(?!&)|\|(?!\|))")
TEXTS = {}


def text_of(path):
    if path not in TEXTS:
        with open(path, "rb") as file:
            TEXTS[path] = file.read()
    return TEXTS[path]


def place(location):
    """(path, offset) of the characters, also of an argument of a macro; None outside of the tree or
    within a macro's definition."""
    file, offset = cindex.c_object_p(), ctypes.c_uint()
    line, column = ctypes.c_uint(), ctypes.c_uint()
    cindex.conf.lib.clang_getSpellingLocation(location, ctypes.byref(file), ctypes.byref(line),
                                              ctypes.byref(column), ctypes.byref(offset))
    if not file:
        return None
    path = os.path.realpath(cindex.File(file).name)
    if not path.startswith(ROOT + os.sep) or "/build" in path or "/.deps/" in path:
        return None
    text, at = text_of(path), offset.value
    start = text.rfind(b"\n", 0, at) + 1
    while text[:start].endswith(b"\\\n"):
        start = text.rfind(b"\n", 0, start - 1) + 1
    return None if text[start:at].lstrip().startswith(b"#") else (path, at)


def is_pointer(cursor):
    return cursor.type.get_canonical().kind in (TypeKind.POINTER, TypeKind.BLOCKPOINTER)


def inner(cursor):
    """Without implicit conversions."""
    while cursor.kind == CursorKind.UNEXPOSED_EXPR:
        children = list(cursor.get_children())
        if len(children) != 1:
            break
        cursor = children[0]
    return cursor


def inside_parens(cursor):
    cursor = inner(cursor)
    while cursor.kind == CursorKind.PAREN_EXPR:
        cursor = inner(next(iter(cursor.get_children())))
    return cursor


def operand_end(text, at):
    """Where the postfix expression ends that begins at `at`; None for another one."""
    match = re.compile(rb"[A-Za-z_]\w*").match(text, at)
    if match:
        at = match.end()
    elif text[at:at + 1] == b"(":
        at = closing(text, at)
    elif text[at:at + 1] == b"*":
        return operand_end(text, at + 1)
    else:
        return None
    while True:
        follows = re.compile(rb"\s*(->|\.)\s*[A-Za-z_]\w*").match(text, at)
        if follows:
            at = follows.end()
        elif text[at:at + 1] in (b"(", b"["):
            at = closing(text, at)
        else:
            return at


def is_text_of(cursor, text):
    """False when the expression comes from a macro, whose name stands at its place."""
    if cursor.kind == CursorKind.PAREN_EXPR:
        return text.startswith("(")
    if cursor.kind == CursorKind.UNARY_OPERATOR:
        return text.startswith("*")
    if cursor.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
        return text.endswith("]")
    follows = r"\s*\(" if cursor.kind == CursorKind.CALL_EXPR else "$"
    name = re.escape(cursor.spelling)
    return name != "" and re.search(rf"\b{name}{follows}", text) is not None


def closing(text, at):
    depth = 0
    while True:
        match = re.compile(rb"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[()\[\]]").search(text, at)
        depth += {b"(": 1, b"[": 1, b")": -1, b"]": -1}.get(match[0], 0)
        at = match.end()
        if depth == 0:
            return at


def operator_of(cursor):
    """The operator of a binary expression."""
    children = list(cursor.get_children())
    if len(children) != 2:
        return ""
    end, start = children[0].extent.end.offset, children[1].extent.start.offset
    for token in cursor.get_tokens():
        if end <= token.extent.start.offset < start and token.kind.name == "PUNCTUATION":
            if token.spelling not in (")", "("):
                return token.spelling
    return ""


class Rewriter:
    def __init__(self):
        self.edits = collections.defaultdict(dict)  # path -> (start, end) -> text

    def replace(self, path, start, end, text):
        self.edits[path][(start, end)] = text

    def compare(self, operand, path, start, at, operator, parens):
        """Writes `operand <operator> NULL` in the place of what is from `start` to the operand's end."""
        text = text_of(path)
        end = operand_end(text, at)
        if end is None or not is_text_of(operand, text[at:end].decode()):
            line = text.count(bytes([10]), 0, at) + 1
            if not re.match(rb"[A-Z_0-9]+\(", text[at:at + 80]):
                print(f"not rewritten: {path}:{line}: {text[at:end or at + 20].decode()}")
            return
        parens = parens or TIGHT_BEFORE.search(text, max(0, start - 8), start) or \
            TIGHT_AFTER.match(text, end)
        before, after = ("(", ")") if parens else ("", "")
        if (start, at) != (at, at) or before:
            self.replace(path, start, at, before)
        self.replace(path, end, end, f" {operator} NULL{after}")

    def bare(self, cursor):
        """A pointer where a truth value is meant."""
        where = place(inner(cursor).extent.start)
        if where is not None:
            self.compare(inner(cursor), where[0], where[1], where[1], "!=", False)

    def negation(self, cursor, parents):
        operand = next(iter(cursor.get_children()))
        parent = parents[-1] if parents else None
        is_double = parent is not None and parent.kind == CursorKind.UNARY_OPERATOR and \
            self.sign(parent) is not None
        where = self.sign(cursor)
        if where is None:
            # `!` within the argument of a macro
            deep = inside_parens(operand)
            if deep.kind != CursorKind.UNARY_OPERATOR and not is_double:
                self.bare(deep)
            return
        path, at = where
        start = self.sign(parent)[1] if is_double else at
        outer = parents[-2] if is_double and len(parents) > 1 else parent
        parens = outer is not None and outer.kind == CursorKind.CSTYLE_CAST_EXPR
        self.compare(inner(operand), path, start, at + 1, "!=" if is_double else "==", parens)

    def sign(self, cursor):
        """Where the `!` of an expression is."""
        where = place(cursor.extent.start)
        if where is None or text_of(where[0])[where[1]:where[1] + 1] != b"!":
            return None
        return where

    def is_not(self, cursor):
        token = next(cursor.get_tokens(), None)
        return self.sign(cursor) is not None or (token is not None and token.spelling != "*" and
                                                 cursor.type.get_canonical().kind == TypeKind.INT)

    def condition(self, cursor):
        if cursor is not None and is_pointer(cursor):
            self.bare(cursor)

    def for_condition(self, cursor):
        where = place(cursor.extent.start)
        if where is None:
            return None
        text = text_of(where[0])
        at = text.index(b"(", where[1])
        end, depth, marks = closing(text, at), 0, []
        for match in re.finditer(rb"\"(?:\\.|[^\"\\])*\"|[()\[\]{};]", text[at:end]):
            depth += {b"(": 1, b")": -1, b"[": 1, b"]": -1, b"{": 1, b"}": -1}.get(match[0], 0)
            if match[0] == b";" and depth == 1:
                marks.append(at + match.start())
        for child in cursor.get_children():
            found = place(child.extent.start)
            if found and len(marks) == 2 and marks[0] < found[1] < marks[1]:
                return child
        return None

    def visit(self, cursor, parents):
        children = list(cursor.get_children())
        kind = cursor.kind
        if kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.CONDITIONAL_OPERATOR):
            self.condition(children[0])
        elif kind == CursorKind.DO_STMT:
            self.condition(children[-1])
        elif kind == CursorKind.FOR_STMT:
            self.condition(self.for_condition(cursor))
        elif kind == CursorKind.BINARY_OPERATOR and operator_of(cursor) in LOGICAL:
            for child in children:
                self.condition(child)
        elif kind == CursorKind.UNARY_OPERATOR and children and is_pointer(children[0]) and \
                self.is_not(cursor):
            self.negation(cursor, [one for one in parents
                                   if one.kind not in (CursorKind.UNEXPOSED_EXPR,)])
        elif kind == CursorKind.UNEXPOSED_EXPR and len(children) == 1 and is_pointer(children[0]) and \
                cursor.type.get_canonical().kind == TypeKind.BOOL:
            self.bare(children[0])
        for child in children:
            self.visit(child, [*parents, cursor])

    def unused(self, function):
        """Parameters that are marked in their declaration."""
        body = [child for child in function.get_children() if child.kind == CursorKind.COMPOUND_STMT]
        where = place(function.extent.start)
        if not body or where is None:
            return
        path, text = where[0], text_of(where[0])
        begin = place(body[0].extent.start)
        head = text[where[1]:begin[1]] if begin and begin[0] == path else b""
        names = []
        for match in re.finditer(rb"(\w+)\s+UNUSED(?=\s*[,)])", head):
            names.append(match[1].decode())
            self.replace(path, where[1] + match.end(1), where[1] + match.end(), "")
        if not names:
            return
        at = text.index(b"\n", begin[1]) + 1
        for statement in body[0].get_children():
            if statement.kind != CursorKind.DECL_STMT:
                break
            end = statement.extent.end.offset  # that of a macro when it is one
            at = text.index(b"\n", end) + 1
            after = re.compile(rb"[ \t]*\n").match(text, at)
            at = after.end() if after else at
        self.replace(path, at, at, "".join(f"        (void){name};\n" for name in names))


def arguments(command):
    words = shlex.split(command)
    kept, skip = [], False
    for index, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("-isystem", "-include"):
            kept += words[index:index + 2]
            skip = True
        elif word.startswith(("-I", "-D", "-U", "-std", "-isystem")):
            kept.append(word)
    return kept


def edits_of(entry):
    rewriter = Rewriter()
    os.chdir(entry["directory"])
    unit = cindex.Index.create().parse(entry["file"], args=arguments(entry["command"]))
    errors = [diagnostic for diagnostic in unit.diagnostics if diagnostic.severity >= 3]
    if errors:
        print(f"{entry['file']}: {errors[0]}")
    for cursor in unit.cursor.get_children():
        if place(cursor.extent.start) is None:
            continue
        rewriter.visit(cursor, [])
        if cursor.kind == CursorKind.FUNCTION_DECL:
            rewriter.unused(cursor)
    return dict(rewriter.edits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("build")
    options = parser.parse_args()
    with open(os.path.join(options.build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {os.path.realpath(os.path.join(entry["directory"], entry["file"])): entry
                   for entry in json.load(file)}
    entries = {path: entry for path, entry in entries.items()
               if path.startswith(ROOT + os.sep) and path.endswith(".c") and "/build" not in path}
    edits = collections.defaultdict(dict)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(edits_of, entries.values(), chunksize=8):
            for path, changes in found.items():
                edits[path].update(changes)
    for path, changes in sorted(edits.items()):
        text = text_of(path)
        if options.check:
            for start, _ in sorted(changes):
                print(f"{os.path.relpath(path, ROOT)}:{text.count(bytes([10]), 0, start) + 1}")
            continue
        for (start, end), new in sorted(changes.items(), reverse=True):
            text = text[:start] + new.encode() + text[end:]
        with open(path, "wb") as file:
            file.write(text)
    n_places = sum(map(len, edits.values()))
    print(f"{len(entries)} files read, {n_places} edits in {len(edits)} files")
    return 1 if options.check and n_places else 0


if __name__ == "__main__":
    sys.exit(main())
