#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every public header compiles alone, as C and as C++, without a warning; the values of its enums
are those of header_values.c; and the ways of header_use.c to write its types are accepted.

  test_headers.py [--root=.] [--cc=cc] [--cxx=c++]
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
DIALECTS = [("c", "c11"), ("c", "c17"), ("c++", "c++17")]
OTHERS = {"c": "clang", "c++": "clang++"}  # besides the compilers of the build


def failures(command, source):
    result = subprocess.run(command + ["-"], input=source, text=True, capture_output=True)
    return result.stdout + result.stderr if result.returncode else ""


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"))
    args = parser.parse_args()

    include = os.path.join(args.root, "include")
    headers = sorted(os.listdir(os.path.join(include, "triton", "core")))
    sources = {h: f'#include "triton/core/{h}"\n#include "triton/core/{h}"\n' for h in headers}
    for name in ("header_values.c", "header_use.c"):
        with open(os.path.join(here, name)) as file:
            sources[name] = file.read()
    if len(headers) < 5:
        sys.exit(f"FAILED: only {len(headers)} headers in {include}/triton/core")

    n_compiled = n_failed = 0
    for language, standard in DIALECTS:
        own = args.cc if language == "c" else args.cxx
        strict = ["-Wstrict-prototypes"] if language == "c" else []
        for compiler in dict.fromkeys((own, OTHERS[language])):
            compiler = shlex.split(compiler)
            if not shutil.which(compiler[0]):
                print(f"no {compiler[0]} here: {standard} is left out")
                continue
            command = [*compiler, "-x", language, f"-std={standard}", "-I", include, *WARNINGS,
                       *strict]
            for name, source in sources.items():
                text = failures(command, source)
                n_compiled += 1
                if text:
                    n_failed += 1
                    print(f"FAILED: {name} as {standard} with {compiler[0]}\n{text}")
    # What must not compile shows that the test can fail.
    if not failures([*shlex.split(args.cc), "-x", "c", "-I", include, *WARNINGS],
                    '#include "triton/core/tritonserver.h"\nTRITONSERVER_NoSuchType x;\n'):
        sys.exit("FAILED: the compiler accepts a type that does not exist")
    print(f"{n_compiled} compilations, {n_failed} failed")
    sys.exit(1 if n_failed or n_compiled == 0 else 0)


if __name__ == "__main__":
    main()
