#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that what the pages say about the tree is true.

  check_tour.py [--self-test] [root]

 * docs/tour.md: each [`net/conn.c:on_read`](../src/net/conn.c) names a function that is defined in
   that file (declared, where the file is a header), and the file is that of the link
 * its section "One inference" has at most 15 numbered stops in at most 15 files; its table of special
   cases is not counted
 * every page: links within the tree lead somewhere, also to the section that they name, and paths in
   backticks such as `tests/unit/base/test_log.c` exist
 * every page but the decisions, which tell of the past: a function of the C API, such as
   `NESO_ApiVersion()`, is in include
 * docs/how_to_add.md: words with an underscore in backticks, such as `model_stats_read()`, are in the sources
 * every page: a constant that is quoted with its value has that value in the sources. The forms are
   64 KiB (`H2_READ_BYTES`), `H2_READ_BYTES` (64 KiB), `H2_READ_BYTES` = 64 KiB, and a row of a table
   that begins with | 64 KiB | `H2_READ_BYTES` |. Where files disagree, the page names the file: 2
   (`MAX_TRIES` in `src/net/loop.c`). A variable of the Makefile counts as a constant
 * docs/threads.md has the name of each thread that src starts, and no two files give threads the same name
 * the folders that meson.build and the tables of check_layers.py name exist
"""
import ast
import operator
import os
import re
import sys
import tempfile

import check_layers

TOUR = "docs/tour.md"
PLACE = re.compile(r"\[`([\w/.-]+\.[ch]):(\w+)`\]\(([^)\s]+)\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|backends|caches|repoagents|schedulers|include|proto|tests|tools|bench|docs|examples)"
                  r"/[\w./-]*\w)`")
HEADING = re.compile(r"^#+ (.*)$", re.M)
RECIPES = "docs/how_to_add.md"
API_CALL = re.compile(r"`((?:NESO|TRITON[A-Z]+)_[A-Z]\w*)\(")
RECIPE_WORD = re.compile(r"`(?:struct |enum )?([a-z]\w*_\w*\w)(?:\(\))?`")
WORD = re.compile(r"\w+")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)
COMMENT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PLAIN_PATH = re.compile(r"^## One inference\n(.*?)(?=^### What is special|^## |\Z)", re.S | re.M)
STOP = re.compile(r"^\d+\. ", re.M)
MAX_STOPS = MAX_FILES = 15
MIN_PLACES = 40  # far below what the tour has: a change of notation must not empty the check
MIN_CONSTANTS = 20  # likewise, of all pages
MIN_THREADS = 10  # likewise, of src

THREADS = "docs/threads.md"
THREAD = re.compile(r'\b(?:thread_start|work_pool_new)\([^;"]*"([^"]+)"')

TOPS = ("src", "backends", "caches", "repoagents", "schedulers", "include")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Z]\w+)[ \t]+([^\n]+)", re.M)
VARIABLE = re.compile(r"^([A-Z]\w+) \?= (\d+)$", re.M)
PYTHON_CONSTANT = re.compile(r"^([A-Z][A-Z0-9_]+) = ([^#\n]+)", re.M)
ENUM = re.compile(r"\benum\b[^{;()]*\{([^}]*)\}")
CAST = re.compile(r"\(\s*(?:size_t|u?int\d+_t|unsigned|int|long|double)\s*\)|\bU?INT\d+_C\b")
SUFFIX = re.compile(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
             ast.Div: operator.floordiv, ast.LShift: operator.lshift, ast.RShift: operator.rshift}

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
TIMES_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
NUMBER = r"(\d+(?: \d{3})*)(?: (KiB|MiB|GiB|ns|us|ms|s)\b)?"
NAME = r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`"
QUOTES = [  # with the number, its unit, the name, and the file where it is given
    re.compile(rf"(?<![\w.]){NUMBER}(?:\s+[a-z-]+)?\s+\({NAME}(?:\s+in\s+`([\w/.-]+)`)?"),
    re.compile(rf"^\| {NUMBER} \| {NAME} \|()", re.M),
]
QUOTES_AFTER = re.compile(rf"{NAME}\s+(?:\(|=\s+){NUMBER}(?![\w.])")


def match_paren(text, start):
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text) - 1


def defines(code, name, is_header):
    """True when a line that begins in the first column has the function's head, and a body follows."""
    code = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), code)
    for match in re.finditer(rf"^[A-Za-z][^\n;{{}}=]*\b{name}\(", code, re.M):
        if is_header:
            return True
        rest = code[match_paren(code, match.end() - 1) + 1:].lstrip()
        if re.match(r"(?:[A-Z_]+(?:\([^)]*\))?\s*)*\{", rest):
            return True
    return False


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_tour(root):
    """Returns the problems and the number of places that were checked."""
    problems, n = [], 0
    for shown, name, target in PLACE.findall(read(root, TOUR)):
        n += 1
        path = os.path.normpath(os.path.join(os.path.dirname(TOUR), target))
        if not path.endswith("/" + shown):
            problems.append(f"{TOUR}: {shown}:{name} links to {target}")
        elif not os.path.isfile(os.path.join(root, path)):
            problems.append(f"{TOUR}: there is no {path}")
        elif not defines(read(root, path), name, path.endswith(".h")):
            problems.append(f"{TOUR}: {path} does not define {name}()")
    return problems, n


