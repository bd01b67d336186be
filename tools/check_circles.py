#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that no two files call each other back and forth: a circle is one object cut into pieces.

  check_circles.py [--self-test] BUILD

The objects of the build folder name the functions and variables that each file defines and uses; a file
depends on the files whose names it uses. Files that are linked into different objects (the server's, each
plug-in's) are looked at apart. A call through a pointer is no dependence: that is how a lower file reaches
a higher one.

KNOWN has the circles that are permitted: none. One that has gone must leave the list.
"""
import argparse
import collections
import json
import os
import re
import shlex
import subprocess
import sys

OURS = re.compile(r"(?:^|/)((?:src|backends|caches|repoagents|schedulers)/[\w/]+\.c)$")
BATCH = 100

KNOWN = []


def unit_of(path):
    """What is linked together: the server and its library are one, each plug-in is one."""
    return "src" if path.startswith("src/") else "/".join(path.split("/")[:2])


def objects_of(build):
    """{object: source} of our sources; each source once for each unit."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        match = OURS.search(os.path.normpath(entry["file"]))
        if match is None:
            continue
        output = entry.get("output")
        if output is None:
            words = shlex.split(entry["command"])
            output = words[words.index("-o") + 1]
        output = os.path.normpath(os.path.join(entry["directory"], output))
        if "/tests/" not in os.path.relpath(output, build) and os.path.exists(output):
            found[output] = match.group(1)
    return found


def read_names(objects, tool):
    """({source: names that it defines}, {source: names that it uses})"""
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    paths = sorted(objects)
    for at in range(0, len(paths), BATCH):
        text = subprocess.run([tool, "-A", "-P", *paths[at:at + BATCH]], capture_output=True, text=True,
                              check=True).stdout
        for line in text.splitlines():
            path, _, rest = line.partition(": ")
            words = rest.split()
            if len(words) < 2 or path not in objects:
                continue
            if words[1] in "Uw":
                used[objects[path]].add(words[0])
            elif words[1] in "TDBRVWC":
                defined[objects[path]].add(words[0])
    return defined, used


def dependences(defined, used):
    """{source: {other source: a name of it}}"""
    owner = {(unit_of(path), name): path for path, names in defined.items() for name in names}
    edges = collections.defaultdict(dict)
    for path, names in used.items():
        for name in sorted(names):
            other = owner.get((unit_of(path), name))
            if other is not None and other != path:
                edges[path].setdefault(other, name)
    return edges


def circles_of(edges):
    """The strongly connected components of more than one file (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = set()
            while node not in group:
                group.add(stack.pop())
            if len(group) > 1:
                found.append(group)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=sorted)


def describe(group, edges):
    lines = ["these files call each other in a circle:"]
    for path in sorted(group):
        lines += [f"  {path} uses {name}() of {other}" for other, name in sorted(edges[path].items())
                  if other in group]
    return "\n".join(lines)


def problems_of(edges, known):
    found = circles_of(edges)
    problems = [describe(group, edges) for group in found if group not in known]
    return problems + [f"this circle has gone, and its row in KNOWN must go: {', '.join(sorted(group))}"
                       for group in known if group not in found]


def self_test():
    defined = {"src/a/x.c": {"x_new"}, "src/a/y.c": {"y_new", "y_free"}, "src/b/z.c": {"z_new"},
               "backends/p/x.c": {"y_new"}}
    used = {"src/a/x.c": {"y_new", "malloc"}, "src/a/y.c": {"z_new"}, "backends/p/x.c": {"x_new"}}
    assert problems_of(dependences(defined, used), []) == []
    used["src/b/z.c"] = {"x_new"}
    edges = dependences(defined, used)
    circle = {"src/a/x.c", "src/a/y.c", "src/b/z.c"}
    assert circles_of(edges) == [circle]
    assert problems_of(edges, []) == [
        "these files call each other in a circle:\n"
        "  src/a/x.c uses y_new() of src/a/y.c\n"
        "  src/a/y.c uses z_new() of src/b/z.c\n"
        "  src/b/z.c uses x_new() of src/a/x.c"]
    assert problems_of(edges, [circle]) == []
    assert "must go" in problems_of({}, [circle])[0]
    print("1 passed, 0 failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    sys.setrecursionlimit(10000)
    build = os.path.realpath(args.build)
    objects = objects_of(build)
    edges = dependences(*read_names(objects, os.environ.get("NM", "nm")))
    if sum(map(len, edges.values())) < len(objects):
        print("the objects name hardly any functions: is there a build?")
        return 1
    problems = problems_of(edges, KNOWN)
    for problem in problems:
        print(problem)
    print(f"{len(objects)} files, {len(KNOWN)} known circles, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
