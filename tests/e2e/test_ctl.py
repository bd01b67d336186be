# SPDX-License-Identifier: BSD-3-Clause
"""`neso ctl` against real servers: what it prints, and its exit codes."""
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest
import requests

from certificates import Authority
from conftest import BUILD, Server, patience, require_build, write_repository

BACKENDS = ("identity", "testing")
OPTIONS = ("--model-control-mode=explicit", "--load-model=batched", "--load-model=typed",
           "--load-model=half", "--strict-readiness=false")
DONE, REFUSED, USAGE, UNREACHABLE = range(4)

SECONDS = patience(30)


def tensor(role, name, datatype, dims):
    return f"{role} {{ name: \"{name}\" data_type: {datatype} dims: {dims} }}\n"


def identity(tensors, more=""):
    """Every tensor is an input and, as it came, an output."""
    return 'backend: "identity"\n' + more + "".join(
        tensor(role, name, datatype, dims) for name, datatype, dims in tensors
        for role in ("input", "output"))


TYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP32",
         "FP64", "STRING"]
MODELS = {
    "batched": identity([("A", "TYPE_FP32", [2])], "max_batch_size: 4\n"),
    "typed": identity([(name, f"TYPE_{name}", [-1]) for name in TYPES]),
    "half": identity([("F", "TYPE_FP16", [-1]), ("B", "TYPE_BF16", [-1]),
                      ("I", "TYPE_INT32", [-1])]),
    "spare": identity([("A", "TYPE_INT32", [3])]),
    "unlucky": 'backend: "testing"\n' + tensor("input", "A", "TYPE_FP32", [1])
               + tensor("output", "A", "TYPE_FP32", [1])
               + 'parameters { key: "fail_load" value { string_value: "no luck" } }\n',
}


def ctl_of(url, *arguments, environment=None):
    ended = subprocess.run([BUILD / "neso", "ctl", *map(str, arguments), f"--url={url}"],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                           check=False, env={**os.environ, **(environment or {})})
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.fixture
def ctl(server):
    return lambda *arguments: ctl_of(server.url, *arguments)


def table(text):
    """Rows by the columns of the first line, which are two blanks or more apart."""
    lines = text.splitlines()
    heads = list(re.finditer(r"\S+( \S+)*", lines[0]))
    return [[cell for cell in re.split(r"  +", line.strip())] for line in lines], \
        [head.group() for head in heads]


# ---- which models --------------------------------------------------------------------------------


def test_index(ctl):
    code, out, err = ctl("index")
    assert (code, err) == (DONE, "")
    rows, heads = table(out)
    assert heads[:3] == ["MODEL", "VERSION", "STATE"]
    assert [row[:3] for row in rows[1:4]] == [
        ["batched", "1", "READY"], ["half", "1", "READY"], ["spare"]]
    code, out, err = ctl("index", "--json")
    assert (code, err) == (DONE, "")
    listed = {model["name"]: model for model in json.loads(out)}
    assert listed["batched"] == {"name": "batched", "version": "1", "state": "READY"}
    assert set(listed) == set(MODELS)


def test_index_of_what_is_ready(ctl):
    assert ctl("ready", "spare")[0] == REFUSED
    code, out, err = ctl("index", "--ready")
    assert (code, err) == (DONE, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["batched", "half", "typed"]
    assert {m["state"] for m in json.loads(ctl("index", "--ready", "--json")[1])} == {"READY"}


class Listener(http.server.BaseHTTPRequestHandler):
    """Says yes, and keeps what it was asked."""
    asked = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, json.loads(body)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_unload_with_dependents(ctl):
    assert ctl("load", "spare")[0] == DONE
    assert ctl("unload", "spare", "--dependents") == (DONE, "spare: unloaded\n", "")
    assert ctl("ready", "spare")[0] == REFUSED
    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}"
        assert ctl_of(url, "unload", "a", "--dependents")[0] == DONE
        assert ctl_of(url, "unload", "a")[0] == DONE
        listener.shutdown()
    assert [asked for asked in Listener.asked if asked[0] != "/v2/repository/index"] == [
        ("/v2/repository/models/a/unload", {"parameters": {"unload_dependents": True}}),
        ("/v2/repository/models/a/unload", {})]


