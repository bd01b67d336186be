#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Nothing is larger than a reader can take in at once.

  check_sizes.py [--self-test] [--look-again] [root]

Refused: .c files of more than 800 lines (but those in LONG_FILES), headers of more than 300 (not the public ABI's and those
of tests), functions of more than 80 lines or 7 parameters, lines of more than 110 columns.
--look-again lists what is merely large.

Exempt, and nothing else:
 * lines of an initialiser, `... = {` to `};`, count neither for their function nor, in a file
   named ..._table.c, for the file
 * a function after a comment with "one flat switch" that is one: a single switch, and nothing
   nested deeper than one block within a case
 * the parameters of exported functions, of allocation callbacks of the C API, and of a function
   after a comment with "signature of <whose>": somebody else has written that list
"""
import os
import re
import sys
import tempfile

FILE_LINES, FILE_LOOK = 800, 500
HEADER_LINES, HEADER_LOOK = 300, 200
FUNCTION_LINES, FUNCTION_LOOK = 80, 50
PARAMETERS, PARAMETERS_LOOK = 7, 5
COLUMNS, COLUMNS_LOOK = 110, 100
# One object is not cut into files that call each other back and forth: its own limit, and why.
LONG_FILES = {
    # An HTTP connection: each step from its first byte to the end of an answer may end it, and goes on
    # to the next request. What needs no connection is in http_message.c, http_route.c, http_reply.c.
    "src/http/http_conn.c": 1350,
}
SWITCH_DEPTH = 3  # the function's braces, the switch's, one block's

EXPORTED = re.compile(r"^(TRITON[A-Z]+|NESO)_")
TOKEN = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
                       | ^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M | re.X)
FLAT_SWITCH = re.compile(r"one flat switch")
ALLOCATION = re.compile(r"\s*(struct )?TRITONSERVER_ResponseAllocator \*")
SIGNATURE = re.compile(r"signature of \w")
FOREIGN = re.compile(r"\b__attribute__\s*\(\(.*?\)\)|\b(PRINTF_LIKE|CLEANUP)\s*\([^)]*\)")


def blank(text):
    """Comments, strings and the preprocessor's lines as spaces; every line stays where it is."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


class Function:
    def __init__(self, name, first, last, n_lines, n_parameters, comment, code):
        self.name, self.first, self.last = name, first, last
        self.n_lines, self.n_parameters = n_lines, n_parameters
        self.comment, self.code = comment, code

    def is_flat_switch(self):
        depth = deepest = 0
        for character in self.code:
            depth += {"{": 1, "}": -1}.get(character, 0)
            deepest = max(deepest, depth)
        return (FLAT_SWITCH.search(self.comment) is not None and deepest <= SWITCH_DEPTH
                and len(re.findall(r"\bswitch\b", self.code)) == 1)


def count_parameters(text):
    text = text.strip()
    if text in ("", "void"):
        return 0
    depth, n = 0, 1
    for character in text:
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(character, 0)
        n += character == "," and depth == 0
    return n


def match_brace(code, start):
    depth = 0
    for at in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code) - 1


def initialiser_lines(code, first=0):
    """Numbers of the lines (from `first`) inside of `= { ... }`, without the first and last."""
    lines = set()
    for match in re.finditer(r"=\s*\{", code):
        end = match_brace(code, match.end() - 1)
        begin_line = first + code.count("\n", 0, match.start())
        end_line = first + code.count("\n", 0, end)
        lines.update(range(begin_line + 1, end_line))
    return lines


def comment_before(text, at):
    """The comment that ends directly above position `at`."""
    above = text[:at].rstrip()
    return above[above.rfind("/*"):] if above.endswith("*/") else ""


