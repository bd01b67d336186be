#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that what the pages say about the tree is true.

  check_tour.py [--self-test] [root]

 * docs/tour.md: each [`net/conn.c:on_read`](../src/net/conn.c) names a function that is defined in
   that file (declared, where the file is a header), and the file is that of the link
 * its section "One inference" has at most 15 numbered stops in at most 15 files; its table of special
   cases is not counted
 * every page: links within the tree lead somewhere, and paths in backticks such as
   `tests/unit/base/test_log.c` exist
"""
import os
import re
import sys
import tempfile

TOUR = "docs/tour.md"
PLACE = re.compile(r"\[`([\w/.-]+\.[ch]):(\w+)`\]\(([^)\s]+)\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|backends|caches|repoagents|schedulers|include|proto|tests|tools|bench|docs|examples)"
                  r"/[\w./-]*\w)`")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)
COMMENT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PLAIN_PATH = re.compile(r"^## One inference\n(.*?)(?=^### What is special|^## |\Z)", re.S | re.M)
STOP = re.compile(r"^\d+\. ", re.M)
MAX_STOPS = MAX_FILES = 15
MIN_PLACES = 40  # far below what the tour has: a change of notation must not empty the check


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


def check_page(root, page):
    text = FENCE.sub("", read(root, page))
    for target in LINK.findall(text):
        target = target.split("#")[0]
        if target and "://" not in target and not os.path.exists(
                os.path.join(root, os.path.dirname(page), target)):
            yield f"{page}: the link {target} leads nowhere"
    for path in PATH.findall(text):
        if not os.path.exists(os.path.join(root, path)):
            yield f"{page}: there is no {path}"


def check(root):
    problems, n_places = check_tour(root)
    problems += check_plain_path(read(root, TOUR))
    n_pages = 0
    for page in pages(root):
        n_pages += 1
        problems += check_page(root, page)
    return problems, n_places, n_pages


CODE = """/* old(void) { } is gone */
static void forward(struct a *a);
static struct error *long_head(struct a *a,
                               struct b *b) {
        inner(a);
}

struct error *marked(const char *f, ...) PRINTF_LIKE(1, 2) {
}
"""


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
        ("[page](other.md), [part](tour.md#part), [elsewhere](https://example.org/x)", 1),
        ("`src/net/a.c` `src/net` `src/net/*.c` `src/<folder>/x.c`", 0),
        ("`src/net/z.c`", 1),
        ("```\n`src/net/z.c` [x](y)\n```\n", 0),
        ("## One inference\n" + "1. stop\n" * 15 + "## Other\n1. stop\n", 0),
        ("## One inference\n" + "1. stop\n" * 16, 1),
        ("## One inference\n1. stop\n### What is special\n" + "1. stop\n" * 15, 0),
    ]
    failures = []
    for number, (text, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            for path, content in ((TOUR, text), ("src/net/a.c", CODE),
                                  ("src/net/a.h", "void declared(void) NODISCARD;\n")):
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            problems = check(root)[0]
        if len(problems) != expected:
            failures.append(f"self-test {number}: {expected} expected, got {problems}")
    print("\n".join(failures) or f"{len(cases)} fixtures as expected")
    return 1 if failures else 0


def main():
    arguments = sys.argv[1:]
    if "--self-test" in arguments:
        return self_test()
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    problems, n_places, n_pages = check(root)
    if n_places < MIN_PLACES:
        problems.append(f"{TOUR}: only {n_places} places of the form [`file:function`](link)")
    print("\n".join(problems))
    print(f"{n_places} places of the tour, {n_pages} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