def check_plain_path(text):
    """Checks that the section is short enough to be read in one go."""
    for section in PLAIN_PATH.findall(text):
        n_stops, files = len(STOP.findall(section)), {place[0] for place in PLACE.findall(section)}
        if n_stops > MAX_STOPS or len(files) > MAX_FILES:
            yield (f"{TOUR}: 'One inference' has {n_stops} stops in {len(files)} files, at most "
                   f"{MAX_STOPS} in {MAX_FILES}")


def pages(root):
    for name in sorted(os.listdir(root)):
        if name.endswith(".md"):
            yield name
    for top in ("docs", "examples", "backends", "caches", "repoagents", "schedulers", "src", "tests", "bench"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".md"):
                    yield os.path.relpath(os.path.join(folder, name), root)


def anchors(text):
    """The names by which links reach the sections of a page, as GitHub makes them."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        found.add(re.sub(r"[^\w\- ]", "", shown).replace(" ", "-"))
    return found


def check_page(root, page):
    text = FENCE.sub("", read(root, page))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        target, _, section = link.partition("#")
        path = os.path.join(root, os.path.dirname(page), target) if target else os.path.join(root, page)
        if not os.path.exists(path):
            yield f"{page}: the link {target} leads nowhere"
        elif section and path.endswith(".md") and section not in anchors(read("", path)):
            yield f"{page}: the link {link} leads to no section"
    for path in PATH.findall(text):
        if not os.path.exists(os.path.join(root, path)):
            yield f"{page}: there is no {path}"


def check_api_calls(root):
    words = source_words(root, ("include",))
    for page in pages(root):
        if not page.startswith("docs/decisions/"):
            for name in sorted(set(API_CALL.findall(FENCE.sub("", read(root, page))))):
                if name not in words:
                    yield f"{page}: no header has {name}()"


def source_words(root, tops):
    found = set()
    for top in tops:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in files:
                if name.endswith((".c", ".h", ".def", ".py", ".proto", ".js", ".build")):
                    found.update(WORD.findall(read(folder, name)))
    return found


def check_recipes(root):
    """A function that was renamed must not stay in a recipe."""
    words = source_words(root, (*TOPS, "tests", "tools"))
    for word in sorted(set(RECIPE_WORD.findall(FENCE.sub("", read(root, RECIPES))))):
        if word not in words:
            yield f"{RECIPES}: no source has {word}"


def enumerators(body):
    """Yields the names of an enum with the expressions of their values."""
    expression = "-1"
    for one in body.split(","):
        name, _, value = one.partition("=")
        expression = value if value.strip() else f"({expression}) + 1"
        yield name.strip(), expression


class Constants:
    """What the sources define: a name has an expression in each file that defines it, and several in
    a file where the preprocessor chooses."""

    def __init__(self, root):
        self.texts = {}  # name -> [(file, expression)]
        for top in TOPS:
            for folder, _, files in os.walk(os.path.join(root, top)):
                for name in files:
                    path = os.path.relpath(os.path.join(folder, name), root)
                    if name.endswith((".c", ".h")):
                        self.add_file(root, path)
                    elif name.endswith(".py"):
                        for constant, value in PYTHON_CONSTANT.findall(read(root, path)):
                            self.texts.setdefault(constant, []).append((path, value))
        if os.path.isfile(os.path.join(root, "Makefile")):
            for name, value in VARIABLE.findall(read(root, "Makefile")):
                self.texts.setdefault(name, []).append(("Makefile", value))

    def add_file(self, root, path):
        text = COMMENT.sub(" ", read(root, path)).replace("\\\n", " ")
        for name, expression in DEFINE.findall(text):
            self.texts.setdefault(name, []).append((path, expression))
        for match in ENUM.finditer(text):
            for name, expression in enumerators(match[1]):
                self.texts.setdefault(name, []).append((path, expression))

    def value(self, expression, path):
        """None when it is no constant of whole numbers."""
        text = SUFFIX.sub(r"\1", CAST.sub("", expression)).strip()
        try:
            return self.node_value(ast.parse(text, mode="eval").body, path)
        except (SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
            return None

    def node_value(self, node, path):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.node_value(node.operand, path)
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self.node_value(node.left, path),
                                            self.node_value(node.right, path))
        if isinstance(node, ast.Name):
            texts = self.texts[node.id]
            file, expression = next((one for one in texts if one[0] == path), texts[0])
            return self.value(expression, file)
        raise ValueError(ast.dump(node))

    def values(self, name, path):
        """The values by file; those of one file when `path` is given."""
        found = {}
        for file, expression in self.texts.get(name, ()):
            if path in ("", file):
                found.setdefault(file, set()).add(self.value(expression, file))
        return found


def quotes(text):
    for pattern in QUOTES:
        for number, unit, name, path in pattern.findall(text):
            yield name, number, unit, path
    for name, number, unit in QUOTES_AFTER.findall(text):
        yield name, number, unit, ""


def quoted_value(name, number, unit):
    value = int(number.replace(" ", ""))
    if unit in TIMES_NS:
        own = next((one for one in TIMES_NS if name.endswith("_" + one.upper())), "ns")
        return value * TIMES_NS[unit] / TIMES_NS[own]
    return value * UNITS.get(unit, 1)


def check_constants(page, text, constants):
    for name, number, unit, path in quotes(text):
        shown = f"{number} {unit}".strip()
        found = constants.values(name, path)
        if not found:
            yield f"{page}: {name} is defined {'in no source' if not path else 'not in ' + path}"
        elif len({frozenset(values) for values in found.values()}) > 1:
            yield (f"{page}: {name} has different values in {', '.join(sorted(found))}: write "
                   f"{shown} (`{name}` in `<file>`)")
        else:
            values = next(iter(found.values()))
            if quoted_value(name, number, unit) not in values:
                yield (f"{page}: {name} is {' or '.join(map(str, values))} in "
                       f"{', '.join(sorted(found))}, not {shown}")


def meson_folders(text):
    """Yields the folders that meson.build names: lists of src, subdir(), loops over subdir()."""
    text = re.sub(r"#.*", "", text)
    for names in re.findall(r"^\w+_folders = \[([^\]]*)\]", text, re.M):
        for name in re.findall(r"'(\w+)'", names):
            yield "src/" + name
    for names, top in re.findall(r"^foreach name : \[([^\]]*)\]\n(?:.*\n)*?\s*subdir\('(\w+)' / name\)",
                                 text, re.M):
        for name in re.findall(r"'(\w+)'", names):
            yield f"{top}/{name}"
    yield from re.findall(r"\bsubdir\('([\w/]+)'\)", text)


def layer_folders():
    for name, below in check_layers.LAYERS.items():
        yield "src/" + name
        for folder in below:
            yield "include/triton/core" if folder == "public" else "src/" + folder
    for start in check_layers.THIRD_PARTY:
        yield from check_layers.owners(start)
    for folders in check_layers.GENERATED.values():
        for folder in folders:
            yield "src/" + folder


def check_folders(root, named):
    for where, folders in named:
        for folder in sorted(set(folders)):
            if not os.path.isdir(os.path.join(root, folder)):
                yield f"{where}: there is no folder {folder}"


def thread_names(root):
    """The names that the sources give threads, each with the files that do."""
    found = {}
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(".c"):
                for thread in THREAD.findall(read(root, path)):
                    found.setdefault(thread, set()).add(path)
    return found


def check_threads(root):
    names, page = thread_names(root), read(root, THREADS)
    for thread, files in sorted(names.items()):
        if len(files) > 1:
            yield f"threads of {' and '.join(sorted(files))} have the same name: {thread}"
        if f"`{thread}`" not in page:
            yield f"{THREADS}: there is no `{thread}`, a thread of {sorted(files)[0]}"


def check(root):
    """Returns the problems, and the numbers of places, pages and constants that were checked."""
    problems, n_places = check_tour(root)
    problems += check_plain_path(read(root, TOUR))
    problems += check_folders(root, [("meson.build", meson_folders(read(root, "meson.build")))])
    constants = Constants(root)
    n_pages = n_constants = 0
    for page in pages(root):
        text = FENCE.sub("", read(root, page))
        n_pages += 1
        n_constants += len(list(quotes(text)))
        problems += check_page(root, page)
        problems += check_constants(page, text, constants)
    return problems, n_places, n_pages, n_constants


CODE = """/* old(void) { } is gone */
static void forward(struct a *a);
static struct error *long_head(struct a *a,
                               struct b *b) {
        inner(a);
}