def split_head(head):
    """Name and parameter text of "static int f(int a, int b)", or None."""
    head = FOREIGN.sub(lambda match: " " * len(match.group(0)), head)
    close = head.rstrip()
    if not close.endswith(")") or re.search(r"=", head):
        return None
    depth = 0
    for at in range(len(close) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(close[at], 0)
        if depth == 0:
            name = re.search(r"(\w+)\s*$", close[:at])
            return (name.group(1), close[at + 1:-1]) if name else None
    return None


def functions(text):
    code = blank(text)
    found = []
    at = begin = 0
    while at < len(code):
        character = code[at]
        if character in ";}":
            begin = at + 1
        elif character == "{":
            head = code[begin:at]
            if re.fullmatch(r'\s*extern\s*', head):  # extern "C": its contents are at the top
                begin = at + 1
                at += 1
                continue
            end = match_brace(code, at)
            parts = split_head(head)
            if parts:
                start = begin + len(head) - len(head.lstrip())
                body = code[at:end + 1]
                first = code.count("\n", 0, start) + 1
                last = code.count("\n", 0, end) + 1
                n_lines = last - first + 1 - len(initialiser_lines(body))
                n_parameters = 0 if ALLOCATION.match(parts[1]) else count_parameters(parts[1])
                found.append(Function(parts[0], first, last, n_lines, n_parameters,
                                      comment_before(text, start), body))
            at = end
            # `struct x { ... } y;` and `= { ... };` go on to their semicolon.
            if parts:
                begin = end + 1
        at += 1
    return found


def check_file(path, text):
    """Pairs (is_refused, message)."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    n_lines = len(lines)
    is_header = path.endswith(".h")
    is_test = path.startswith("tests/")
    if path.endswith("_table.c"):
        n_lines -= len(initialiser_lines(blank(text)))
    limit, look = (HEADER_LINES, HEADER_LOOK) if is_header and not is_test else (FILE_LINES, FILE_LOOK)
    limit = LONG_FILES.get(path, limit)
    if n_lines > look and not path.startswith("include/"):
        yield n_lines > limit, f"{path}: {n_lines} lines (at most {limit})"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_LOOK:
            yield len(line) > COLUMNS, f"{path}:{number}: {len(line)} columns (at most {COLUMNS})"
    for function in functions(text):
        where = f"{path}:{function.first}: {function.name}()"
        if function.n_lines > FUNCTION_LOOK and not function.is_flat_switch():
            yield (function.n_lines > FUNCTION_LINES and not (is_test and function.name == "main"),
                   f"{where} has {function.n_lines} lines (at most {FUNCTION_LINES})")
        if (function.n_parameters >= PARAMETERS_LOOK and not EXPORTED.match(function.name)
                and not SIGNATURE.search(function.comment)):
            yield (function.n_parameters > PARAMETERS,
                   f"{where} has {function.n_parameters} parameters (at most {PARAMETERS})")


def sources(root):
    for top in ("src", "backends", "caches", "repoagents", "schedulers", "include", "tests"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f not in ("models", "node_modules"))
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def check(root):
    found, n_files, n_functions = [], 0, 0
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        n_files += 1
        n_functions += len(functions(text))
        found += check_file(path, text)
    return n_files, n_functions, found


def lines_of(n, text="        x = 1;\n"):
    return text * n


def self_test():
    switch = "        switch (x) {\n" + "        case 1: return 2;\n" * 90 + "        }\n"
    many = ", ".join(f"int a{i}" for i in range(8))
    cases = [  # path, text, number of refusals
        ("src/a/a.c", "int x;\n" * 800, 0),
        ("src/a/a.c", "int x;\n" * 801, 1),
        ("src/http/http_conn.c", "int x;\n" * 1350, 0),
        ("src/http/http_conn.c", "int x;\n" * 1351, 1),
        ("src/a/a.h", "int x;\n" * 301, 1),
        ("include/triton/core/a.h", "int x;\n" * 301, 0),
        ("src/a/a.c", "/* " + "x" * 107 + "\n */\n", 0),
        ("src/a/a.c", "/* " + "x" * 108 + "\n */\n", 1),
        ("src/a/a.c", "void f(void) {\n" + lines_of(78) + "}\n", 0),
        ("src/a/a.c", "void f(void) {\n" + lines_of(79) + "}\n", 1),
        ("src/a/a.c", "static int\nf(int a,\n  int b) {\n" + lines_of(77) + "}\n", 1),
        ("src/a/a.c", "void f(void) {\n        char c = '}'; /* } */ puts(\"}\");\n"
         + lines_of(79) + "}\n", 1),
        ("src/a/a.c", "struct s {\n        int x;\n} y;\nvoid f(void) PRINTF_LIKE(1, 2) {\n"
         + lines_of(79) + "}\n", 1),
        ("src/a/a.c", "#define M {\nvoid f(void) {\n" + lines_of(79) + "}\n", 1),
        ("src/a/a.c", "void f(void) {\n static const int t[] = {\n" + "1,\n" * 90 + "};\n}\n", 0),
        ("src/a/a.c", "int f(int x) {\n" + switch + "}\n", 1),
        ("src/a/a.c", "/* one flat switch */\nint f(int x) {\n" + switch + "}\n", 0),
        ("src/a/a.c", "/* one flat switch */\nint f(int x) {\n" + lines_of(90) + "}\n", 1),
        ("src/a/a.c", "/* one flat switch */\nint f(int x) {\n" + switch + switch + "}\n", 1),
        ("src/a/a.c", "/* one flat switch */\nint f(int x) {\n" + switch
         + " for (;;) { if (x) { while (x) { x--; } } }\n}\n", 1),
        ("src/a/a.c", f"void f({many}) {{\n}}\n", 1),
        ("src/a/a.c", f"/* The signature of nghttp2_x. */\nvoid f({many}) {{\n}}\n", 0),
        ("src/a/a.c", f"struct e *TRITONSERVER_F({many}) {{\n}}\n", 0),
        ("src/a/a.c", f"int f(TRITONSERVER_ResponseAllocator *a, {many}) {{\n}}\n", 0),
        ("src/a/a.c", "void f(int a, int b, int (*g)(int, int, int, int), int c) {\n}\n", 0),
        ("src/a/a.h", f'extern "C" {{\nstatic inline void f({many}) {{\n}}\n}}\n', 1),
        ("src/a/x_table.c", "const int t[] = {\n" + "1,\n" * 900 + "};\n", 0),
        ("src/a/x.c", "const int t[] = {\n" + "1,\n" * 900 + "};\n", 1),
    ]
    failures = []
    for number, (path, text, expected) in enumerate(cases):
        refused = [message for is_refused, message in check_file(path, text) if is_refused]
        if len(refused) != expected:
            failures.append(f"self-test {number}: {expected} expected, got {refused}")
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src/a"))
        with open(os.path.join(root, "src/a/a.c"), "w", encoding="utf-8") as file:
            file.write("int x;\n" * 801)
        if len(check(root)[2]) != 1:
            failures.append("self-test: a tree with one bad file has not one problem")
    print("\n".join(failures) or f"{len(cases) + 1} fixtures as expected")
    return 1 if failures else 0


def main():
    arguments = sys.argv[1:]
    if "--self-test" in arguments:
        return self_test()
    shows_all = "--look-again" in arguments
    roots = [a for a in arguments if not a.startswith("--")]
    root = roots[0] if roots else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    n_files, n_functions, found = check(root)
    refused = [message for is_refused, message in found if is_refused]
    print("\n".join(message for _, message in found) if shows_all else "\n".join(refused))
    print(f"{n_files} files, {n_functions} functions, {len(refused)} refused")
    return 1 if refused or n_functions == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
