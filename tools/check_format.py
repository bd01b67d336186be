#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the C files are formatted as .clang-format says, or formats them.

  check_format.py [--fix] [--self-test] [root]

Releases of clang-format differ in details, so one is used everywhere: 14, that of Debian 12. Where it is
missing, as on Debian 13, the check is skipped with a line that says so, and --fix is an error.
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

MAJOR = 14
SKIPPED = 77  # for Meson
TOPS = ("src", "backends", "caches", "repoagents", "schedulers", "include", "tests", "examples", "bench")
BATCH = 32


def find_formatter():
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        if not shutil.which(name):
            continue
        version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        if f"version {MAJOR}." in version:
            return name
    return None


def c_files(root):
    for top in TOPS:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def batches(files):
    return [files[at:at + BATCH] for at in range(0, len(files), BATCH)]


def differing(formatter, root, files):
    """Those files that the formatter would change."""
    result = subprocess.run([formatter, "--dry-run", "--Werror", "--ferror-limit=1", *files], cwd=root,
                            capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    named = {line.split(":")[0] for line in result.stderr.splitlines()
             if "[-Wclang-format-violations]" in line}
    return sorted(named) or [result.stderr.strip()]


def for_each_batch(call, files):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(call, batches(files)))


def check(formatter, root):
    files = list(c_files(root))
    problems = [f"{path}: is not formatted: make format"
                for found in for_each_batch(lambda batch: differing(formatter, root, batch), files)
                for path in found]
    return len(files), problems


def fix(formatter, root):
    for_each_batch(lambda batch: subprocess.run([formatter, "-i", *batch], cwd=root, check=True),
                   list(c_files(root)))


def self_test(formatter, root):
    cases = [  # text of src/net/a.c, whether it is as it should be
        ('#include "net/a.h"\n\n#include "base/b.h"\n\n#include <stdio.h>\n', True),
        ('#include "net/a.h"\n\n#include <stdio.h>\n\n#include "base/b.h"\n', False),
        ("int f(void) {\n        return 1;\n}\n", True),
        ("int f(void) {\n    return 1;\n}\n", False),
        ("/* clang-format off */\nint t[] = { 1,\n 2 };\n/* clang-format on */\n", True),
    ]
    failures = []
    for number, (text, is_right) in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(root, ".clang-format"), folder)
            os.makedirs(os.path.join(folder, "src", "net"))
            with open(os.path.join(folder, "src", "net", "a.c"), "w", encoding="utf-8") as file:
                file.write(text)
            n_files, problems = check(formatter, folder)
        if n_files != 1 or (not problems) != is_right:
            failures.append(f"self-test {number}: got {problems}")
    print("\n".join(failures) or f"{len(cases)} fixtures as expected")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("root", nargs="?",
                        default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options = parser.parse_args()
    formatter = find_formatter()
    if formatter is None:
        print(f"skipped: there is no clang-format-{MAJOR} here (Debian 12 has it)")
        return 1 if options.fix else SKIPPED
    if options.self_test:
        return self_test(formatter, options.root)
    if options.fix:
        fix(formatter, options.root)
    n_files, problems = check(formatter, options.root)
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