def test_unload_of_what_is_not_loaded(ctl):
    """The server says yes to both."""
    assert ctl("load", "spare")[0] == DONE
    assert ctl("unload", "spare") == (DONE, "spare: unloaded\n", "")
    while "UNLOADING" in ctl("index")[1]:  # its end may come after the answer
        pass
    assert ctl("unload", "spare") == (DONE, "spare: was not loaded\n", "")
    for more in ([], ["--json"], ["--dependents"]):
        assert ctl("unload", "nobody", *more) == (
            REFUSED, "", "neso ctl: the server has no model 'nobody'\n")


def test_load_and_unload(ctl):
    assert ctl("ready", "spare")[0] == REFUSED
    assert ctl("load", "spare") == (DONE, "spare: loaded\n", "")
    assert ctl("ready", "spare") == (DONE, "spare: ready\n", "")
    assert "spare" in ctl("index")[1]
    assert ctl("unload", "spare", "--json") == (DONE, "{}\n", "")
    assert ctl("ready", "spare") == (
        REFUSED, "spare: not ready (Model version not ready)\n", "")
    code, out, _ = ctl("index")
    row = next(line for line in out.splitlines() if line.startswith("spare"))
    assert code == DONE and row.split() == ["spare", "1", "UNAVAILABLE", "unloaded"]


def test_load_that_fails(ctl):
    code, out, err = ctl("load", "unlucky")
    assert (code, out) == (REFUSED, "")
    assert err.startswith("neso ctl: load failed for model 'unlucky': version 1 is at UNAVAILABLE "
                          "state: ") and "no luck" in err
    assert err.endswith("\n") and not err.endswith("\n\n")
    row = next(line for line in ctl("index")[1].splitlines() if line.startswith("unlucky"))
    assert "no luck" in row
    assert ctl("load", "nobody") == (
        REFUSED, "", "neso ctl: failed to load 'nobody', failed to poll from model repository\n")


def test_load_in_another_mode(tmp_path):
    """The server's text is Triton's, and speaks of polling without any."""
    write_repository(tmp_path, {"spare": MODELS["spare"]})
    running = Server(tmp_path)
    refusal = (REFUSED, "", "neso ctl: explicit model load / unload is not allowed if polling is "
                            "enabled: the server needs --model-control-mode=explicit\n")
    assert ctl_of(running.url, "load", "spare") == refusal
    assert ctl_of(running.url, "unload", "spare") == refusal
    assert running.stop() == 0


def test_load_with_configuration_and_file(ctl, server, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({
        "backend": "identity", "max_batch_size": 2,
        "input": [{"name": "X", "data_type": "TYPE_INT8", "dims": [1]}],
        "output": [{"name": "X", "data_type": "TYPE_INT8", "dims": [1]}]}))
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 100)
    code, out, err = ctl("load", "sent", f"--config={tmp_path}/config.json",
                         f"--file=3/model.bin={tmp_path}/bytes")
    assert (code, out, err) == (DONE, "sent: loaded\n", "")
    code, out, err = ctl("config", "sent")
    assert (code, err) == (DONE, "") and json.loads(out)["max_batch_size"] == 2
    assert json.loads(ctl("config", "sent", "--json")[1]) == json.loads(out)
    assert ctl("ready", "sent", "--version=3")[0] == DONE
    assert ctl("ready", "sent", "--version=1")[0] == REFUSED
    assert ctl("unload", "sent")[0] == DONE
    code, _, err = ctl("load", "sent", f"--config={tmp_path}/config.json", "--file=3/model.bin")
    assert code == USAGE and "--file expects <version>/<name>=<path>, got '3/model.bin'" in err
    code, _, err = ctl("load", "sent", f"--config={tmp_path}/nowhere")
    assert code == USAGE and "nowhere" in err


def test_names_are_escaped(ctl):
    """What would end the path, or part it; the server takes names as they are written."""
    for name, shown in (("a/b c?#", "a%2Fb%20c%3F%23"), ("%41", "%41"), ("..", "..")):
        code, _, err = ctl("metadata", name)
        assert code == REFUSED, name
        assert err == f"neso ctl: Request for unknown model: '{shown}' is not found\n"


