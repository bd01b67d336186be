#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The list of exported functions (exports.txt), the headers, the export map and the library agree,
and so do the functions that are not supported yet with the page that tells users of them.

  test_exports.py [path of libtritonserver.so]

Without the library only the sources are compared.
"""
import re
import subprocess
import sys

import abi_names


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


def soname(library):
    out = subprocess.run(["readelf", "-d", library], check=True, text=True,
                         capture_output=True).stdout
    match = re.search(r"\(SONAME\).*\[(.*)\]", out)
    return match[1] if match else None


def main():
    exports = abi_names.list_file("exports.txt")
    functions = abi_names.header_functions()
    entry_points = [f.name for f in functions if f.is_of_plugin]
    failed = 0

    # Five headers declare 348 functions; 23 of them are the plug-ins'.
    if len(functions) != 348 or len(entry_points) != 23:
        print(f"FAILED: headers: {len(functions)} functions, {len(entry_points)} entry points")
        failed = 1
    failed |= compare("headers", exports, [f.name for f in functions if not f.is_of_plugin])
    failed |= compare("exports.map", exports, abi_names.map_names())
    # What Triton's own plug-ins import, as measured on those of release 2.64.
    for name in abi_names.list_file("plugin_imports.txt"):
        if name not in exports:
            print(f"FAILED: plug-ins in the field need {name}")
            failed = 1
    if len(sys.argv) > 1:
        library = sys.argv[1]
        failed |= compare(library, exports, dynamic_symbols(library))
        if soname(library) != "libtritonserver.so":
            print(f"FAILED: soname is {soname(library)}, backends need libtritonserver.so")
            failed = 1
    print(f"{len(exports)} exports, {len(entry_points)} entry points of plug-ins")
    sys.exit(failed)


if __name__ == "__main__":
    main()
