#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the pages are wrapped, or wraps them.

  wrap_docs.py [--check|--fix] [--self-test] [root]

 * lines of paragraphs and of list items have at most 120 columns. A paragraph with a longer line is filled
   again as a whole; one without stays as it is. There is no break inside of `code`, of the text of a link,
   or between a number and its unit, and no break that makes a line begin like a list or a heading. What
   has no place to break at may be longer
 * cells of tables have at most 200 characters: more is text, which stands under the table. --fix leaves
   that to the author

Tables, blocks of code, headings, quotations, definitions of links and HTML are not wrapped.
"""
import argparse
import os
import re
import sys
import tempfile

COLUMNS = 120
MAX_CELL = 200
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md")

FENCE = re.compile(r"^ *(```+|~~~+)")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)])( +)(?=\S)")
# What ends a paragraph and is not wrapped: headings, rules and underlines, tables, quotations, HTML.
OTHER = re.compile(r"^ *(?:#{1,6}(?: |$)|(?:-{3,}|={3,}|\*{3,}|_{3,}) *$|\||>|</?[a-zA-Z!])")
DEFINITION = re.compile(r"^ *\[[^\]]+\]:")
HARD_BREAK = re.compile(r"(?:  |\\)$")

# `code` that ends in the same text.
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)

# One unit of a line: code, a link or picture as a whole, or anything up to the next space.
SPAN = r"`+[^`]+`+|!?\[(?:[^\[\]`]|`[^`]*`|!?\[[^\]]*\]\([^)]*\))*\](?:\([^)]*\))?"
WORD = re.compile(rf"(?:{SPAN}|\S)+")
# A line may not begin with these: it would be a list, a heading, a table, a quotation, an underline.
MARKER = re.compile(r"^(?:[-*+]|\d+[.)]|#{1,6}|=+|-+|>.*|\|.*|<[a-zA-Z!/].*|```.*|~~~.*)$")
NUMBER = re.compile(r"(?:^|[(~])\d[\d.,]*$")
AFTER_NUMBER = re.compile(r"^(?:\d{3}|KiB|MiB|GiB|KB|MB|GB|bytes|ns|us|ms|s|min|h|%)(?![\w])")


def words(text):
    """The parts of a paragraph between which a line may break."""
    parts = []
    for word in (re.sub(r"\s+", " ", match.group(0)) for match in WORD.finditer(text)):
        if parts and (MARKER.match(word) or
                      (NUMBER.search(parts[-1].split(" ")[-1]) and AFTER_NUMBER.match(word))):
            parts[-1] += " " + word
        else:
            parts.append(word)
    return parts


def ends_in_code(lines):
    """Whether the paragraph goes on inside of `code`."""
    return "`" in CODE.sub("", "\n".join(lines))


def fill(text, first_indent, indent):
    """The lines of a paragraph, as long as COLUMNS permits."""
    lines, line = [], first_indent
    for part in words(text):
        is_empty = line.strip() == "" or line == first_indent and not lines
        if not is_empty and len(line) + 1 + len(part) > COLUMNS:
            lines.append(line)
            line = indent + part
        else:
            line += part if is_empty else " " + part
    return lines + [line]


def wrap_paragraph(lines, head, indent):
    """`head` is what stands before the text of the first line: its indentation, and the mark of an item.
    The lines end where the text has a line break of its own."""
    if all(len(line) <= COLUMNS for line in lines):
        return lines
    result, part = [], []
    for number, line in enumerate(lines):
        part.append(line[len(head):] if number == 0 else line)
        if HARD_BREAK.search(line) or number == len(lines) - 1:
            end = re.search(r" *$", line).group(0) if number < len(lines) - 1 else ""
            result += fill("\n".join(part), indent if result else head, indent)
            result[-1] += end
            part = []
    return result


class Wrapper:
    """Goes through the lines of a page, and collects those of a paragraph until it ends."""

    def __init__(self):
        self.result = []
        self.paragraph, self.head, self.indent = [], "", ""
        self.first_number = 1  # of the paragraph
        self.items = []  # columns at which the texts of the open items begin
        self.fence = None
        self.is_html = False
        self.changed = []  # numbers of the first lines of what was wrapped

    def end_paragraph(self):
        wrapped = wrap_paragraph(self.paragraph, self.head, self.indent)
        if wrapped != self.paragraph:
            self.changed.append(self.first_number)
        self.result += wrapped
        self.paragraph = []

    def begin(self, number, line, head, indent):
        self.end_paragraph()
        self.paragraph, self.head, self.indent, self.first_number = [line], head, indent, number

    def keep(self, line):
        self.end_paragraph()
        self.result.append(line)

    def is_item(self, match, depth):
        """Inside of a paragraph outside of lists, 2. is a number at the end of a sentence."""
        if depth >= (self.items[-1] if self.items else 0) + 4:
            return False
        return not self.paragraph or self.items != [] or match[2] in "-*+" or match[2][:-1] == "1"

    def text(self, number, line):
        depth = len(line) - len(line.lstrip(" "))
        item = ITEM.match(line)
        if item and self.is_item(item, depth):
            self.items = [column for column in self.items if column <= depth] + [item.end()]
            self.begin(number, line, item[0], " " * item.end())
        elif self.paragraph:
            self.paragraph.append(line)
        else:
            self.items = [column for column in self.items if column <= depth]
            if depth >= (self.items[-1] if self.items else 0) + 4:
                self.keep(line)  # a block of code
            else:
                self.begin(number, line, " " * depth, " " * depth)

    def line(self, number, line):
        fence = FENCE.match(line)
        if self.fence:
            self.keep(line)
            if fence and fence[1].startswith(self.fence):
                self.fence = None
        elif fence:
            self.fence = fence[1]
            self.keep(line)
        elif not line.strip():
            self.is_html = False
            self.keep(line)
        elif self.is_html:
            self.keep(line)
        elif line.lstrip().startswith("<") and ends_in_code(self.paragraph):
            self.paragraph.append(line)  # a name in code, as <model>, not HTML
        elif OTHER.match(line) or (DEFINITION.match(line) and not self.paragraph):
            if re.match(r"^ *[=-]{3,} *$", line) and self.paragraph:
                self.result += self.paragraph  # an underlined heading
                self.paragraph = []
            self.is_html = re.match(r"^ *<", line) is not None and "<!--" not in line
            self.keep(line)
        else:
            self.text(number, line)


def wrap(text):
    """The page with its paragraphs wrapped, and the numbers of the lines where that changed something."""
    wrapper = Wrapper()
    for number, line in enumerate(text.split("\n"), 1):
        wrapper.line(number, line)
    wrapper.end_paragraph()
    return "\n".join(wrapper.result), wrapper.changed


def long_cells(text):
    """Yields the number of the line and the length of each cell that is too long."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if match and (fence is None or match[1].startswith(fence)):
            fence = match[1] if fence is None else None
        if fence is None and line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip())[1:]:
                if len(cell.strip()) > MAX_CELL:
                    yield number, len(cell.strip())