def test_ready_of_the_server(ctl):
    assert ctl("ready") == (DONE, "server: ready\n", "")
    assert ctl("ready", "--json") == (DONE, '{"ready":true}\n', "")
    assert ctl("ready", "nobody", "--json") == (REFUSED, '{"ready":false}\n', "")


def test_ready_waits_no_longer_than_it_is_told():
    """Also when a server takes the connection and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        code, out, err = ctl_of(f"http://127.0.0.1:{mute.getsockname()[1]}", "ready", "--wait", "1")
        assert (code, out) == (UNREACHABLE, "") and "no answer from" in err
        assert time.monotonic() - began < patience(10)


# ---- what they are -------------------------------------------------------------------------------


def test_metadata(ctl, server):
    assert ctl("metadata", "batched") == (DONE, """\
name      batched
platform  identity
versions  1

        NAME  TYPE  SHAPE
input   A     FP32  [-1,2]
output  A     FP32  [-1,2]
""", "")
    said = requests.get(server.url + "/v2/models/batched", timeout=SECONDS).text
    assert ctl("metadata", "batched", "--json", "--version=1") == (DONE, said + "\n", "")
    code, out, _ = ctl("metadata")
    assert code == DONE and re.search(r"^name +triton$", out, re.M)
    assert re.search(r"^extensions +classification, sequence, ", out, re.M)
    code, out, err = ctl("metadata", "nobody")
    assert (code, out) == (REFUSED, "")
    assert err == "neso ctl: Request for unknown model: 'nobody' is not found\n"


# ---- inference -----------------------------------------------------------------------------------


def test_infer_given_values(ctl):
    assert ctl("infer", "batched", "--input=A=[[1,2],[3,4.5],[5,6]]") == (
        DONE, "OUTPUT  TYPE  SHAPE  VALUES\n"
              "A       FP32  [3,2]  [1.0, 2.0, 3.0, 4.5, 5.0, 6.0]\n", "")
    flat = ctl("infer", "batched", "--input", "A=[1,2,3,4]", "--json")
    assert flat[0] == DONE
    assert json.loads(flat[1])["outputs"] == [
        {"name": "A", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}]


def test_infer_from_a_file(ctl, tmp_path):
    (tmp_path / "a.json").write_text("[[7, 8]]\n")
    code, out, _ = ctl("infer", "batched", f"--input=A=@{tmp_path}/a.json")
    assert code == DONE and "[7.0, 8.0]" in out
    code, _, err = ctl("infer", "batched", "--input=A=@/nowhere")
    assert code == USAGE and "/nowhere" in err


@pytest.mark.parametrize("values, text", [
    ("[1,2,3]", "3 values do not fill the shape [-1,2]"),
    ("5", "1 value does not fill the shape [-1,2]"),
])
def test_infer_too_few_values(ctl, values, text):
    assert ctl("infer", "batched", f"--input=A={values}") == (
        USAGE, "", f"neso ctl: input 'A': {text}\n")


def test_infer_zeros_and_cuts(ctl):
    code, out, _ = ctl("infer", "batched", "--zeros", "--shape=A=4,2", "--values=3")
    assert code == DONE
    assert out.splitlines()[1] == "A       FP32  [4,2]  [0.0, 0.0, 0.0, ...] of 8"
    assert "..." not in ctl("infer", "batched", "--zeros", "--shape=A=4,2", "--values=8")[1]
    code, out, _ = ctl("infer", "batched", "--zeros")
    assert code == DONE and "[1,2]" in out


@pytest.mark.parametrize("way", ["--zeros", "--random"])
def test_infer_every_type(ctl, way):
    code, out, err = ctl("infer", "typed", way, "--json",
                         *(f"--shape={name}=50" for name in TYPES))
    assert (code, err) == (DONE, "")
    outputs = {o["name"]: o for o in json.loads(out)["outputs"]}
    assert list(outputs) == TYPES
    for name, o in outputs.items():
        assert o["shape"] == [50] and len(o["data"]) == 50
        if way == "--zeros":
            assert set(map(str, o["data"])) <= {"0", "0.0", "False", ""}, name
        else:
            assert len(set(map(str, o["data"]))) > 1, name


def test_infer_half_floats(ctl):
    code, out, err = ctl("infer", "half", "--input=F=[0.5,-2]", "--input=B=[1.5]",
                         "--input=I=[7]")
    assert (code, err) == (DONE, "")
    assert [row.split(None, 3) for row in out.splitlines()[1:]] == [
        ["F", "FP16", "[2]", "[0.5, -2.0]"], ["B", "BF16", "[1]", "[1.5]"],
        ["I", "INT32", "[1]", "[7]"]]
    code, out, err = ctl("infer", "half", "--random", "--shape=F=20", "--json")
    assert (code, err) == (DONE, "")
    answer = json.loads(out)
    assert answer["model_name"] == "half"
    assert [len(o["data"]) for o in answer["outputs"]] == [20, 1, 1]
    assert all(0 <= value < 1 for value in answer["outputs"][0]["data"])


class Sloppy(http.server.BaseHTTPRequestHandler):
    """A model of FP16 whose answers lack what they should have."""
    protocol_version = "HTTP/1.1"
    datatype = "FP16"

    def put(self, value, more=b""):
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Inference-Header-Content-Length", str(len(text)))
        self.send_header("Content-Length", str(len(text + more)))
        self.end_headers()
        self.wfile.write(text + more)

    def do_GET(self):  # pylint: disable=invalid-name
        tensor_json = {"name": "A", "datatype": "FP16", "shape": [1]}
        self.put({"name": "m", "inputs": [tensor_json], "outputs": [tensor_json]})

    def do_POST(self):  # pylint: disable=invalid-name
        self.put({"outputs": [{"name": "A", "datatype": self.datatype, "parameters": {"binary_data_size": 2}}]},
                 b"\0\x3c")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def test_infer_answers_that_lack_something(monkeypatch):
    """What is printed is JSON; bytes of another type than was asked for are not taken for numbers."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sloppy) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, out, _ = ctl_of(url, "infer", "m", "--zeros", "--json")
        assert code == DONE
        assert json.loads(out)["outputs"] == [{"name": "A", "datatype": "FP16", "shape": None, "data": [1]}]
        monkeypatch.setattr(Sloppy, "datatype", "FP32")
        code, out, err = ctl_of(url, "infer", "m", "--zeros")
        assert (code, out) == (REFUSED, "")
        assert err == "neso ctl: the server's answer has no values of the output 'A'\n"
        server.shutdown()


