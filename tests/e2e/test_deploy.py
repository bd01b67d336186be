# SPDX-License-Identifier: BSD-3-Clause
"""What deploy/ says about the server is true: options, ports, endpoints; and its files fit each other."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
import requests
import yaml

from conftest import BUILD, ROOT, Server, require_build, write_repository

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


def test_selectors():
    """Of the objects to which kustomize gives none: an empty one is for every pod of the namespace, or for no pod.
    `make kubernetes` checks the rendered objects."""
    documents = [(path, document) for path in MANIFESTS for document in load(path)]
    found = {}
    for path, document in documents:
        spec = document.get("spec", {})
        if document["kind"] == "PodDisruptionBudget":
            found["budget"] = spec.get("selector", {}).get("matchLabels")
        elif document["kind"] == "NetworkPolicy":
            found["network"] = spec["podSelector"].get("matchLabels")
        elif document["kind"] == "Service" and path.parent.name != "base":
            found["headless"] = spec.get("selector")
    [label] = [one["pairs"] for one in documents_of("base", "Kustomization")[0]["labels"]]
    assert found == {"budget": label, "network": label, "headless": label}


def documents_of(folder, kind):
    return [document for path in (KUBERNETES / folder).glob("*.yaml") for document in load(path)
            if document["kind"] == kind]


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


# ---- balancers ----------------------------------------------------------------------------------

HAPROXY = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text("utf-8")
NGINX = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text("utf-8")
ENVOY = ROOT / "deploy" / "envoy" / "envoy.yaml"
SERVERS = ["192.0.2.11", "192.0.2.12", "192.0.2.13"]


def directives(text):
    return [line.split("#")[0].strip() for line in text.splitlines() if line.split("#")[0].strip()]


def grpc_methods():
    found = set()
    for path in (ROOT / "proto").glob("*.proto"):
        found |= set(re.findall(r"^\s*rpc (\w+)\s*\(", path.read_text("utf-8"), re.M))
    return found


def test_haproxy_asks_what_there_is():
    endpoints = {row["path"] for row in json.loads(neso("endpoints", "--json").stdout)}
    assert set(re.findall(r"^ *option httpchk GET (\S+)$", HAPROXY, re.M)) == {"/v2/health/ready"} <= endpoints
    [reads] = re.findall(r"^ *acl reads path_end (.*)$", HAPROXY, re.M)
    names = {path.rpartition("/")[2] for path in reads.split()}
    assert names and names <= grpc_methods()
    assert not {name for name in names if "Infer" in name or "Repository" in name or "Shared" in name}


def test_haproxy_has_the_servers_in_each_backend():
    backends = re.split(r"^(?=backend |frontend )", HAPROXY, flags=re.M)
    kinds = {part.split()[1]: re.findall(r"^ +server (neso\d) (\S+):(\d+)", part, re.M) for part in backends
             if part.startswith("backend") and not part.startswith("backend sequences\n")}
    assert set(kinds) == {f"{way}_{what}" for way in ("http", "grpc") for what in ("servers", "sequences")}
    for name, rows in kinds.items():
        port = "8000" if name.startswith("http") else "8001"
        assert rows == [(f"neso{at}", address, port) for at, address in enumerate(SERVERS, 1)], name


def test_retries_are_of_requests_that_no_server_began():
    """`make balancers` sees what happens; these are the lines that it must not lose."""
    frontends = [part for part in re.split(r"^(?=backend |frontend )", HAPROXY, flags=re.M)
                 if part.startswith(("frontend http", "frontend grpc"))]
    assert len(frontends) == 2
    assert all("http-request disable-l7-retry unless" in part for part in frontends)
    assert "retry-on conn-failure empty-response" in directives(HAPROXY)
    assert not [line for line in directives(NGINX) if "next_upstream " in line and not line.endswith(" error timeout;")]


def test_nginx_upstreams():
    found = {name: re.findall(r"^ +server (\S+):(\d+)", body, re.M)
             for name, body in re.findall(r"^    upstream (\w+) \{\n(.*?)^    \}", NGINX, re.M | re.S)}
    expected = {}
    for way, port in (("http", "8000"), ("grpc", "8001")):
        lists = {"all": SERVERS}
        for number, address in enumerate(SERVERS, 1):
            others = [one for one in SERVERS if one != address]
            lists[f"without{number}"], lists[f"only{number}"] = others, [address, *others]
        expected.update({f"{way}_{name}": [(one, port) for one in servers] for name, servers in lists.items()})
    assert found == expected


def test_envoy_refers_to_what_it_has():
    [document] = load(ENVOY)
    resources = document["static_resources"]
    clusters = {one["name"]: one for one in resources["clusters"]}
    assert {part["cluster"] for part in walk(document) if "cluster" in part} == set(clusters)
    for name, cluster in clusters.items():
        assert cluster["load_assignment"]["cluster_name"] == name
        addresses = [part["socket_address"]["address"] for part in walk(cluster) if "socket_address" in part]
        assert addresses == SERVERS
        assert (cluster["lb_policy"] == "RING_HASH") == name.endswith("_sequences")
    endpoints = {row["path"] for row in json.loads(neso("endpoints", "--json").stdout)}
    assert {part["http_health_check"]["path"] for part in walk(document) if "http_health_check" in part} <= endpoints


# ---- Slurm --------------------------------------------------------------------------------------

SBATCH = ROOT / "deploy" / "slurm" / "neso.sbatch"
SRUN = """#!/bin/bash
# The options of srun end at the first word without dashes.
while [[ $1 == --* ]]; do [[ $1 == --output=* ]] && exec >"${1#--output=}" 2>&1; shift; done
echo $$ >>"$STEPS"
exec "$@"
"""
SCANCEL = """#!/bin/bash
[[ $1 == --signal=* && $2 == "$SLURM_JOB_ID" && $# == 2 ]] && kill -s "${1#--signal=}" $(cat "$STEPS")
"""


@pytest.fixture
def job(tmp_path):
    """The batch script with stand-ins for the programs of Slurm. `make slurm` has the real ones."""
    require_build(("identity",))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("srun", SRUN), ("scancel", SCANCEL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    write_repository(tmp_path / "models", {"m": 'backend: "identity"\n'
                                                'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }\n'
                                                'output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n'})
    (tmp_path / "steps").touch()

    def start(**variables):
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}", "STEPS": str(tmp_path / "steps"), "SLURM_JOB_ID": "17",
            "SLURM_NTASKS": "2", "SLURMD_NODENAME": "127.0.0.1", "NESO": str(BUILD / "neso"),
            "NESO_FOLDER": str(tmp_path / "job"), "NESO_MODELS": str(tmp_path / "models"), "NESO_DRAIN_SECONDS": "0",
            "NESO_OPTIONS": f"--backend-directory={BUILD / 'backends'} --drain-delay=0", **variables}
        return subprocess.Popen(["/bin/bash", str(SBATCH)], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return start


def test_batch_script(job, tmp_path):
    """Two servers on ports of their own; SIGTERM drains them and stops them, and their ports are gone."""
    script = job()
    line = ""
    while "servers are ready" not in line:
        line = script.stdout.readline()
        assert line, (tmp_path / "job" / "neso1.log").read_text()
    rows = [line.split() for line in (tmp_path / "job" / "servers").read_text("ascii").splitlines()]
    assert [row[:2] for row in rows] == [["neso1", "127.0.0.1"], ["neso2", "127.0.0.1"]]
    ports = [dict(word.split("=") for word in row[2:]) for row in rows]
    assert [set(one) for one in ports] == [{"http", "grpc", "metrics"}] * 2
    assert len({port for one in ports for port in one.values()}) == 6
    for one in ports:
        assert neso("ctl", "ready", "--url", f"http://127.0.0.1:{one['http']}").returncode == 0
    script.send_signal(signal.SIGTERM)
    rest, _ = script.communicate(timeout=60)
    assert script.returncode == 0, rest
    assert rest.splitlines()[-1].endswith("has ended")
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == [
        "neso1.host", "neso1.log", "neso2.host", "neso2.log"]
    for number in (1, 2):
        log = (tmp_path / "job" / f"neso{number}.log").read_text("utf-8")
        assert "Draining: the server is not ready" in log


def test_batch_script_without_models(job, tmp_path):
    script = job(NESO_MODELS=str(tmp_path / "none"), NESO_OPTIONS="--exit-on-error=true")
    text, _ = script.communicate(timeout=60)
    assert script.returncode == 1
    assert f"neso1 ended: see {tmp_path}/job/neso1.log" in text


def test_batch_script_names_what_is_not_set(job):
    script = job(NESO_MODELS="")
    text, _ = script.communicate(timeout=60)
    assert script.returncode != 0
    assert "NESO_MODELS: is not set: the path of the model repository" in text
