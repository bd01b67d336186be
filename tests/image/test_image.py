# SPDX-License-Identifier: BSD-3-Clause
"""`make image-check`: the images that `make image` wrote twice, in build/image and build/image-again.

Both are compared, read, and run with a read-only root file system as the user of the image."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from container import Container, own_network
from image_archive import NAMES, ROOT, Image

sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import requests  # noqa: E402
from conftest import write_repository  # noqa: E402
from grpc_stubs import Client, open_channel, stubs  # noqa: E402,F401

BASE_BYTES = 60_000_000
PYTHON_BYTES = 135_000_000  # Debian 13's NumPy is the larger one
READY_SECONDS = 30
TENSOR = "data_type: TYPE_INT32 dims: [-1]"
IO = f'input {{ name: "IN" {TENSOR} }} output {{ name: "OUT" {TENSOR} }}\n'
TWICE = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.add(
            pb_utils.get_input_tensor_by_name(request, "IN").as_numpy(), 1) * 2)]) for request in requests]
'''


@pytest.fixture(scope="session", autouse=True)
def network():
    if os.geteuid() != 0:
        pytest.exit("tests/image needs root, for mounts and namespaces", 1)
    own_network()


@pytest.fixture(scope="session", params=NAMES)
def image(request):
    return Image(request.param)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """{name of the image: its files}"""
    return {name: Image(name).unpack(tmp_path_factory.mktemp(name) / "root") for name in NAMES}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_repository(folder, {"same": 'backend: "identity"\n' + IO,
                              "twice": {"config.pbtxt": 'backend: "python"\n' + IO, "1/model.py": TWICE}})
    shutil.copytree(ROOT / "examples" / "models" / "digits", folder / "digits")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


# ---- what the archives are ------------------------------------------------------------------------------------------

def test_two_builds_are_equal(image):
    again = Image(image.name, "image-again")
    assert image.digests() == again.digests()
    assert image.config_bytes == again.config_bytes
    assert image.path.read_bytes() == again.path.read_bytes()
    assert image.sbom_path.read_bytes() == again.sbom_path.read_bytes()


def test_digests_are_those_of_the_layers(image):
    assert image.config["rootfs"]["diff_ids"] == image.digests()
    assert len(image.layers) == (2 if image.name == "neso-python" else 1)


def test_tags():
    assert {name: Image(name).tag for name in NAMES} == {"neso": "neso:latest", "neso-python": "neso:latest-python"}


def test_python_is_a_layer_above():
    assert Image("neso-python").digests()[0] == Image("neso").digests()[0]


def test_configuration(image):
    config = image.config["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["neso"]
    assert config["Cmd"] == ["serve", "--model-repository=/models"]
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["ExposedPorts"]) == {"8000/tcp", "8001/tcp", "8002/tcp"}
    assert config["Healthcheck"]["Test"] == ["CMD", "neso", "ctl", "ready"]
    assert config["Labels"]["org.opencontainers.image.version"].startswith("0.")
    assert image.config["os"] == "linux"


def test_size(image):
    n_bytes = image.n_bytes()
    print(f"\n{image.tag}: {n_bytes / 1e6:.1f} MB in {len(image.members())} files")
    assert n_bytes <= (PYTHON_BYTES if image.name == "neso-python" else BASE_BYTES)


def test_owners_and_modes(image):
    members = image.members()
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert len({member.mtime for member in members.values()}) == 1
    writable = {path for path, member in members.items() if not member.issym() and member.mode & 0o022}
    assert writable == {"tmp"} and members["tmp"].mode & 0o1777 == 0o1777
    special = {path for path, member in members.items() if member.mode & 0o6000 or member.isdev()}
    assert special == set()


def test_no_shell_and_no_package_manager(image):
    programs = {path.rpartition("/")[2] for path in image.members() if re.match("usr/(local/)?s?bin/.", path)}
    python = {name for name in programs if re.fullmatch(r"python3(\.\d+)?", name)}
    assert programs == {"neso", "tritonserver"} | python
    assert len(python) == (2 if image.name == "neso-python" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_library_is_inside(name, folders):
    """What an ELF file names is a file of the image."""
    root = folders[name]
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    programs = [path for path in files if path.open("rb").read(4) == b"\x7fELF"]
    there = {path.name for path in root.rglob("*.so*")}
    text = subprocess.run(["readelf", "-dW", *programs], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    assert "libc.so.6" in needed and len(programs) > 20
    assert needed - there == set()


@pytest.mark.parametrize("name", NAMES)
def test_links_end_inside(name, folders):
    root = folders[name]
    links = [path for path in root.rglob("*") if path.is_symlink()]
    missing = [path for path in links if not os.path.lexists(
        str(root) + os.readlink(path) if os.readlink(path).startswith("/") else path.parent / os.readlink(path))]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_licences(name, folders):
    """Of every package and of Neso with what is built into it; texts that they refer to are there."""
    root = folders[name]
    packages = sorted(path.name for path in (root / "var/lib/dpkg/status.d").iterdir())
    assert {"libc6", "libuv1", "ca-certificates"} <= {package.removesuffix("t64") for package in packages}
    for package in packages:
        assert len((root / "usr/share/doc" / package / "copyright").read_bytes()) > 200, package
    own = (root / "usr/local/share/doc/neso/copyright").read_text("utf-8")
    assert "Leon Sorokin" in own and "Fedor Indutny" in own and "Microsoft" in own
    for text in ("GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0"):
        assert (root / "usr/share/common-licenses" / text).exists()


@pytest.mark.parametrize("name", NAMES)
def test_authorities(name, folders):
    text = (folders[name] / "etc/ssl/certs/ca-certificates.crt").read_text("ascii")
    assert text.count("BEGIN CERTIFICATE") == text.count("END CERTIFICATE") > 100


# ---- the images at work ---------------------------------------------------------------------------------------------

def infer(model, values, name="IN", datatype="INT32"):
    answer = requests.post(f"http://127.0.0.1:8000/v2/models/{model}/infer", timeout=20, json={"inputs": [
        {"name": name, "shape": [len(values)], "datatype": datatype, "data": values}]})
    return answer.status_code, answer.json()


def start(name, folders, models, options=(), user=None):
    """A container that is ready."""
    container = Container(Image(name), folders[name], models, options, user)
    try:
        seconds = container.wait_until_ready(READY_SECONDS)
    except BaseException:
        container.process.kill()
        raise
    print(f"\n{name}: ready {seconds * 1000:.0f} ms after the start of its container")
    return container


@pytest.fixture(scope="class")
def container(folders, models):
    """The image without Python: its model in Python fails, and the others serve."""
    running = start("neso", folders, models, ["--strict-readiness=false", "--exit-on-error=false"])
    yield running
    code = running.stop()
    assert code == 0, running.log()


class TestServer:
    """All with one container, which ends after them."""

    def test_isolation(self, container):
        status = container.status()
        assert status["Uid"].split() == ["65532"] * 4 and status["Gid"].split() == ["65532"] * 4
        assert status["CapEff"].strip("0") == "" and status["CapPrm"].strip("0") == ""
        assert status["NSpid"].split()[-1] == "1"
        mounts = container.mounts()
        assert "ro" in mounts["/"] and "ro" in mounts["/models"]

    def test_http(self, container):
        assert infer("same", [1, -2, 3]) == (200, {"model_name": "same", "model_version": "1", "outputs": [
            {"name": "OUT", "datatype": "INT32", "shape": [3], "data": [1, -2, 3]}]})
        answer = requests.post("http://127.0.0.1:8000/v2/models/digits/infer", timeout=20, json={"inputs": [
            {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0] * 64}]})
        assert answer.status_code == 200, answer.text
        [output] = answer.json()["outputs"]
        assert output["shape"] == [1, 10] and abs(sum(output["data"]) - 1) < 1e-4

    def test_grpc(self, container, stubs):  # noqa: F811
        with open_channel(container) as channel:
            client = Client(channel, stubs)
            answer = client.infer("same", [("IN", "INT32", [2], {"int_contents": [7, -8]})])
            assert answer.outputs[0].shape == [2]
            assert answer.raw_output_contents[0] == (7).to_bytes(4, "little") + (-8).to_bytes(4, "little", signed=True)

    def test_metrics(self, container):
        text = requests.get("http://127.0.0.1:8002/metrics", timeout=20).text
        assert re.search(r'^nv_inference_request_success\{.*model="same"', text, re.M)

    def test_healthcheck(self, container):
        command = Image("neso").config["config"]["Healthcheck"]["Test"]
        assert command[0] == "CMD"
        ended = container.run(*command[1:])
        assert ended.returncode == 0, (ended.stdout, ended.stderr)

    def test_healthcheck_fails_without_a_server(self, container):
        ended = container.run("neso", "ctl", "ready", "--url", "http://127.0.0.1:1")
        assert ended.returncode == 3

    def test_other_commands(self, container):
        """The entrypoint is the program: a container runs its other commands, too."""
        assert container.run("neso", "version").stdout.startswith("neso ")
        assert container.run("neso", "check", "/models/digits").returncode == 0
        ended = container.run("neso", "ctl", "index", "--json")
        assert ended.returncode == 0, ended.stderr
        assert {row["name"]: row["state"] for row in json.loads(ended.stdout)}["digits"] == "READY"

    def test_python_is_missing_in_plain_words(self, container):
        rows = requests.post("http://127.0.0.1:8000/v2/repository/index", timeout=20).json()
        [reason] = [row["reason"] for row in rows if row["name"] == "twice"]
        assert "the Python interpreter 'python3' is not found" in reason


def test_python_model(folders, models):
    """As the user of deploy/kubernetes, which is another than that of the image."""
    container = start("neso-python", folders, models, user="10001:10001")
    try:
        assert container.status()["Uid"].split() == ["10001"] * 4
        status, answer = infer("twice", [1, -2, 300])
        assert status == 200, (answer, container.log())
        assert answer["outputs"][0]["data"] == [4, -2, 602]
        status, answer = infer("same", [5])
        assert (status, answer["outputs"][0]["data"]) == (200, [5])
        assert "ro" in container.mounts()["/"]
    finally:
        code = container.stop()
    assert code == 0, container.log()


def test_buildah_reads_and_runs_it(tmp_path):
    """The archive as other tools see it, with a process of theirs in it."""
    def buildah(*words):
        ended = subprocess.run(["buildah", "--root", str(tmp_path / "storage"), "--runroot", str(tmp_path / "run"),
                                "--storage-driver", "vfs", *words], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout.strip()

    # The usual limits of a container are above what this machine may permit.
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    name = buildah("from", "--pull-never", *limits, f"docker-archive:{Image('neso').path}")
    try:
        assert buildah("run", "--isolation", "chroot", name, "--", "neso", "version").startswith("neso ")
    finally:
        buildah("rm", name)