def test_infer_seed(ctl):
    first = ctl("infer", "batched", "--random", "--json")
    assert ctl("infer", "batched", "--random", "--json", "--seed=1") == first
    assert ctl("infer", "batched", "--random", "--json", "--seed=2") != first


def test_infer_refused(ctl):
    code, out, err = ctl("infer", "batched", "--zeros", "--shape=A=9,2")
    assert (code, out) == (REFUSED, "")
    assert "inference request batch-size must be <= 4 for 'batched'" in err
    assert ctl("infer", "nobody", "--zeros") == (
        REFUSED, "", "neso ctl: Request for unknown model: 'nobody' is not found\n")


@pytest.mark.parametrize("arguments,text", [
    (["infer", "batched"], "which values? --zeros, --random, or --input 'A=[...]'"),
    (["infer", "batched", "--input=B=1"], "--input: the model has no input 'B'"),
    (["infer", "batched", "--shape=B=1", "--zeros"], "--shape: the model has no input 'B'"),
    (["infer", "batched", "--input=A"], "--input expects NAME=..., got 'A'"),
    (["infer", "batched", "--input=A=[1,"], "input 'A': '[1,' is not JSON: "),
    (["infer", "batched", "--shape=A=1,2", "--input=A=[1,"], "input 'A': '[1,' is not JSON: "),
    (["infer", "batched", "--input=A=[1,2]", "--input=A=[3,4]"], "--input: 'A' is given twice"),
    (["infer", "batched", "--zeros", "--shape=A=1,2", "--shape=A=2,2"], "--shape: 'A' is given twice"),
    (["infer", "batched", "--zeros", "--shape=A=x"], "input 'A': 'x' is not a shape such as 1,2,3"),
    (["infer", "batched", "--zeros", "--shape=A=99999999,99999999"],
     "input 'A': a shape has more than 268435456 elements"),
    (["infer", "batched", "--zeros", "--random"], "--zeros or --random: not both"),
    (["infer"], "which model? neso ctl infer MODEL"),
    (["unload", ""], "which model? neso ctl unload MODEL"),
    (["index", "a"], "'a' is too much for index"),
    (["load", "a", "b"], "'b' is too much for load"),
    (["index", "--zeros"], "index takes no option --zeros"),
    (["unload", "a", "--ready"], "unload takes no option --ready"),
    (["load", "a", "--file=1/x=y"], "--file needs --config: what is sent takes the place of the "
                                    "whole directory"),
    (["stats", "--version=1"], "--version: of which model?"),
    (["indx"], "unknown command 'indx'; did you mean 'index'?"),
    ([], "which command?"),
    (["index", "--jsno"], "unknown option '--jsno'; did you mean '--json'?"),
])
def test_usage(ctl, arguments, text):
    code, out, err = ctl(*arguments)
    assert (code, out) == (USAGE, "")
    assert err.startswith(f"neso ctl: {text}"), err


