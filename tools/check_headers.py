#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that every header compiles alone, and twice; public headers in each language of users.

  check_headers.py [--self-test] [--build=FOLDER] [root]

FOLDER is the build folder, for the headers that are generated.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import sysconfig
import tempfile

OURS = ["cc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror"]
PUBLIC = ["cc -std=c11 -Wall -Wextra -Werror",
          "cc -std=c17 -pedantic -Wall -Wextra -Werror",
          "c++ -std=c++17 -pedantic -Wall -Wextra -Werror"]


def headers(root):
    for top, dialects in (("src", OURS), ("backends", OURS), ("caches", OURS), ("repoagents", OURS), ("schedulers", OURS),
                          ("include", PUBLIC)):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".h"):
                    path = os.path.relpath(os.path.join(folder, name), os.path.join(root, top))
                    for dialect in dialects:
                        yield top, path, dialect


def compile_alone(root, build, top, path, dialect):
    language = "c++" if dialect.startswith("c++") else "c"
    command = dialect.split() + ["-fsyntax-only", "-x", language, "-I" + os.path.join(root, top),
                                 "-I" + os.path.join(root, "include")]
    for folder in (os.path.join(build, "proto"), "/usr/share/include", "/usr/share/include/llhttp",
                   os.path.join(root, ".deps", "onnxruntime", "include"),
                   "/usr/include/onnxruntime",
                   sysconfig.get_path("include", vars={"installed_base": "/usr"})):
        if os.path.isdir(folder):
            command += ["-isystem", folder]
    source = f'#include "{path}"\n#include "{path}"\n'
    result = subprocess.run(command + ["-"], input=source, text=True, capture_output=True,
                            check=False)
    if result.returncode == 0:
        return None
    return f"{top}/{path} does not compile alone with {dialect}:\n{result.stderr[:2000]}"


def check(root, build):
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [pool.submit(compile_alone, root, build, *header) for header in headers(root)]
        results = [job.result() for job in jobs]
    return len(results), [result for result in results if result]


def self_test():
    cases = [
        ("src/base/a.h", "#pragma once\nstruct a { size_t n; };\n", 1),     # needs <stddef.h>
        ("src/base/a.h", "struct a { int n; };\n", 1),                      # no guard
        ("src/base/a.h", "#pragma once\nstruct a { int n; };\n", 0),
        ("include/triton/core/a.h", "#pragma once\nstruct a { int class; };\n", 1),  # not C++
        ("include/triton/core/a.h",
         "#pragma once\nstatic inline int a(int x) { return ({ x; }); }\n", 2),  # GNU only
        ("include/triton/core/a.h", "#pragma once\nstruct a { int n; };\n", 0),
    ]
    failures = []
    for number, (path, text, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
            problems = check(root, root)[1]
        if len(problems) != expected:
            failures.append(f"self-test {number}: {expected} expected, got {problems}")
    print("\n".join(failures) or f"{len(cases)} fixtures as expected")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", nargs="?",
                        default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--build", default="build")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    n_compiled, problems = check(options.root, options.build)
    print("\n".join(problems))
    print(f"{n_compiled} compilations, {len(problems)} problems")
    return 1 if problems or n_compiled == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