def pages(root):
    for name in PAGES:
        if os.path.isfile(os.path.join(root, name)):
            yield name
    for folder, folders, files in os.walk(os.path.join(root, "docs")):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def check(root, fixes=False):
    """Returns the number of pages and the problems that are left."""
    problems, n_pages = [], 0
    for page in pages(root):
        n_pages += 1
        path = os.path.join(root, page)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        wrapped, changed = wrap(text)
        if fixes and changed:
            with open(path, "w", encoding="utf-8") as file:
                file.write(wrapped)
        elif changed:
            problems += [f"{page}:{number}: lines of more than {COLUMNS} columns: tools/wrap_docs.py --fix"
                         for number in changed]
        problems += [f"{page}:{number}: a cell of {length} characters, at most {MAX_CELL}: move text under the "
                     "table" for number, length in long_cells(text)]
    return n_pages, problems


def self_test():
    a, b, c = "a" * 60, "b" * 50, "c" * 20
    long, full = f"{a} {b} {c}", "d" * (COLUMNS - len(a) - 1)
    cases = [  # page, the page when it is wrapped
        (f"{a} {b}\n{c}\n", None),
        (f"{long}\n", f"{a} {b}\n{c}\n"),
        (f"x\n{long} {a}\ny\n", f"x {a} {b}\n{c} {a} y\n"),
        (f"* {long}\n  {c}\n* y\n", f"* {a} {b}\n  {c} {c}\n* y\n"),
        (f"* x\n  * {long}\n", f"* x\n  * {a} {b}\n    {c}\n"),
        (f"12. {long}\n\n    {long}\n", f"12. {a} {b}\n    {c}\n\n    {a} {b}\n    {c}\n"),
        (f"* x\n\n      {long}\n", None),
        (f"    {long}\n", None),
        (f"```\n{long}\n```\n", None),
        (f"* x\n  ```\n  {long}\n  ```\n", None),
        (f"# {long}\n", None),
        (f"| {a} | {b} {c} |\n|---|---|\n", None),
        (f"> {long}\n", None),
        (f"[x]: {long}\n", None),
        (f"<p>{long}\n{long}\n</p>\n", None),
        (f"<!-- {long} -->\n{long}\n", f"<!-- {long} -->\n{a} {b}\n{c}\n"),
        (f"{long}\n====\n", None),
        (f"{a} {b} `{c} d`\n", f"{a} {b}\n`{c} d`\n"),
        (f"{a} {b} `{c}\nd`\n", f"{a} {b}\n`{c} d`\n"),
        (f"{a} {b} [x `y z` {c}](w)\n", f"{a} {b}\n[x `y z` {c}](w)\n"),
        (f"`{a} {a} {b}`\n", None),
        (f"{a} {full} - {c}\n", f"{a}\n{full} - {c}\n"),
        (f"{a} {full} 20. {c}\n", f"{a}\n{full} 20. {c}\n"),
        (f"{a} {b} 1 024 KiB {c}\n", f"{a} {b}\n1 024 KiB {c}\n"),
        (f"{long}  \nx\n", f"{a} {b}\n{c}  \nx\n"),
        (f"{a} {b} `{c}\n<m>` y\n", f"{a} {b}\n`{c} <m>` y\n"),
        (f"{a} {b} `{c}`\n<p>\n", f"{a} {b}\n`{c}`\n<p>\n"),
        (f"x\n2. {long}\n", f"x 2. {a} {b}\n{c}\n"),
    ]
    failures = []
    for number, (text, expected) in enumerate(cases):
        wrapped, changed = wrap(text)
        if wrapped != (expected or text) or bool(changed) != (expected is not None):
            failures.append(f"self-test {number}: got\n{wrapped}")
        if wrap(wrapped) != (wrapped, []):
            failures.append(f"self-test {number}: a second time gives\n{wrap(wrapped)[0]}")
    failures += self_test_of_files(long)
    print("\n".join(failures) or f"{len(cases) + 1} fixtures as expected")
    return 1 if failures else 0