# ---- what they did -------------------------------------------------------------------------------


def test_stats(tmp_path):
    require_build(BACKENDS)
    write_repository(tmp_path, {"batched": MODELS["batched"], "idle": MODELS["spare"]})
    running = Server(tmp_path)
    for n in (1, 1, 3):
        assert ctl_of(running.url, "infer", "batched", "--zeros", f"--shape=A={n},2")[0] == DONE
    code, out, err = ctl_of(running.url, "stats")
    assert (code, err) == (DONE, "")
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "MODEL" and lines[0].endswith("BATCHES")
    row = re.split(r"  +", lines[1].strip())
    assert row[:7] == ["batched", "1", "3", "0", "5", "3", "1.67"]
    assert re.fullmatch(r"[\d.]+ (ns|us|ms|s)", row[7]) and row[-1] == "1:2 3:1"
    assert re.split(r"  +", lines[2].strip()) == ["idle", "1", "0", "0", "0", "0"] + 6 * ["-"]
    code, out, _ = ctl_of(running.url, "stats", "batched", "--version=1")
    assert code == DONE
    by_size = out.split("batched, version 1, by size of batch:\n")[1].splitlines()
    assert by_size[0].split() == ["BATCH", "RUNS", "INPUT", "INFER", "OUTPUT"]
    assert [line.split()[:2] for line in by_size[1:]] == [["1", "2"], ["3", "1"]]
    code, out, _ = ctl_of(running.url, "stats", "batched", "--json")
    assert json.loads(out)["model_stats"][0]["inference_count"] == 5
    assert running.stop() == 0


# ---- whom it asks --------------------------------------------------------------------------------


def test_unreachable(tmp_path):
    require_build(())
    with socket.socket() as listener:  # bound and not listening: nobody else gets the port
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        code, out, err = ctl_of(url, "index")
    assert (code, out) == (UNREACHABLE, "")
    assert err.startswith(f"neso ctl: no answer from {url}: ")
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it does not speak HTTP
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"220 hello\r\n"),
                         daemon=True).start()
        code, out, _ = ctl_of(f"http://127.0.0.1:{listener.getsockname()[1]}", "unload", "a")
        assert (code, out) == (UNREACHABLE, "")
    code, _, err = ctl_of("localhost:8000", "index")
    assert code == USAGE
    assert err == ("neso ctl: the URL 'localhost:8000' does not begin with http:// or https://\n")


def test_no_answer_in_time():
    require_build(())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        code, _, err = ctl_of(url, "ready", "--timeout=1")
    assert code == UNREACHABLE and "no answer from" in err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "user@127.0.0.1"])
