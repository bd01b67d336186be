# SPDX-License-Identifier: BSD-3-Clause
"""What a distribution's build expects of Meson's files: no flag twice, its own folders and interpreter,
no warning as an error. Only configured, not built; `make install` is that of BUILD."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import ROOT, is_sanitized
from installation import install, run

TAKES_SECONDS = 25
# What dpkg-buildflags gives with hardening=+all; the level of _FORTIFY_SOURCE is not ours.
DEBIAN = {"CFLAGS": "-g -O2 -fstack-protector-strong -Wformat -Werror=format-security",
          "CPPFLAGS": "-Wdate-time -D_FORTIFY_SOURCE=3",
          "LDFLAGS": "-Wl,-z,relro -Wl,-z,now"}


def configure(folder, flags, *options):
    """The command that compiles server.c, and the link arguments of the library and of neso."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("CFLAGS", "CPPFLAGS", "LDFLAGS")} | flags
    run("meson", "setup", folder, ROOT, "-Dtests=false", *options, env=environment)
    with open(folder / "compile_commands.json", encoding="utf-8") as file:
        commands = [entry["command"] for entry in json.load(file)
                    if entry["file"].endswith("src/server/server.c")]
    assert len(commands) == 1
    return commands[0].split(), (folder / "build.ninja").read_text()


def options_of(folder):
    text = run("meson", "introspect", "--buildoptions", folder)
    return {option["name"]: option["value"] for option in json.loads(text)}


def fortify(command):
    return [word for word in command if "_FORTIFY_SOURCE" in word]


@pytest.fixture(scope="module", autouse=True)
def needs_meson():
    if not shutil.which("meson"):
        pytest.skip("meson is not there")


def test_flags_of_the_environment_are_alone(tmp_path):
    command, ninja = configure(tmp_path, DEBIAN, "--buildtype=debugoptimized", "--prefix=/usr",
                               "--libdir=lib/x86_64-linux-gnu")
    assert fortify(command) == ["-D_FORTIFY_SOURCE=3"]
    assert command.count("-fstack-protector-strong") == 1
    assert "-Werror" not in command
    library = [line for line in ninja.splitlines() if "-Wl,--version-script=" in line]
    assert len(library) == 1 and library[0].split().count("-Wl,-z,relro") == 1
    options = options_of(tmp_path)
    assert options["libdir"] == "lib/x86_64-linux-gnu" and options["werror"] is False


def test_own_flags_without_others(tmp_path):
    command, ninja = configure(tmp_path, {}, "--buildtype=debugoptimized")
    assert fortify(command) == ["-D_FORTIFY_SOURCE=2"]
    assert "-fstack-protector-strong" in command and "-Werror" not in command
    library = [line for line in ninja.splitlines() if "-Wl,--version-script=" in line]
    assert "-Wl,-z,relro" in library[0] and "-Wl,-z,now" in library[0]


def test_hardening_off(tmp_path):
    command, ninja = configure(tmp_path, {}, "-Dhardening=off")
    assert fortify(command) == [] and "-fstack-protector-strong" not in command
    assert "-Wl,-z,relro" not in ninja


@pytest.mark.skipif(is_sanitized(), reason="the runtime's libraries are searched for, too")
def test_moved_installation_runs(tmp_path):
    """The program finds its library, and the library its plug-ins, wherever they are moved to."""
    prefix = install(tmp_path / "first")
    moved = tmp_path / "second"
    prefix.rename(moved)
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    version = subprocess.run([moved / "bin" / "neso", "version"], env=environment, check=True,
                             capture_output=True, text=True, timeout=60).stdout
    assert version.startswith("neso ")
    assert (moved / "lib" / "neso" / "backends" / "identity" / "libtriton_identity.so").is_file()
