# SPDX-License-Identifier: BSD-3-Clause
"""What deploy/ says about the server is true: options, ports, endpoints; and its files fit each other."""
import json
import re
import shutil
import subprocess

import pytest
import requests
import yaml

from conftest import BUILD, ROOT, Server, require_build

KUBERNETES = ROOT / "deploy" / "kubernetes"
MANIFESTS = sorted(KUBERNETES.rglob("*.yaml"))
UNIT = ROOT / "packaging" / "debian" / "neso.service"


def load(path):
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def walk(value):
    """All objects within, itself too."""
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from walk(part)


def neso(*arguments):
    return subprocess.run([str(BUILD / "neso"), *arguments], capture_output=True, text=True, timeout=30,
                          check=False)


def containers():
    for path in MANIFESTS:
        for document in load(path):
            for part in walk(document):
                for container in part.get("containers", []):
                    if isinstance(container, dict) and "image" in container:
                        yield pytest.param(container, id=str(path.relative_to(KUBERNETES)))


def probe_paths():
    for path in MANIFESTS:
        for part in walk(load(path)):
            if "httpGet" in part:
                yield part["httpGet"]["path"]


def test_there_are_manifests():
    assert len(MANIFESTS) >= 10
    assert len(list(containers())) >= 2


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(KUBERNETES)))
def test_objects(path):
    for document in load(path):
        assert {"apiVersion", "kind"} <= set(document), path
        if document["kind"] != "Kustomization":
            assert re.fullmatch("[a-z][a-z0-9-]*", document["metadata"]["name"])


@pytest.mark.parametrize("path", KUBERNETES.rglob("kustomization.yaml"), ids=lambda path: path.parent.name)
def test_resources_exist(path):
    [document] = load(path)
    for name in document["resources"]:
        target = path.parent / name
        assert target.is_file() or (target / "kustomization.yaml").is_file(), name
    here = {part.name for part in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
    assert here <= set(document["resources"]), "a file that nothing applies"


@pytest.mark.parametrize("container", containers())
def test_the_server_takes_the_arguments(container, tmp_path):
    """An unknown option or a wrong value would be another error than that of the missing repository."""
    command, *options = container["args"]
    assert command == "serve"
    options = [option for option in options if not option.startswith("--model-repository")]
    ended = neso("serve", *options, f"--model-repository={tmp_path / 'none'}", "--exit-on-error=true")
    assert ended.returncode == 1
    assert f"{tmp_path / 'none'}" in ended.stdout + ended.stderr, ended.stderr


@pytest.mark.parametrize("container", containers())
def test_hooks(container):
    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[:3] == ["neso", "ctl", "drain"]
    if "--url" in hook:
        at = hook.index("--url")
        assert f"--http-port={hook[at + 1].rpartition(':')[2]}" in container["args"]
        hook = hook[:at] + hook[at + 2:]
    ended = neso(*hook[1:], "--url", "http://127.0.0.1:1")  # 3: the command line is right, and nobody answers
    assert ended.returncode == 3, ended.stderr


def test_kserve_serves_one_model(tmp_path):
    """What the storage initialiser leaves for an InferenceService of one ONNX file."""
    require_build(["onnxruntime"])
    [runtime] = load(KUBERNETES / "kserve" / "clusterservingruntime.yaml")
    [container] = runtime["spec"]["containers"]
    shutil.copy(ROOT / "examples" / "models" / "digits" / "1" / "model.onnx", tmp_path / "model.onnx")
    options = [option.replace("{{.Name}}", "my-digits") for option in container["args"][1:]
               if not option.startswith(("--model-repository", "--http-port", "--grpc-port"))]
    server = Server(tmp_path, options)
    assert requests.get(f"{server.url}/v2/models/my-digits/ready", timeout=30).status_code == 200
    assert server.stop() == 0


@pytest.mark.parametrize("container", containers())
def test_images(container):
    """Those that `make image` makes; a bare name gets its tag from the kustomization."""
    made = set(re.findall(r"^write_image \S+ \S+ (\S+) ", (ROOT / "tools" / "make_image.sh").read_text("utf-8"), re.M))
    assert made == {"neso:latest", "neso:latest-python"}
    [kustomization] = load(KUBERNETES / "base" / "kustomization.yaml")
    tags = {row["name"]: f"{row['newName']}:{row['newTag']}" for row in kustomization["images"]}
    assert tags.get(container["image"], container["image"]) in made


def test_probes():
    endpoints = {row["path"] for row in json.loads(neso("endpoints", "--json").stdout)}
    paths = set(probe_paths())
    assert paths and paths <= endpoints


def test_grace_periods():
    """The hook and the exit timeout end within what Kubernetes gives."""
    [deployment] = load(KUBERNETES / "base" / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    wait = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    [timeout] = [int(option.partition("=")[2]) for option in container["args"]
                 if option.startswith("--exit-timeout-secs")]
    [delay] = [int(option.partition("=")[2]) for option in container["args"] if option.startswith("--drain-delay")]
    assert delay < wait and wait + timeout < pod["terminationGracePeriodSeconds"]


def test_unit():
    """The options of the package's service, and what systemd itself says of the unit."""
    [options] = re.findall(r'^NESO_OPTIONS="(.*)"$', (UNIT.parent / "neso.default").read_text("utf-8"), re.M)
    ended = neso("serve", *[option for option in options.split() if not option.startswith("--model-repository")],
                 "--model-repository=/nonexistent", "--exit-on-error=true")
    assert ended.returncode == 1 and "/nonexistent" in ended.stdout + ended.stderr, ended.stderr
    text = UNIT.read_text("utf-8")
    assert "Type=notify" in text and re.search(r"^WatchdogSec=\d+$", text, re.M)