def self_test_of_files(long):
    cell, fits = "x" * (MAX_CELL + 1), "x" * MAX_CELL
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "docs", "deep"))
        for page, text in (("README.md", f"{long}\n"), ("docs/deep/a.md", f"y\n\n| {fits} | {cell} |\n"),
                           ("docs/b.md", f"```\n| {cell} |\n```\n"), ("other.md", f"{long}\n")):
            with open(os.path.join(root, page), "w", encoding="utf-8") as file:
                file.write(text)
        found = [check(root, fixes) for fixes in (False, True, False)]
        with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
            is_wrapped = file.read() == wrap(f"{long}\n")[0]
    wanted = [["README.md:1", "docs/deep/a.md:3"], ["docs/deep/a.md:3"], ["docs/deep/a.md:3"]]
    got = [[problem.split(": ")[0] for problem in problems] for _, problems in found]
    is_right = got == wanted and is_wrapped and all(n_pages == 3 for n_pages, _ in found)
    return [] if is_right else [f"self-test of files: got {found}"]


def main():
    parser = argparse.ArgumentParser()
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--check", action="store_true", help="the default")
    modes.add_argument("--fix", action="store_true")
    modes.add_argument("--self-test", action="store_true")
    parser.add_argument("root", nargs="?",
                        default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    n_pages, problems = check(options.root, options.fix)
    print("\n".join(problems))
    print(f"{n_pages} pages, {len(problems)} problems")
    return 1 if problems or n_pages == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