struct error *marked(const char *f, ...) PRINTF_LIKE(1, 2) {
}
#ifdef SANITIZED
#define A_OWN 0
#else
#define A_OWN 1
#endif
"""


HEADER = """#pragma once
#define A_MAX 4 /* not 5 */
#define A_BYTES ((size_t)64 << 10)
#define A_WAIT_NS \\
        (2 * A_SECOND_NS)
#define A_SECOND_NS UINT64_C(1000000000)
#define A_TIME_S 60u
#define A_OWN 2
enum a { A_FIRST = 6, A_SECOND };
void declared(void) NODISCARD;
"""

MESON = """front_folders = ['net', 'gone',
                 'away']
subdir('proto')
foreach name : ['kit', 'lost']
  subdir('backends' / name)
endforeach
# subdir('comment')
"""


def self_test_folders():
    with tempfile.TemporaryDirectory() as root:
        for folder in ("src/net", "backends/kit"):
            os.makedirs(os.path.join(root, folder))
        problems = list(check_folders(root, [("meson.build", meson_folders(MESON))]))
    expected = [f"meson.build: there is no folder {folder}"
                for folder in ("backends/lost", "proto", "src/away", "src/gone")]
    return [] if problems == expected else [f"self-test of folders: got {problems}"]


def self_test_threads():
    sources = {"net/a.c": 'err = thread_start(&t->thread, "one", run, t);\nthread_start(&u, name, run, u);\n',
               "net/b.c": 'p = work_pool_new("two",\n 2);\nq = work_pool_new("two", 1);\n',
               "net/c.c": 'p = work_pool_new("one", 3);\nlog_info("no thread");\n'}
    with tempfile.TemporaryDirectory() as root:
        for path, text in [(THREADS, "`one` and two"), *(("src/" + path, text) for path, text in sources.items())]:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        problems = list(check_threads(root))
    expected = ["threads of src/net/a.c and src/net/c.c have the same name: one",
                f"{THREADS}: there is no `two`, a thread of src/net/b.c"]
    return [] if problems == expected else [f"self-test of threads: got {problems}"]


def self_test_recipes():
    with tempfile.TemporaryDirectory() as root:
        for path, text in ((RECIPES, "`NESO_Old(x)`, `NESO_ApiVersion()`, `put_gauge()`, `struct old_table`, `enum new_kind`, `gone_call()`, `make all`"),
                           ("include/a.h", "void NESO_ApiVersion(void);"),
                           ("src/a.c", "put_gauge(out); enum new_kind { A };")):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        problems = [*check_recipes(root), *check_api_calls(root)]
    expected = [f"{RECIPES}: no source has gone_call", f"{RECIPES}: no source has old_table",
                f"{RECIPES}: no header has NESO_Old()"]
    return [] if problems == expected else [f"self-test of recipes: got {problems}"]


def self_test():
    cases = [  # text of the tour, number of problems
        ("[`net/a.c:long_head`](../src/net/a.c) and [`net/a.c:marked`](../src/net/a.c)", 0),
        ("[`net/a.h:declared`](../src/net/a.h)", 0),
        ("[`net/a.c:gone`](../src/net/a.c)", 1),
        ("[`net/a.c:old`](../src/net/a.c)", 1),
        ("[`net/a.c:forward`](../src/net/a.c)", 1),
        ("[`net/a.c:inner`](../src/net/a.c)", 1),
        ("[`net/a.c:long`](../src/net/a.c)", 1),
        ("[`net/b.c:long_head`](../src/net/a.c)", 1),
        ("[`net/c.c:long_head`](../src/net/c.c)", 2),  # as a place and as a link
        ("[page](other.md), [part](tour.md#part), [elsewhere](https://example.org/x)", 2),
        ("## Of `a`, b\n[here](#of-a-b) [there](tour.md#of-a-b) [line](../src/net/a.c#L3)", 0),
        ("```\n## Part\n```\n[here](#part)", 1),
        ("`src/net/a.c` `src/net` `src/net/*.c` `src/<folder>/x.c`", 0),
        ("`src/net/z.c`", 1),
        ("```\n`src/net/z.c` [x](y)\n```\n", 0),
        ("## One inference\n" + "1. stop\n" * 15 + "## Other\n1. stop\n", 0),
        ("## One inference\n" + "1. stop\n" * 16, 1),
        ("## One inference\n1. stop\n### What is special\n" + "1. stop\n" * 15, 0),
        ("4 (`A_MAX`), 4 kept (`A_MAX` in `src/net/a.h`), `A_MAX` (4, or less), `A_MAX` = 4", 0),
        ("64 KiB (`A_BYTES`), 65 536 (`A_BYTES`), 2 s (`A_WAIT_NS`), 2000 ms (`A_WAIT_NS`)", 0),
        ("| 7 | `A_SECOND` | x |\n| 60 | `A_TIME_S` |\n| 1 min | `A_MAX` |\n", 0),
        ("* 5\n  (`A_MAX`)", 1),
        ("* 5 kept\n  (`A_MAX`\n  in `src/net/a.h`)", 1),
        ("* `A_MAX` =\n  5", 1),
        ("5 (`A_MAX`)", 1),
        ("`A_MAX` (16)", 1),
        ("`A_MAX` = 2", 1),
        ("64 MiB (`A_BYTES`)", 1),
        ("1 s (`A_WAIT_NS`)", 1),
        ("| 8 | `A_SECOND` | x |", 1),
        ("3 (`A_GONE`)", 1),
        ("1 (`A_OWN`)", 1),
        ("1 (`A_OWN` in `src/net/a.c`), 0 (`A_OWN` in `src/net/a.c`), 2 (`A_OWN` in `src/net/a.h`)", 0),
        ("2 (`A_OWN` in `src/net/a.c`)", 1),
    ]
    failures = []
    for number, (text, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            for path, content in ((TOUR, text), ("src/net/a.c", CODE), ("src/net/a.h", HEADER),
                                  ("meson.build", "base_folders = ['net']\n")):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            problems = check(root)[0]
        if len(problems) != expected:
            failures.append(f"self-test {number}: {expected} expected, got {problems}")
    failures += self_test_folders() + self_test_threads() + self_test_recipes()
    print("\n".join(failures) or f"{len(cases) + 3} fixtures as expected")
    return 1 if failures else 0


def main():
    arguments = sys.argv[1:]
    if "--self-test" in arguments:
        return self_test()
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems, n_places, n_pages, n_constants = check(root)
    problems += check_folders(root, [("tools/check_layers.py", layer_folders())])
    problems += check_threads(root)
    problems += check_recipes(root)
    problems += check_api_calls(root)
    if len(thread_names(root)) < MIN_THREADS:
        problems.append(f"src: only {len(thread_names(root))} names of threads were found")
    if n_places < MIN_PLACES:
        problems.append(f"{TOUR}: only {n_places} places of the form [`file:function`](link)")
    if n_constants < MIN_CONSTANTS:
        problems.append(f"docs: only {n_constants} constants with their values")
    print("\n".join(problems))
    print(f"{n_places} places of the tour, {n_pages} pages, {n_constants} constants, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