def test_no_proxy_for_loopback_addresses(server, host):
    """There is nothing at the proxy's port."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        proxy = {"http_proxy": f"http://127.0.0.1:{nobody.getsockname()[1]}", "no_proxy": ""}
        assert ctl_of(f"http://{host}:{server.http_port}", "ready", "batched", environment=proxy) == (
            DONE, "batched: ready\n", "")


class Proxy(http.server.BaseHTTPRequestHandler):
    """Answers every request itself."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def test_a_proxy_for_other_addresses():
    """192.0.2.0/24 is nobody's (RFC 5737); 127.0.0.1 inside of a path or a name counts for nothing."""
    require_build(())
    with http.server.HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.asked = []
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        through = {"http_proxy": f"http://127.0.0.1:{proxy.server_port}", "no_proxy": ""}
        for host in ("192.0.2.1", "127.0.0.1@192.0.2.1", "127.0.0.1.invalid", "[2001:db8::1]"):
            assert ctl_of(f"http://{host}/localhost", "ready", environment=through)[0] == DONE
        through["no_proxy"] = "192.0.2.2"
        assert ctl_of("http://192.0.2.1", "ready", environment=through)[0] == DONE
        for host in ("127.200.0.1:1", "[::1]:1", "localhost:1"):  # nothing is there
            assert ctl_of(f"http://{host}", "ready", environment=through)[0] == UNREACHABLE
        proxy.shutdown()
    ready = "/v2/health/ready"
    assert proxy.asked == [f"http://192.0.2.1/localhost{ready}", f"http://192.0.2.1/localhost{ready}",
                           f"http://127.0.0.1.invalid/localhost{ready}",
                           f"http://[2001:db8::1]/localhost{ready}", f"http://192.0.2.1{ready}"]


def test_without_libcurl(server, tmp_path):
    """What libcurl is needed for is said; the rest of `neso` works without it."""
    (tmp_path / "libcurl.so.4").write_text("no library")
    code, _, err = ctl_of(server.url, "index", environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert code == UNREACHABLE
    assert "neso ctl needs libcurl (libcurl.so.4), which could not be loaded" in err


def test_keys_with_control_characters(server):
    """A file of a key often ends with the end of a line."""
    text = "neso ctl: the API key has control characters, such as the end of a line\n"
    code, out, err = ctl_of(server.url, "index", environment={"NESO_API_KEY": "sesame\n"})
    assert (code, out) == (USAGE, "") and err.startswith(text)
    assert ctl_of(server.url, "index", "--key=a\rX: b")[::2] == (USAGE, err)


def test_keys(tmp_path):
    require_build(BACKENDS)
    write_repository(tmp_path / "models", {"batched": MODELS["batched"]})
    keys = tmp_path / "keys"
    digest = hashlib.sha256(b"open sesame").hexdigest()
    keys.write_text(f"door {digest} *\n")
    keys.chmod(0o600)
    running = Server(tmp_path / "models", (f"--api-key-file={keys}",))
    code, out, err = ctl_of(running.url, "index")
    assert (code, out) == (REFUSED, "") and "key" in err.lower()
    assert ctl_of(running.url, "index", "--key=open sesame")[0] == DONE
    assert ctl_of(running.url, "index", environment={"NESO_API_KEY": "open sesame"})[0] == DONE
    assert ctl_of(running.url, "index", "--key=wrong")[0] == REFUSED
    assert running.stop() == 0


def test_tls(tmp_path):
    require_build(BACKENDS)
    (tmp_path / "certificates").mkdir()
    authority = Authority(tmp_path / "certificates")
    cert, key = authority.issue("server")
    mine, my_key = authority.issue("client", "me")
    write_repository(tmp_path / "models", {"batched": MODELS["batched"]})
    running = Server(tmp_path / "models", (
        "--http-use-ssl-mutual=true", f"--http-server-cert={cert}", f"--http-server-key={key}",
        f"--http-root-cert={authority.root}"))
    url = f"https://localhost:{running.http_port}"
    own = (f"--cert={mine}", f"--key-file={my_key}")
    assert ctl_of(url, "ready", f"--cacert={authority.root}", *own) == (DONE, "server: ready\n", "")
    assert ctl_of(url, "ready", "--insecure", *own)[0] == DONE
    code, _, err = ctl_of(url, "ready", *own)
    assert code == UNREACHABLE and "certificate" in err
    assert ctl_of(url, "ready", f"--cacert={authority.root}")[0] == UNREACHABLE
    assert ctl_of(url, "ready", "--cacert=/nowhere", *own)[0] == USAGE
    assert running.stop() == 0


def test_help():
    require_build(())
    ended = subprocess.run([BUILD / "neso", "ctl", "--help"], timeout=SECONDS, check=True,
                           capture_output=True)
    text = ended.stdout.decode()
    for command in ("index", "load", "unload", "ready", "stats", "metadata", "config", "infer"):
        assert re.search(rf"^  {command}\b", text, re.M)
    assert "Exit code: 0 done, 1 the server said no, 2 wrong usage, 3 no answer." in text
