#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library exports the functions that the public headers declare for it, and nothing else.

  test_exports.py <path of libtritonserver.so> <static library of src/api>

The version script is made of the headers, so a function that is defined and not declared is hidden in
the library; the static library, where it is not hidden, shows it.
"""
import re
import subprocess
import sys

import abi_names

API_NAME = re.compile(r"(TRITON[A-Z]+|NESO|NESOBACKEND)_\w+$")


def compare(what, expected, found):
    expected, found = sorted(expected), sorted(found)
    if expected == found:
        return 0
    for name in sorted(set(expected) - set(found)):
        print(f"FAILED: {what}: {name} is missing")
    for name in sorted(set(found) - set(expected)):
        print(f"FAILED: {what}: {name} should not be there")
    if set(expected) == set(found):
        print(f"FAILED: {what}: a name is there twice")
    return 1


def dynamic_symbols(library):
    """Defined symbols with what follows an @, if anything does."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                         capture_output=True).stdout
    return [line.split()[-1] for line in out.splitlines()]


def undeclared(static_library, declared):
    """Functions of the C API by their names that no header has."""
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", static_library],
                         check=True, text=True, capture_output=True).stdout
    names = {line.split()[0] for line in out.splitlines() if line}
    return sorted(name for name in names if API_NAME.match(name) and name not in declared)


def soname(library):
    out = subprocess.run(["readelf", "-d", library], check=True, text=True,
                         capture_output=True).stdout
    match = re.search(r"\(SONAME\).*\[(.*)\]", out)
    return match[1] if match else None


def main():
    library, static_library = sys.argv[1:]
    functions = abi_names.header_functions()
    exports = [function.name for function in abi_names.exported_functions()]
    failed = compare(library, exports, dynamic_symbols(library))

    for name in undeclared(static_library, exports):
        print(f"FAILED: {name}() is defined in src/api, and no public header declares it")
        failed = 1
    # What Triton's own plug-ins import, as measured on those of release 2.64.
    for name in abi_names.list_file("plugin_imports.txt"):
        if name not in exports:
            print(f"FAILED: plug-ins in the field need {name}")
            failed = 1
    if soname(library) != "libtritonserver.so":
        print(f"FAILED: soname is {soname(library)}, backends need libtritonserver.so")
        failed = 1
    print(f"{len(exports)} exports, {len(functions) - len(exports)} entry points of plug-ins")
    sys.exit(failed or not exports)


if __name__ == "__main__":
    main()
