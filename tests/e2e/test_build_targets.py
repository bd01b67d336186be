# SPDX-License-Identifier: BSD-3-Clause
"""`make` and `make demo` build the target `installed`: what users get, and nothing else."""
import json
import os
import pathlib
import re
import subprocess

from conftest import BUILD, ROOT


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          timeout=60, text=True).stdout


def built_by_make():
    """Every file that ninja makes or reads for it, relative to the build folder."""
    query = run("ninja", "-C", BUILD, "-t", "query", "installed")
    direct = re.findall(r"^    \|? ?(\S+)$", query, re.M)
    return direct + run("ninja", "-C", BUILD, "-t", "inputs", "installed").splitlines()


def test_all_that_is_installed():
    targets = json.loads(run("meson", "introspect", "--targets", BUILD))
    wanted = {os.path.relpath(name, BUILD) for target in targets if target["installed"]
              for name in target["filename"]}
    assert {"neso", "libtritonserver.so", "backends/kit/libkit.a"} <= wanted
    assert wanted <= set(built_by_make())


def test_nothing_else():
    sources = [pathlib.Path(os.path.normpath(BUILD / name)) for name in built_by_make()]
    own = [path.relative_to(ROOT) for path in sources if path.is_relative_to(ROOT)
           and not path.is_relative_to(BUILD)]
    assert pathlib.Path("src/cli/serve.c") in own
    others = [path for path in own if path.parts[0] not in
              ("src", "include", "proto", "backends", "caches", "repoagents", "schedulers")
              or path.parts[:2] == ("backends", "testing")]
    made_with = {"tools/api_functions.py",  # makes the list of exports
                 "tools/make_pow10.py",  # makes the powers of ten for parsing and printing floats
                 "tools/embed_page.py",  # puts the dashboard's files into the program, among them uPlot's
                 ".deps/uplot/uPlot.iife.min.js", ".deps/uplot/uPlot.min.css"}
    assert made_with <= set(map(str, others))
    others = [path for path in others if str(path) not in made_with]
    assert others == []
