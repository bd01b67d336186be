#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints a header with its comments in the form that Doxygen reads (docs/Doxyfile).

  doxygen_filter.py FILE
  doxygen_filter.py --self-test

The headers have plain comments, in these places:

 * the first one after the SPDX line describes the file
 * /* ---- Title ---- * / begins a section; a comment below it that no declaration follows describes it
 * a comment describes the declarations that follow it without a blank line, all of them
 * a comment after code on its line describes that code
"""
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
SECTION = re.compile(r"^-{3,}\s+(.*?)\s+-{3,}$")
VERBATIM = re.compile(r"(`[^`]*`|\"[^\"]*\")")  # Doxygen takes these as they are
SPECIAL = re.compile(r"[<>@\\&#%|]")


def comment_lines(comment):
    """The lines of a comment without its marks and the stars of its lines."""
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line
             for i, line in enumerate(comment[2:-2].split("\n"))]
    return [line.rstrip() for line in lines]


def escaped(text):
    parts = VERBATIM.split(text)
    return "".join(part if part[:1] in ("`", '"') else SPECIAL.sub(lambda m: "\\" + m[0], part)
                   for part in parts)


def body(comment):
    """The text for Doxygen. Lines that are indented by four are shown as they are."""
    out, shown, prose = [], [], []

    def end():
        blank = []
        while shown and not shown[-1]:
            blank.append(shown.pop())
        if shown:
            out.extend(["@code{.unparsed}", *shown, "@endcode"])
        out.extend(blank)
        if prose:
            out.extend(escaped("\n".join(prose)).split("\n"))
        shown.clear()
        prose.clear()

    for line in comment_lines(comment):
        if line.startswith("    ") and not shown or shown and line and line[0] != " ":
            end()
        (shown if line.startswith("    ") or shown else prose).append(
            line if line.startswith("    ") or shown else line.strip())
    end()
    return "\n".join(" * " + line if line else " *" for line in out).strip(" *\n")


def statement_ends(code):
    """Yields the places after the declarations of a piece of code, outside of braces."""
    depth = 0
    for match in re.finditer(r"[{};]|^#define(?:\\\n|[^\n])*", code, re.M):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] not in "{}" and depth == 0:
            yield match.end()


def paragraph_end(text, start):
    """Where the declarations end that follow a comment without a blank line."""
    depth = 0
    for match in re.finditer(r"/\*.*?\*/|[{}]|\n\s*\n|\n(?=/\*)", text[start:], re.S):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
        elif depth == 0 and not match[0].startswith("/*"):
            return start + match.start()
    return len(text)


def described(text, start, doc):
    """The declarations from `start` on, with the comment above each, and where they end."""
    end = paragraph_end(text, start)
    plain = COMMENT.sub(lambda match: " " * len(match[0]), text[start:end])
    pieces, at = [], 0
    for stop in statement_ends(plain):
        line_end = text.find("\n", start + stop)
        stop = end - start if line_end < 0 else min(line_end - start, end - start)
        if stop > at:
            pieces.append(text[start + at:start + stop])
            at = stop
    pieces.append(text[start + at:end])
    return "".join(piece if not piece.strip() else doc + converted_inside(piece)
                   for piece in pieces), end


def converted_inside(code):
    """Comments of fields, enumerators and code on the same line."""
    def convert(match):
        before = code[code.rfind("\n", 0, match.start()) + 1:match.start()]
        return f"/**{'<' if before.strip() else ''} {body(match[0])} */"

    return COMMENT.sub(convert, code)


def converted(text):
    out, at, is_first, in_section = [], 0, True, False
    while match := COMMENT.search(text, at):
        code = text[at:match.start()]
        out.append(code)
        at = match.end()
        follows = text[at:at + 2]
        if "SPDX" in match[0]:
            continue
        section = SECTION.match(match[0][2:-2].strip())
        if is_first:
            out.append(f"/** @file\n * {body(match[0])}\n */")
            is_first = False
        elif section:
            note = COMMENT.match(text, at + 1)
            title = [f"@name {section[1]}"]
            if note and text[note.end():note.end() + 2] == "\n\n":
                title.append(body(note[0]))
                at = note.end()
            out.append(("/** @} */\n" if in_section else "") +
                       "/** " + "\n * ".join(title) + "\n */\n/** @{ */")
            in_section = True
        elif code.rpartition("\n")[2].strip():
            out.append(f"/**< {body(match[0])} */")
        elif follows == "\n\n" or not text[at:].strip():
            out.append(match[0])
        else:
            paragraph, at = described(text, at, f"\n/** {body(match[0])} */")
            out.append(paragraph)
    out.append(text[at:])
    if in_section:
        out.append("\n/** @} */\n")
    return "".join(out)


SELF_TEST = [
    ("/* SPDX-License-Identifier: X */\n/* What <x> is. */\n", "/** @file\n * What \\<x\\> is.\n */"),
    ("/* F */\n\n/* Both. */\nvoid a(void);\nvoid b(void);\n\nvoid c(void);\n",
     "/** Both. */\nvoid a(void);\n/** Both. */\nvoid b(void);\n\nvoid c(void);"),
    ("/* F */\n\n/* V, \"<a>\". */\n#define A 1\n#define B \\\n 2\n",
     "/** V, \"<a>\". */\n#define A 1\n/** V, \"<a>\". */\n#define B \\\n 2"),
    ("/* F */\n\n/* S. */\nstruct s {\n        int a; /* one */\n        /* two */\n        int b;\n};\n",
     "/** S. */\nstruct s {\n        int a; /**< one */\n        /** two */\n        int b;\n};"),
    ("/* F */\n\n/* ---- Names ---- */\n/* Note. */\n\n/* A. */\nint a(void);\n",
     "/** @name Names\n * Note.\n */\n/** @{ */\n\n\n/** A. */\nint a(void);\n\n/** @} */"),
    ("/* F */\n\n/* As:\n *\n *     x <y>\n *\n * `<z>`. */\nint a;\n",
     "/** As:\n *\n * @code{.unparsed}\n *     x <y>\n * @endcode\n *\n * `<z>`. */\nint a;"),
]


def self_test():
    failures = [f"self-test {number}: '{expected}' is not in\n{converted(text)}"
                for number, (text, expected) in enumerate(SELF_TEST)
                if expected not in converted(text)]
    print("\n".join(failures) or f"{len(SELF_TEST)} fixtures as expected")
    return 1 if failures else 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(converted(file.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
