# SPDX-License-Identifier: BSD-3-Clause
"""Pages of docs/, for the tests of their examples."""
import re

from conftest import ROOT


def read(page):
    return (ROOT / "docs" / page).read_text()


def blocks(page):
    """What the page has between fences."""
    return re.findall(r"^```\w*\n(.*?)^```$", read(page), re.S | re.M)


def steps(text):
    """Yields the commands that follow a $, each with what the page shows for it. A command goes on behind a \\ at
    the end of a line, and within quotes."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = part.splitlines()
        n = 1
        while lines[n - 1].endswith("\\") or "\n".join(lines[:n]).count("'") % 2:
            n += 1
        yield "\n".join(lines[:n]), "\n".join(lines[n:])
