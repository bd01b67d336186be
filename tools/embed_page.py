#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the files of the dashboard's page as a C file (src/web/web_asset.h).

  embed_page.py OUTPUT FILE...

Each file is there as it is and packed with gzip. The page is index.html at /dashboard; every other file
is at /dashboard/<its name>. The same input gives the same output.
"""
import gzip
import hashlib
import os
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def array(name, content):
    # String literals compile a hundred times faster than lists of numbers.
    lines = []
    for at in range(0, len(content), 24):
        lines.append('        "' + "".join(f"\\{byte:03o}" for byte in content[at:at + 24]) + '"')
    return f"static const char {name}[] =\n" + "\n".join(lines) + ";\n"


def main():
    output, files = sys.argv[1], sys.argv[2:]
    parts = ["/* Made by tools/embed_page.py. */", '#include "web/web_asset.h"', ""]
    rows = []
    for n, path in enumerate(files):
        name = os.path.basename(path)
        with open(path, "rb") as file:
            content = file.read()
        packed = gzip.compress(content, 9, mtime=0)
        parts += [array(f"plain_{n}", content), array(f"gzip_{n}", packed)]
        url = "/dashboard" if name == "index.html" else "/dashboard/" + name
        rows.append(f'        {{ "{url}", "{TYPES[os.path.splitext(name)[1]]}",\n'
                    f'          "\\"{hashlib.sha256(content).hexdigest()[:32]}\\"",\n'
                    f"          (const unsigned char *)plain_{n}, {len(content)},\n"
                    f"          (const unsigned char *)gzip_{n}, {len(packed)} }},")
    parts += ["const struct web_asset web_assets[] = {", *rows, "};",
              f"const size_t web_n_assets = {len(files)};", ""]
    with open(output, "w", encoding="ascii") as file:
        file.write("\n".join(parts))


main()
