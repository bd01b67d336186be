# SPDX-License-Identifier: BSD-3-Clause
"""The archive of `make tarball`: it runs from any folder with its own library and backends, moved or not, and two
archives of one build are equal."""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
import requests

from conftest import BUILD, ROOT, Server, is_sanitized, require_build, write_repository
from installation import run

TAKES_SECONDS = 15
EPOCH = 1700000000
TENSOR = 'data_type: TYPE_INT32 dims: [-1]'
IDENTITY = f'backend: "identity" input {{ name: "IN" {TENSOR} }} output {{ name: "OUT" {TENSOR} }}'

pytestmark = pytest.mark.skipif(is_sanitized(), reason="the archive is that of the release build")


class Unpacked(Server):
    """The server of an unpacked archive, in an environment that names no library."""

    def __init__(self, prefix, repository):
        self.prefix = prefix
        super().__init__(repository, waits_for=("http", "grpc", "metrics"))

    def program(self):
        return ["env", "-u", "LD_LIBRARY_PATH", str(self.prefix / "bin" / "neso"), "serve"]


def make_archive(folder):
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(EPOCH))
    said = run(ROOT / "tools" / "make_tarball.sh", BUILD, folder, env=environment).decode()
    return pathlib.Path(said.strip().splitlines()[-1])


def unpack(archive, folder):
    folder.mkdir()
    run("tar", "--zstd", "-xf", archive, "-C", folder)
    [prefix] = folder.iterdir()
    return prefix


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    require_build(["identity", "onnxruntime"])
    for tool in ("meson", "zstd", "git", "dpkg"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not there")
    return make_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    write_repository(folder, {"same": IDENTITY})
    shutil.copytree(ROOT / "examples" / "models" / "digits", folder / "digits")
    return folder


def mapped(server):
    """The files with code of Neso or of ONNX Runtime that the process has in memory."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text().splitlines()
    files = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return {pathlib.Path(file) for file in files
            if "/neso" in file or "triton" in file or "onnxruntime" in file}


def check_serves(prefix, repository):
    """Answers of both backends; the code that ran is that of the folder."""
    server = Unpacked(prefix, repository)
    try:
        values = [3, -7, 2**31 - 1]
        answer = requests.post(f"{server.url}/v2/models/same/infer", timeout=20, json={"inputs": [
            {"name": "IN", "shape": [3], "datatype": "INT32", "data": values}]})
        assert answer.status_code == 200 and answer.json()["outputs"][0]["data"] == values, answer.text
        answer = requests.post(f"{server.url}/v2/models/digits/infer", timeout=20, json={"inputs": [
            {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0] * 64}]})
        assert answer.status_code == 200, answer.text
        assert [output["shape"] for output in answer.json()["outputs"]][0][0] == 1
        code = mapped(server)
        names = {path.name for path in code}
        assert {"neso", "libtritonserver.so", "libtriton_identity.so", "libtriton_onnxruntime.so"} <= names
        bundled = (prefix / "lib" / "neso" / "backends" / "onnxruntime" / "libonnxruntime.so.1").exists()
        others = [path for path in code if not path.is_relative_to(prefix)]
        assert [path for path in others if bundled or "libonnxruntime" not in path.name] == []
    finally:
        code = server.stop()
    assert code == 0


def test_two_places_and_moved(archive, repository, tmp_path):
    first = unpack(archive, tmp_path / "first")
    second = unpack(archive, tmp_path / "a folder with spaces")
    check_serves(first, repository)
    check_serves(second, repository)
    shutil.rmtree(first)
    moved = tmp_path / "moved"
    second.rename(moved)
    check_serves(moved, repository)


def test_archive_is_reproducible(archive, tmp_path):
    again = make_archive(tmp_path)
    assert again.name == archive.name
    assert again.read_bytes() == archive.read_bytes()


def test_files_are_the_same_whatever_folder_they_are_built_in(archive, tmp_path):
    """Meson keeps room for the run path of the build in what it installs, so that one must be relative, too."""
    prefix = unpack(archive, tmp_path / "unpacked")
    programs = [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()
                and path.open("rb").read(4) == b"\x7fELF"]
    assert len(programs) >= 10
    for path in programs:
        content = path.read_bytes()
        assert str(ROOT).encode() not in content and str(BUILD).encode() not in content, path
    built = [path for path in BUILD.glob("*/*/*.so") if path.name in {program.name for program in programs}]
    text = run("readelf", "-dW", BUILD / "neso", BUILD / "libtritonserver.so", *built).decode()
    run_paths = [part for found in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", text) for part in found.split(":")]
    assert run_paths and all(re.match(r"\$ORIGIN|X*$", part) for part in run_paths), run_paths


def test_members(archive, tmp_path):
    plain = tmp_path / "plain.tar"
    run("zstd", "-q", "-d", archive, "-o", plain)
    with tarfile.open(plain) as tar:
        members = tar.getmembers()
    names = [member.name for member in members]
    top = names[0]
    assert archive.name.startswith(f"{top}-") and all(name.split("/")[0] == top for name in names)
    assert {(member.uid, member.gid, member.uname, member.gname, member.mtime)
            for member in members} == {(0, 0, "", "", EPOCH)}
    assert {oct(member.mode) for member in members if not member.issym()} <= {"0o755", "0o644"}
    wanted = ["bin/neso", "bin/tritonserver", "lib/libtritonserver.so", "include/triton/core/tritonserver.h",
              "lib/neso/backends/identity/libtriton_identity.so", "lib/neso/neso_scheduler_trial",
              "share/man/man1/neso-serve.1", "share/neso/proto/grpc_service.proto",
              "share/doc/neso/LICENSE", "share/doc/neso/copyright", "share/doc/neso/NEEDS"]
    assert [name for name in wanted if f"{top}/{name}" not in names] == []


def test_needs_are_what_the_loader_lacks(archive, tmp_path):
    prefix = unpack(archive, tmp_path / "unpacked")
    text = (prefix / "share" / "doc" / "neso" / "NEEDS").read_text("utf-8")
    listed = dict(line.split() for line in text.splitlines()[2:])
    assert {"libuv.so.1", "libssl.so.3", "libc.so.6", "libcurl.so.4"} <= set(listed)
    assert "libtritonserver.so" not in listed
    assert "-" not in listed.values(), "a library without a package"
    assert listed["libuv.so.1"].startswith("libuv1")


def test_a_program_builds_against_it(archive, tmp_path):
    prefix = unpack(archive, tmp_path / "unpacked")
    moved = tmp_path / "moved"
    prefix.rename(moved)
    environment = dict(os.environ, PKG_CONFIG_PATH=str(moved / "lib" / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "neso", env=environment).decode().split()
    source = tmp_path / "program.c"
    source.write_text('#include <stdio.h>\n#include <triton/core/tritonserver.h>\nint main(void) { uint32_t a, b; '
                      'TRITONSERVER_ApiVersion(&a, &b); printf("%u.%u", a, b); return 0; }\n')
    program = tmp_path / "program"
    run("cc", source, "-o", program, *flags, f"-Wl,-rpath,{moved / 'lib'}")
    printed = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout
    assert printed.split(".")[0] == "1", printed
