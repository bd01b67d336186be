#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The reports of run.py as one table in Markdown: operations, functions, the number of cases of each cell.

  tests/faults/table.py build/faults.json [further reports] > table.md
"""
import collections
import json
import pathlib
import sys


def read(paths):
    cells, failures = collections.defaultdict(dict), []
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        for operation, row in report["cells"].items():
            cells[operation].update(row)
        failures += report["failures"]
    return cells, failures


def main(paths):
    cells, failures = read(paths)
    functions = list(dict.fromkeys(function for row in cells.values() for function in row))
    functions.sort(key=lambda function: -sum(row.get(function, 0) for row in cells.values()))
    print("| operation | " + " | ".join(f"`{function}`" for function in functions) + " | all |")
    print("|---|" + "--:|" * (len(functions) + 1))
    for operation, row in cells.items():
        numbers = [str(row.get(function) or "") for function in functions]
        print(f"| {operation} | " + " | ".join(numbers) + f" | {sum(row.values())} |")
    sums = [sum(row.get(function, 0) for row in cells.values()) for function in functions]
    print("| **all** | " + " | ".join(map(str, sums)) + f" | {sum(sums)} |")
    print(f"\n{sum(sums)} cases in {sum(map(len, cells.values()))} cells, {len(failures)} failed.")


if __name__ == "__main__":
    main(sys.argv[1:])
