# SPDX-License-Identifier: BSD-3-Clause
"""An installation in a folder, and what is built against it as a user would."""
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT, is_sanitized, require_build

EXAMPLES = ROOT / "examples"


def run(*command, **named):
    ended = subprocess.run([str(word) for word in command], capture_output=True, check=False,
                           timeout=300, **named)
    assert ended.returncode == 0, (command, ended.stdout.decode(errors="replace"),
                                   ended.stderr.decode(errors="replace"))
    return ended.stdout


def sanitizer_flags():
    """A program with the library in it must have the same sanitizer as the library."""
    if not is_sanitized():
        return []
    kind = "address" if b"__asan_init" in (BUILD / "neso").read_bytes() else "thread"
    return [f"CFLAGS=-g -fsanitize={kind}", f"CXXFLAGS=-g -fsanitize={kind}"]


def install(folder):
    """The prefix. The build stays as it is configured: everything moves below `folder`."""
    require_build(["identity"])
    for tool in ("meson", "pkg-config", "make", "cc", "c++"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not there")
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder)
    found = list(pathlib.Path(folder).glob("**/lib/pkgconfig/neso.pc"))
    assert len(found) == 1, found
    return found[0].parents[2]


def build_example(name, prefix, folder):
    """A copy, outside of the tree, made with its own Makefile."""
    copy = pathlib.Path(folder) / name
    shutil.copytree(EXAMPLES / name, copy)
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    run("make", "-C", copy, f"PREFIX={prefix}", *sanitizer_flags(), env=environment)
    return copy
