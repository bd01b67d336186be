#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The functions that the public headers declare, and the linker's list of exports made of them.

  api_functions.py --map=OUTPUT [--depfile=FILE] FOLDER     writes the version script
  api_functions.py --self-test

FOLDER is include/triton/core. The headers are the one list: the build makes the version script of
libtritonserver.so from them, and the tests of tests/abi read them through this module. A function is
declared as

  TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ServerNew(...);

or, when plug-ins define it, with ..._ISPEC, below a comment that describes it or it and its neighbours.
A declaration in another form is an error.
"""
import argparse
import os
import re
import sys
import tempfile

SKIPPED = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
PROTOTYPE = re.compile(
    r"^TRITON[A-Z]+_(?P<whose>DECLSPEC|ISPEC)\s+(?P<result>[\w\s]+?[\s*]+)"
    r"(?P<name>(?:TRITON[A-Z]+|NESO)_\w+)\((?P<parameters>[^)]*)\);",
    re.M)
ANY_DECLARATION = re.compile(r"\b((?:TRITON[A-Z]+|NESO)_\w+)\s*\([^;{}]*;")
PARAMETER = re.compile(r"^(?:const )?(?P<type>.*?)(?P<name>\w+)$")

MAP = """/* Made by tools/api_functions.py from the public headers: what libtritonserver.so exports.
 *
 * The node has no name, so the symbols carry no version: plug-ins that were built elsewhere refer
 * to them without one. A script with such a node can hold no other, so the NESO_ functions of
 * neso.h are in it too.
 */
{
global:
%s
local:
        *;
};
"""


class Function:
    def __init__(self, header, match):
        self.header = header
        self.at = match.start()
        self.name = match["name"]
        self.is_of_plugin = match["whose"] == "ISPEC"
        self.result = " ".join(match["result"].split())
        self.parameters = list(parameters(match["parameters"]))  # (type, name) of each

    def returns_error(self):
        return "TRITONSERVER_Error *" in self.result


def parameters(text):
    for one in text.split(","):
        one = " ".join(one.split())
        if one not in ("", "void"):
            match = PARAMETER.match(one)
            yield match["type"], match["name"]


class Mistake(Exception):
    """A header that declares functions in a way that the tools do not understand."""


def header_paths(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".h")]


def has_comment(text, at):
    """True when the declaration is in a paragraph that begins with a comment."""
    return text[:at].rpartition("\n\n")[2].startswith("/*")


def functions_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    header = os.path.basename(path)
    functions = [Function(header, match) for match in PROTOTYPE.finditer(text)]
    missed = set(ANY_DECLARATION.findall(SKIPPED.sub(" ", text))) - {function.name for function in functions}
    bare = [function.name for function in functions if not has_comment(text, function.at)]
    if bare:
        raise Mistake(f"{path}: {', '.join(bare)}: no comment above the declaration")
    if missed:
        raise Mistake(f"{path}: {', '.join(sorted(missed))}: not declared as 'TRITON..._DECLSPEC "
                      "<type> <name>(...);', or with ISPEC where plug-ins define it")
    return functions


def functions_of_folder(folder):
    functions = [function for path in header_paths(folder) for function in functions_of(path)]
    names = [function.name for function in functions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Mistake(f"{folder}: {', '.join(twice)}: declared twice")
    return functions


def version_script(functions):
    names = sorted(function.name for function in functions if not function.is_of_plugin)
    return MAP % "\n".join(f"        {name};" for name in names)


SELF_TEST = [  # text of a header, exported names or a part of the mistake
    ("/* A */\nTRITONSERVER_DECLSPEC struct TRITONSERVER_Error *NESO_A(\n        const char *a, bool b);\n"
     "TRITONSERVER_DECLSPEC const char *NESO_B(void);\n", ["NESO_A", "NESO_B"]),
    ("/* A */\nTRITONBACKEND_ISPEC struct TRITONSERVER_Error *TRITONBACKEND_Initialize(void *b);\n", []),
    ("/* NESO_A(); */\ntypedef void (*NESO_Fn_t)(void *userp);\n#define NESO_C ((int) \\\n 2)\nstruct NESO_S { int x; };\n", []),
    ("TRITONSERVER_Error *TRITONSERVER_New(void);\n", "TRITONSERVER_New"),
    ("/* A */\nTRITONSERVER_DECLSPEC void NESO_A(void);\n" * 2, "declared twice"),
    ("/* A */\n\nTRITONSERVER_DECLSPEC void NESO_A(void);\n", "no comment above"),
]


def self_test():
    failures = []
    for number, (text, expected) in enumerate(SELF_TEST):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.h"), "w", encoding="utf-8") as file:
                file.write(text)
            try:
                found = re.findall(r"^ +(\w+);$", version_script(functions_of_folder(folder)), re.M)
                is_right = found == expected
            except Mistake as mistake:
                found = str(mistake)
                is_right = isinstance(expected, str) and expected in found
        if not is_right:
            failures.append(f"self-test {number}: {expected} expected, got {found}")
    print("\n".join(failures) or f"{len(SELF_TEST)} fixtures as expected")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--map")
    parser.add_argument("--depfile")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("folder", nargs="?")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    try:
        script = version_script(functions_of_folder(options.folder))
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    with open(options.map, "w", encoding="utf-8") as file:
        file.write(script)
    if options.depfile:
        # The folder as well: its time changes with a new header.
        sources = [os.path.abspath(path) for path in [options.folder, *header_paths(options.folder)]]
        with open(options.depfile, "w", encoding="utf-8") as file:
            file.write(f"{options.map}: {' '.join(path.replace(' ', chr(92) + ' ') for path in sources)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
