# SPDX-License-Identifier: BSD-3-Clause
"""From the command line to the exit code: options, configurations, versions, warmup, logs, stop."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time

import pytest
import requests

from conftest import BUILD, FIFO, Server, is_sanitized, patience, require_build, write_repository
from gate import Gate, gated
from models import wait_until
from python_programs import OPTIONS
from scrape import metric, wait_for_pending
from wire import Wire, exchange, request

BACKENDS = ("identity", "testing")


@pytest.fixture(scope="module", autouse=True)
def built():
    require_build(BACKENDS)


def tensors(dims="[-1]"):
    return (f'input {{ name: "INPUT0" data_type: TYPE_FP32 dims: {dims} }}\n'
            f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: {dims} }}\n')


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


IDENTITY = 'backend: "identity"\n' + tensors()
TESTING = 'backend: "testing"\n' + tensors()
BODY = json.dumps({"inputs": [
    {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}]})


def run(*arguments, program=None, seconds=30, preexec_fn=None):
    """A program that ends by itself."""
    ended = subprocess.run([str(program or BUILD / "neso"), *map(str, arguments)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=seconds, check=False, preexec_fn=preexec_fn)
    assert "Sanitizer" not in ended.stderr, ended.stderr
    return ended


def serve(*arguments, **named):
    return run("serve", "--http-address=127.0.0.1", "--http-port=0", "--grpc-port=0",
               "--metrics-port=0", f"--backend-directory={BUILD / 'backends'}", *arguments, **named)


def index(server):
    return requests.post(f"{server.url}/v2/repository/index", timeout=20).json()


def infer(server, model):
    return requests.post(f"{server.url}/v2/models/{model}/infer", data=BODY, timeout=30)


def ready_versions(server, model):
    return [int(one["version"]) for one in index(server)
            if one["name"] == model and one.get("state") == "READY"]


def messages(text):
    """The texts of log lines in the default format."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \w+\.c:\d+\] (".*")', line)
        if match:
            found.append(json.loads(match.group(1)))
    return found


# ---- descriptors ----


@pytest.mark.skipif(is_sanitized(), reason="the sanitizer has descriptors of its own")
def test_start_with_few_descriptors(tmp_path):
    """However few files the process may open, it serves or ends with an error; libuv does not abort it."""
    write_repository(tmp_path / "models", {"m": IDENTITY})
    for n in range(4, 16):
        ended = serve(f"--model-repository={tmp_path / 'models'}", "--http-thread-count=2",
                      "--grpc-infer-thread-count=2",
                      preexec_fn=lambda n=n: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        assert ended.returncode == 1, (n, ended.returncode, ended.stderr)
        assert "Too many open files" in ended.stderr or "too many open files" in ended.stderr, (n, ended.stderr)


# ---- the command line ---------------------------------------------------------------------------

TRY_HELP = "`neso serve --help` lists all options.\n"


@pytest.mark.parametrize("arguments, text", [
    (["--modl-repository=x"],
     "unrecognized option '--modl-repository'; did you mean '--model-repository'?\n"),
    (["--http-prot", "8000"], "unrecognized option '--http-prot'; did you mean '--http-port'?\n"),
    (["--frobnicate=x"], "unrecognized option '--frobnicate'\n"),
    (["stray"], "Unexpected argument: stray\n"),
    (["-h"], "Unexpected argument: -h\n"),
    (["--"], "Unexpected argument: --\n"),
    (["--model-repository"], "option '--model-repository' needs a value\n"),
    (["--help=yes"], "option '--help' takes no value\n"),
    (["--log-info=maybe"],
     'Bad option: "--log-info".\nexpects true or false, got: maybe\n'),
    (["--exit-on-error", ""], 'Bad option: "--exit-on-error".\nexpects true or false, got: \n'),
    (["--http-port=abc"], 'Bad option: "--http-port".\nexpects an integer, got: abc\n'),
    (["--http-port=80x"], 'Bad option: "--http-port".\nexpects an integer, got: 80x\n'),
    (["--http-port=65536"],
     'Bad option: "--http-port".\nvalue is out of range [ 0, 65535 ], got: 65536\n'),
    (["--http-port=99999999999999999999"],
     'Bad option: "--http-port".\nexpects an integer, got: 99999999999999999999\n'),
    (["--exit-timeout-secs=-1"],
     'Bad option: "--exit-timeout-secs".\nvalue is out of range [ 0, 86400 ], got: -1\n'),
    (["--metrics-interval-ms=nan"],
     'Bad option: "--metrics-interval-ms".\nexpects a number, got: nan\n'),
    (["--http-max-input-size=0"],
     'Bad option: "--http-max-input-size".\n'
     "value is out of range [ 1, 9007199254740992 ], got: 0\n"),
    (["--model-config-name="], "Error: empty argument for --model-config-name\n"),
    (["--log-f=x"], "option '--log-f' is ambiguous; possibilities: '--log-format' '--log-file'\n"),
])
def test_bad_command_line(arguments, text):
    ended = run("serve", *arguments)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", text + TRY_HELP)


@pytest.mark.parametrize("arguments, text", [
    ([], "--model-repository must be specified"),
    (["--http-port=7", "--metrics-port=7", "--model-repository=x"],
     "The server cannot listen to HTTP requests and metrics requests at the same address and port "
     "0.0.0.0:7"),
    (["--http-port=7", "--grpc-port=7", "--model-repository=x"],
     "The server cannot listen to HTTP requests and GRPC requests at the same address and port "
     "0.0.0.0:7"),
    (["--log-format=xml", "--model-repository=x"],
     "invalid argument for --log-format, expects default, ISO8601 or json, got: xml"),
    (["--model-control-mode=explcit", "--model-repository=x"],
     "invalid argument for --model-control-mode, expects none, poll or explicit, got: explcit"),
    (["--load-model=m", "--model-repository=x"],
     "Use of '--load-model' requires setting '--model-control-mode=explicit' as well."),
    (["--log-verbose=much", "--model-repository=x"],
     'Bad option: "--log-verbose".\nexpects a level of 0 to 1000, true or false, got: much'),
    (["--log-file=/nonexistent/log", "--model-repository=x"],
     "unable to open log file '/nonexistent/log': No such file or directory"),
    (["--metrics-config=summary_latencies=true", "--model-repository=x"],
     "--metrics-config: summaries are not supported; the neso_*_duration_seconds histograms are "
     "always on"),
    (["--cuda-memory-pool-byte-size=1", "--model-repository=x"],
     'Bad option: "--cuda-memory-pool-byte-size".\nexpects <device>:<bytes>, got: 1'),
    (["--metrics-config=nothing", "--model-repository=x"],
     'Bad option: "--metrics-config".\nexpects [<group>,]<setting>=<value>, got: nothing'),
    (["--http-restricted-api=frobs:a=b", "--model-repository=x"],
     "unknown restricted api 'frobs' (expects one of health, metadata, inference, shared-memory, model-config, "
     "model-repository, statistics, trace, logging, metrics)"),
    (["--grpc-restricted-protocol=metrics:a=b", "--model-repository=x"],
     "unknown restricted protocol 'metrics' (expects one of health, metadata, inference, shared-memory, "
     "model-config, model-repository, statistics, trace, logging)"),
    (["--http-restricted-api=health:a=b", "--http-restricted-api=trace,health:c=d",
      "--model-repository=x"],
     "restricted api 'health' can not be specified in multiple config groups"),
    (["--http-restricted-api=health", "--model-repository=x"],
     "restricted apis must be given as <group>,<group>:<header>=<value>, got 'health'"),
])
def test_refused_options(arguments, text):
    ended = run("serve", *arguments)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"error: {text}\n")


@pytest.mark.parametrize("arguments, text", [
    (["--model-repository=/nonexistent"],
     "creating server: Not found - failed to read model repository '/nonexistent': unable to open "
     "directory '/nonexistent': No such file or directory"),
])
def test_failed_start(arguments, text):
    ended = serve(*arguments)
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"\nerror: {text}\n")


@pytest.mark.parametrize("option", ["--http-address=127.0.0.256", "--http-address=192.0.2.1",
                                    "--http-header-forward-pattern=("])
def test_start_that_fails_late(tmp_path, option):
    ended = serve(f"--model-repository={tmp_path}", option)
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert option.split("=")[1] in line
    if "address" in option:
        assert "(set by --http-address and --http-port)" in line


@pytest.mark.parametrize("service, option, address", [
    ("HTTP", "http-port", "http"), ("GRPC", "grpc-port", "grpc"), ("Metrics", "metrics-port", "http"),
    ("OpenAI", "openai-port", "http")])
def test_port_in_use(tmp_path, service, option, address):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(f"--model-repository={tmp_path}", "--grpc-address=127.0.0.1",
                      f"--{option}={port}")
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert line == (f"error: failed to start {service} service: Unavailable - Socket "
                    f"'127.0.0.1:{port}' already in use (set by --{address}-address and --{option})")


def test_shared_port(tmp_path):
    """Two servers on one port, where both say so."""
    first = Server(tmp_path, ("--reuse-http-port=true", "--id=first"))
    second = Server(tmp_path, ("--reuse-http-port=true", "--id=second",
                               f"--http-port={first.http_port}"))
    assert second.http_port == first.http_port
    assert first.stop() == 0
    assert requests.get(f"{second.url}/v2", timeout=20).json()["name"] == "second"
    assert second.stop() == 0


def test_ipv6(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    running = Server(tmp_path, ("--http-address=::1", "--log-format=json"),
                     waits_for=("http", "metrics"))
    for name, path in (("http", "/v2/health/ready"), ("metrics", "/metrics")):
        assert requests.get(f"http://[::1]:{running.port(name)}{path}", timeout=20).ok
    running.wait_for_line(r'"peer":"\[::1\]:\d+"')
    assert running.stop() == 0


def test_help():
    ended = run("serve", "--help")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Usage: neso serve --model-repository <directory> [options]\n")
    for option in ("help", "id", "model-repository", "exit-timeout-secs", "strict-readiness",
                   "backend-config", "http-restricted-api", "grpc-keepalive-time",
                   "sagemaker-port", "vertex-ai-port", "trace-config", "cache-config",
                   "rate-limit-resource", "host-policy", "allow-client-shm", "metrics-config"):
        assert f"\n  --{option} " in ended.stderr
    lines = run("serve", "--log-info=false", "--help").stderr
    assert lines == ended.stderr


def test_other_commands():
    assert re.fullmatch(r"neso \d+\.\d+\.\d+\n", run("version").stdout)
    assert run("--help").returncode == 0
    assert run().returncode == 1
    assert run("help").stdout == run("-h").stdout == run("--help").stdout
    for command in ("check", "ctl", "bench", "tune"):
        assert f"`neso {command} --help`" in run("help").stdout
        assert run("help", command).stdout == run(command, "--help").stdout
        assert run("help", command).stdout.startswith(f"Usage: neso {command} ")
    assert run("help", "frobnicate").stderr.startswith("neso: unknown command 'frobnicate'\n")
    ended = run("frobnicate")
    assert ended.returncode == 1
    assert ended.stderr.startswith("neso: unknown command 'frobnicate'\nUsage: neso <command>")
    options = run("options").stdout
    assert "| `--http-port <integer>` | 8000 | Port for HTTP requests; 0 takes a free one" in options


def test_name_of_the_reference_server(tmp_path):
    """A link named so needs no command, as scripts start it."""
    link = tmp_path / "tritonserver"
    link.symlink_to(BUILD / "neso")
    ended = run("--help", program=link)
    assert (ended.returncode, ended.stderr) == (1, run("serve", "--help").stderr)
    ended = run("--model-store", tmp_path / "nothing", "--log-info=false", program=link)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: creating server: Not found - failed to read")


def test_forms_of_options(tmp_path):
    """A value apart or behind "=", booleans in any case, the older names, repetition."""
    for name in ("a", "b"):
        write_repository(tmp_path / name, {f"model_{name}": IDENTITY})
    running = Server(tmp_path / "a", ("--model-store", str(tmp_path / "b"), "--id", "first",
                                      "--id=second", "--allow-metrics", "FALSE",
                                      "--log-warning=0", "--strict-readiness", "True",
                                      "--rate-limit=off", "--model-control-mode", "none"))
    assert requests.get(f"{running.url}/v2", timeout=20).json()["name"] == "second"
    assert [one["name"] for one in index(running)] == ["model_a", "model_b"]
    logging = requests.get(f"{running.url}/v2/logging", timeout=20).json()
    assert logging["log_warning"] is False
    assert running.stop() == 0
    assert "Started Metrics Service" not in running.text()


# ---- what a start says --------------------------------------------------------------------------


def test_log_of_a_good_start(tmp_path):
    write_repository(tmp_path, {"two": {"config.pbtxt": IDENTITY + "version_policy { all { } }\n",
                                        "2/.keep": ""},
                                "one": TESTING})
    running = Server(tmp_path, ("--exit-timeout-secs=7",), waits_for=("grpc", "http", "metrics"))
    ports = [running.port(name) for name in ("grpc", "http", "metrics")]
    assert running.stop() == 0
    said = messages(running.text())
    assert len(said) == len(running.log) - 1  # all but "Signal (15) received."
    for text in ("loading: one:1", "loading: two:1", "loading: two:2"):
        assert said.count(text) == 1
    for text in ("successfully loaded 'one'", "successfully loaded 'two'"):
        assert said.count(text) == 1
    end = [text for text in said if text.startswith("Started ")]
    assert end == [f"Started {name} at 127.0.0.1:{port}" for name, port in
                   zip(("GRPCInferenceService", "HTTPService", "Metrics Service"), ports)]
    for text in ("successfully unloaded 'one' version 1", "successfully unloaded 'two' version 1",
                 "successfully unloaded 'two' version 2"):
        assert said.count(text) == 1

    rows = [[cell.strip() for cell in text.strip("|").split("|")]
            for text in said if text.startswith("|")]
    assert ["Backend", "Path", "Config"] in rows and ["Model", "Version", "Status"] in rows
    assert ["one", "1", "READY"] in rows and ["two", "2", "READY"] in rows
    settings = dict(row for row in rows[rows.index(["Option", "Value"]):])
    assert settings == {
        "Option": "Value", "server_id": "triton", "model_repository_path[0]": str(tmp_path),
        "model_control_mode": "MODE_NONE", "strict_model_config": "0", "model_config_name": "",
        "rate_limit": "OFF", "pinned_memory_pool_byte_size": "268435456",
        "min_supported_compute_capability": "0.0", "strict_readiness": "1", "exit_timeout": "7",
        "cache_enabled": "0"}


def soft_limit_of(process):
    line = next(line for line in open(f"/proc/{process.pid}/limits", encoding="ascii")
                if line.startswith("Max open files"))
    return int(line.split()[3])


def test_soft_limit_of_open_files(tmp_path):
    """It is raised for the connections that the options allow, as far as the hard one permits."""
    write_repository(tmp_path, {"one": IDENTITY})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        server = Server(tmp_path, ["--http-max-connections=400", "--grpc-max-connections=100"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = soft_limit_of(server.process)
    assert allowed == (2548 if hard == resource.RLIM_INFINITY else min(hard, 2548))
    with contextlib.ExitStack() as stack:
        for _ in range(min(300, allowed - 100)):
            connection = stack.enter_context(Wire(server.http_port))
            connection.send(request("GET", "/v2/health/live"))
            assert connection.read_answer().status == 200
    assert server.stop() == 0
    assert ("files open" in server.text()) == (allowed < 2548)


def test_model_that_fails_ends_the_start(tmp_path):
    write_repository(tmp_path, {
        "good": IDENTITY,
        "bad": TESTING + parameter("fail_load", "no luck") + parameter("fail_load_code",
                                                                       "Unsupported")})
    ended = serve(f"--model-repository={tmp_path}")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "error: creating server: Internal - failed to load all models")
    said = messages(ended.stderr)
    assert "failed to load 'bad' version 1: Unsupported: no luck" in said
    assert "successfully loaded 'good'" in said and "successfully loaded 'bad'" not in said
    # After the tables and the end of the others, beside the error that names no model.
    assert said[-1] == "not loaded: 'bad'; for each an error above has the reason"


def test_models_that_fail_are_named(tmp_path):
    """Files that cannot be read, names that nobody has, and more than fit on a line."""
    write_repository(tmp_path, {"good": IDENTITY, "unreadable": "nonsense"})
    explicit = ("--model-control-mode=explicit", "--load-model=good")
    ended = serve(f"--model-repository={tmp_path}", *explicit, "--load-model=unreadable",
                  "--load-model=nobody")
    assert ended.returncode == 1
    assert messages(ended.stderr)[-1] == (
        "not loaded: 'nobody', 'unreadable'; for each an error above has the reason")

    write_repository(tmp_path, {f"bad{i:02}": "nonsense" for i in range(20)})
    named = ", ".join(f"'bad{i:02}'" for i in range(16))
    assert messages(serve(f"--model-repository={tmp_path}").stderr)[-1] == (
        f"not loaded: {named} and 5 more; for each an error above has the reason")
    assert "Started" not in ended.stderr


def test_one_bad_version_is_a_bad_model(tmp_path):
    """All versions or none; the good ones are given up."""
    write_repository(tmp_path, {"model": {
        "config.pbtxt": TESTING + 'runtime: "libtriton_testing.so"\nversion_policy { all { } }\n',
        "2/libtriton_testing.so": "not a library"}})
    running = Server(tmp_path, ("--exit-on-error=false",))
    found = index(running)
    assert running.stop() == 0
    assert [(one["version"], one["state"]) for one in found] == [
        ("1", "UNAVAILABLE"), ("2", "UNAVAILABLE")]
    assert found[0]["reason"] == "unloaded"
    assert "libtriton_testing.so" in found[1]["reason"]
    assert "successfully unloaded 'model' version 1" in messages(running.text())
    assert "successfully loaded 'model'" not in messages(running.text())


# ---- repositories and versions ------------------------------------------------------------------


def versions(policy):
    return {"config.pbtxt": IDENTITY + policy,
            **{f"{name}/.keep": "" for name in ("2", "10", "3", "007", "1.5", "old", "0")},
            "warmup/x": "", "initial_state/x": "", "configs/x.pbtxt": "", "11": "a file"}


def test_version_policies(tmp_path):
    write_repository(tmp_path, {
        "default": versions(""),
        "latest": versions("version_policy { latest { num_versions: 2 } }\n"),
        "all": versions("version_policy: { all { } }\n"),
        "specific": versions("version_policy { specific { versions: [ 10, 2, 77, 2 ] } }\n"),
    })
    running = Server(tmp_path)
    found = {name: ready_versions(running, name)
             for name in ("default", "latest", "all", "specific")}
    newest = requests.get(f"{running.url}/v2/models/all/config", timeout=20)
    assert infer(running, "all").json()["model_version"] == "10"
    assert running.stop() == 0
    assert found == {"default": [10], "latest": [3, 10], "all": [0, 1, 2, 3, 10],
                     "specific": [2, 10]}
    assert newest.status_code == 200
    warnings = [text for text in messages(running.text()) if text.startswith("model '")]
    for name in found:
        assert warnings.count(f"model '{name}': ignore version directory '007' which contains "
                              "leading zeros in its directory name") == 1
        for directory in ("1.5", "old"):
            assert (f"model '{name}': ignore version directory '{directory}' which fails to "
                    "convert to integral number") in warnings
    assert ("model 'specific': version 77 is specified for model 'specific', but the version "
            "directory is not present") in warnings
    assert len(warnings) == 3 * len(found) + 1


def test_several_repositories(tmp_path):
    for name, models in (("a", ["both", "only_a"]), ("b", ["both", "only_b"])):
        write_repository(tmp_path / name, dict.fromkeys(models, IDENTITY))
    running = Server(tmp_path / "a", (f"--model-repository={tmp_path / 'b'}",
                                      "--exit-on-error=false"))
    found = index(running)
    answer = requests.get(f"{running.url}/v2/models/both", timeout=20)
    assert running.stop() == 0
    assert found == [
        {"name": "both", "state": "UNAVAILABLE",
         "reason": "model appears in two or more repositories"},
        {"name": "only_a", "version": "1", "state": "READY"},
        {"name": "only_b", "version": "1", "state": "READY"}]
    assert answer.json() == {"error": "Request for unknown model: 'both' is not found"}
    assert ("failed to poll model 'both': not unique across all model repositories"
            in messages(running.text()))

    ended = serve(f"--model-repository={tmp_path / 'a'}", f"--model-repository={tmp_path / 'b'}")
    assert ended.returncode == 1
    assert ended.stderr.endswith("\nerror: creating server: Internal - failed to load all models\n")


def test_named_configurations(tmp_path):
    """configs/<name>.pbtxt where a model has it, config.pbtxt elsewhere."""
    batching = IDENTITY + "max_batch_size: "
    write_repository(tmp_path, {
        "has": {"config.pbtxt": batching + "1", "configs/small.pbtxt": batching + "2",
                "configs/large.pbtxt": batching + "64"},
        "has_not": {"config.pbtxt": batching + "3"}})

    def sizes(*options):
        running = Server(tmp_path, options)
        found = [requests.get(f"{running.url}/v2/models/{name}/config",
                              timeout=20).json()["max_batch_size"] for name in ("has", "has_not")]
        assert running.stop() == 0
        return found

    assert sizes() == [1, 3]
    assert sizes("--model-config-name=large") == [64, 3]
    assert sizes("--model-config-name=absent") == [1, 3]


# ---- configurations -----------------------------------------------------------------------------

# Name: configuration, and how its message ends, with the path for "PATH".
BAD_CONFIGURATIONS = {
    "unknown_field": ('backend: "identity"\nmax_batch_siz: 8\n',
                      "PATH:2:1: message 'ModelConfig' has no field named 'max_batch_siz'; did you "
                      "mean 'max_batch_size'?"),
    "unknown_inner_field": (IDENTITY + 'dynamic_batching {\n  prefered_batch_size: 4\n}\n',
                            "PATH:5:3: message 'ModelDynamicBatching' has no field named "
                            "'prefered_batch_size'; did you mean 'preferred_batch_size'?"),
    "unknown_enum": ('backend: "identity"\ninput { name: "A" data_type: TYPE_FP23 dims: [1] }\n',
                     "PATH:2:30: enum 'DataType' of field 'data_type' has no value 'TYPE_FP23'; did you "
                     "mean '"),
    "not_closed": ('backend: "identity"\ninput { name: "A"\n', "PATH:3:1: "),
    "bad_string": ('backend: "identity\n', "PATH:1:"),
    "bad_number": ('backend: "identity"\nmax_batch_size: many\n', "PATH:2:17: "),
    "too_large": ('backend: "identity"\nmax_batch_size: 99999999999\n', "PATH:2:17: "),
    "nonsense": ("\x00\x01\x02", "PATH:1:1: "),
    "other_name": ('name: "somebody"\n' + IDENTITY, ""),
    "no_backend": (tensors(), "Invalid model name: Could not determine backend for model "
                              "'no_backend' with no backend in model configuration. Expected "
                              "model name of the form 'model.<backend_name>'."),
    "negative_batch": (IDENTITY + "max_batch_size: -1\n",
                       "'max_batch_size' must be non-negative value for negative_batch"),
    "preferred": (IDENTITY + "max_batch_size: 4\ndynamic_batching { preferred_batch_size: 8 }\n",
                  "dynamic batching preferred size must be <= max batch size for preferred"),
    "priority": (IDENTITY + "max_batch_size: 4\ndynamic_batching { priority_levels: 2 }\n",
                 "default priority level must be in range [1, 2] for priority"),
}
# And what is found when the model is loaded: text of the reason.
BAD_MODELS = {
    "no_library": ('backend: "nobody"\n' + tensors(),
                   "Invalid argument: unable to find backend library for backend 'nobody', try "
                   "specifying runtime on the model configuration."),
    "runtime": (IDENTITY + 'runtime: "lib.so"\n',
                "Invalid argument: unable to find backend library 'lib.so' for model 'runtime', "
                "searched: 'DIR/runtime/1/lib.so' 'DIR/runtime/lib.so' 'BACKENDS/identity/lib.so' "),
    "escape": (IDENTITY + 'runtime: "../../lib.so"\n',
               "Invalid argument: backend library name '../../lib.so' escapes backend directory "
               "'BACKENDS', for model 'escape', check model config runtime field"),
    "no_dims": ('backend: "identity"\ninput { name: "A" data_type: TYPE_FP32 }\n',
                "Invalid argument: model input 'A' must specify 'dims' for no_dims"),
    "gpu": (IDENTITY + "instance_group { gpus: [0] kind: KIND_CPU }\n",
            "Invalid argument: instance group gpu_0 of model gpu has kind KIND_CPU but specifies "
            "one or more GPUs"),
    "sequence": (IDENTITY + "sequence_batching { state { } }\n",
                 "Invalid argument: model state must specify 'input_name' for sequence"),
    "instance": (TESTING + parameter("fail_instance", "broken arm"), "Internal: broken arm"),
    "inline": (IDENTITY + parameter("inline_execution", "perhaps"),
               "Invalid argument: parameter 'inline_execution' of model 'inline' must be 'auto', "
               "'never' or 'always', got 'perhaps'"),
}


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    """The log and the index of a server whose models all have one mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_repository(folder, {name: text for name, (text, _) in
                              {**BAD_CONFIGURATIONS, **BAD_MODELS}.items()})
    running = Server(folder, ("--exit-on-error=false",))
    found = {one["name"]: one for one in index(running)}
    assert running.stop() == 0
    return folder, messages(running.text()), found


@pytest.mark.parametrize("name", BAD_CONFIGURATIONS)
def test_bad_configuration(mistakes, name):
    folder, said, found = mistakes
    expected = BAD_CONFIGURATIONS[name][1]
    if name == "no_backend":  # what the text, which is Triton's, does not say
        assert (f"model '{name}': no config.pbtxt names its backend, and no file such as "
                "1/model.onnx or 1/model.py shows it") in said
    start = f"Poll failed for model directory '{name}': "
    [text] = [text[len(start):] for text in said if text.startswith(start)]
    assert found[name] == {"name": name}
    if expected.startswith("PATH"):
        path = folder / name / "config.pbtxt"
        start = f"failed to read text proto from {path}: "
        assert text.startswith(start)
        text = text[len(start):]
        expected = str(path) + expected[len("PATH"):]
        assert text.startswith(expected) and len(text) > len(str(path)) + 10
    elif expected:
        assert text == expected
    else:
        assert text


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_model(mistakes, name):
    folder, said, found = mistakes
    expected = BAD_MODELS[name][1].replace("DIR", str(folder))
    expected = expected.replace("BACKENDS", str(BUILD / "backends"))
    assert found[name] == {"name": name, "version": "1", "state": "UNAVAILABLE",
                           "reason": expected}
    assert f"failed to load '{name}' version 1: {expected}" in said


def test_backend_that_is_not_there(tmp_path):
    """What the text of the refusal, which is Triton's, does not say: where it would be, and which was
    meant."""
    write_repository(tmp_path / "models", {
        name: f'backend: "{name}"\n' + tensors() for name in ("nobody", "idendity")})
    folder = BUILD / "backends"
    said = messages(serve(f"--model-repository={tmp_path / 'models'}").stderr)
    assert f"model 'nobody': its backend would be '{folder}/nobody/libtriton_nobody.so'" in said
    assert (f"model 'idendity': there is no backend 'idendity' in '{folder}'; did you mean "
            "'identity'?") in said
    said = messages(serve(f"--model-repository={tmp_path / 'models'}",
                          f"--backend-directory={tmp_path / 'none'}").stderr)
    assert (f"model 'nobody': no backend is found: unable to open directory '{tmp_path / 'none'}': "
            "No such file or directory") in said


COMPLETED = ('{\\"input\\":[{\\"name\\":\\"INPUT0\\",\\"data_type\\":\\"TYPE_INT8\\",'
             '\\"dims\\":[2]}],\\"output\\":[{\\"name\\":\\"OUTPUT0\\",'
             '\\"data_type\\":\\"TYPE_INT8\\",\\"dims\\":[2]}]}')


@pytest.mark.parametrize("options", [(), ("--disable-auto-complete-config",),
                                     ("--strict-model-config=true",)])
def test_completion(tmp_path, options):
    """A backend may fill in what the configuration leaves open, unless that is turned off."""
    write_repository(tmp_path, {
        "open": 'backend: "testing"\n' + parameter("fill_config", COMPLETED),
        "nothing": {"1/.keep": ""}})
    running = Server(tmp_path, ("--exit-on-error=false", *options))
    found = requests.get(f"{running.url}/v2/models/open", timeout=20).json()
    assert running.stop() == 0
    if options:
        assert found["inputs"] == found["outputs"] == []
        assert (f"Poll failed for model directory 'nothing': failed to open text file for read "
                f"{tmp_path}/nothing/config.pbtxt: no such file, and auto-completion is disabled"
                in messages(running.text()))
    else:
        assert found["inputs"] == [{"name": "INPUT0", "datatype": "INT8", "shape": [2]}]


def test_settings_of_backends(tmp_path):
    """Those for all are overlaid by those for one; the report shows what it got."""
    write_repository(tmp_path, {"model": IDENTITY})
    running = Server(tmp_path, ("--backend-config=a=1", "--backend-config=identity,b=2",
                                "--backend-config=identity,a=3", "--backend-config=other,a=4"))
    assert running.stop() == 0
    [row] = [text for text in messages(running.text()) if text.startswith("| identity ")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == str(BUILD / "backends" / "identity" / "libtriton_identity.so")
    assert json.loads(cells[2]) == {"cmdline": {
        "auto-complete-config": "true", "backend-directory": str(BUILD / "backends"),
        "default-max-batch-size": "4", "min-compute-capability": "0.000000", "a": "3", "b": "2"}}


# ---- warmup -------------------------------------------------------------------------------------


def warmup(name, batch_size, count, what, data_type="TYPE_FP32"):
    return (f'model_warmup {{ name: "{name}" batch_size: {batch_size} count: {count} '
            f'inputs {{ key: "INPUT0" value {{ data_type: {data_type} dims: [ 2 ] {what} }} }} }}\n')


def batched(more, backend="testing"):
    return f'backend: "{backend}"\nmax_batch_size: 4\n' + tensors("[2]") + more


def test_warmup_is_counted(tmp_path):
    """2 requests of one row, 3 times, on each of 2 instances; the sample of size 0 is skipped."""
    write_repository(tmp_path, {"model": {
        "config.pbtxt": batched("instance_group { count: 2 }\n" + parameter("batch_log", "log")
                                + warmup("six", 2, 3, "random_data: true")
                                + warmup("none", 0, 5, "zero_data: true"))}})
    running = Server(tmp_path)
    [stats] = requests.get(f"{running.url}/v2/models/model/stats", timeout=20).json()["model_stats"]
    counted = {name: metric(running, f"nv_inference_{name}", "model")
               for name in ("request_success", "count", "exec_count", "pending_request_count")}
    assert running.stop() == 0
    assert (stats["inference_count"], stats["execution_count"]) == (12, 6)
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert stats["inference_stats"][name]["count"] == 12
    assert stats["inference_stats"]["fail"]["count"] == 0
    assert [(one["batch_size"], one["compute_infer"]["count"])
            for one in stats["batch_stats"]] == [(2, 6)]
    assert counted == {"request_success": 12, "count": 12, "exec_count": 6,
                       "pending_request_count": 0}
    assert (tmp_path / "model" / "log").read_text() == "2 2\n" * 6


@pytest.mark.parametrize("what, files, text", [
    ("input_data_file: \"bytes\"", {"warmup/bytes": b"\0" * 8}, None),
    ("input_data_file: \"bytes\"", {"warmup/bytes": b"\0" * 7},
     "Invalid argument: [request id: <id_unknown>] warmup setting expects 8 bytes, but the data "
     "provided from bytesonly has 7 bytes"),
    ("input_data_file: \"absent\"", {}, "Not found: failed to open warmup file 'absent': "),
    ("input_data_file: \"../config.pbtxt\"", {"warmup/x": ""},
     "failed to open warmup file '../config.pbtxt': "),
    ("", {}, "Invalid argument: [request id: <id_unknown>] warmup setting expects input 'INPUT0' "
             "to have input_data_type set"),
])
def test_data_of_warmup(tmp_path, what, files, text):
    write_repository(tmp_path, {"model": {
        "config.pbtxt": batched(warmup("w", 1, 1, what), "identity"), **files}})
    running = Server(tmp_path, ("--exit-on-error=false",))
    [found] = index(running)
    assert running.stop() == 0
    if text is None:
        assert found["state"] == "READY"
    else:
        assert found["state"] == "UNAVAILABLE" and text in found["reason"]


def test_warmup_that_fails(tmp_path):
    """And so does the model, whichever way the sample fails."""
    write_repository(tmp_path, {
        "execution": batched(warmup("first", 1, 1, "zero_data: true")
                             + parameter("fail_execute", "cold")),
        "input": batched(warmup("strange", 1, 1, "zero_data: true", "TYPE_INT32")),
    })
    running = Server(tmp_path, ("--exit-on-error=false",))
    found = {one["name"]: one for one in index(running)}
    assert running.stop() == 0
    assert found["execution"]["reason"] == (
        "Internal: failed to run warmup sample 'first': cold; ")
    assert found["input"]["reason"].startswith(
        "Invalid argument: failed to run warmup sample 'strange': [request id: <id_unknown>] "
        "inference input 'INPUT0' data-type is 'INT32', but model 'input' expects 'FP32'")


# ---- logs ---------------------------------------------------------------------------------------


def test_iso_8601(tmp_path):
    running = Server(tmp_path, ("--log-format=ISO8601",))
    assert running.stop() == 0
    for line in running.log:
        assert line == "Signal (15) received." or re.fullmatch(
            r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ \w+\.c:\d+\] ".*"', line), line


def test_json_lines(tmp_path):
    """Every line is an object; one for each request, with what an operator asks for."""
    write_repository(tmp_path, {"model": gated(TESTING)})
    running = Server(tmp_path, ("--log-format=json",))
    requests.get(f"{running.url}/v2?secret=1", timeout=20)
    running.wait_for_line('"path":"/v2"')
    exchange(running.http_port, request("GET", "/v2/models/no%22body\"\\"))
    running.wait_for_line('"status":404')
    exchange(running.http_port, b"NONSENSE\r\n\r\n")
    running.wait_for_line('"status":400')
    with Gate(running, "model") as gate, concurrent.futures.ThreadPoolExecutor(1) as pool:
        sent = pool.submit(infer, running, "model")
        gate.wait()
        with Wire(running.http_port) as leaving:
            leaving.send(request("POST", "/v2/models/model/infer", BODY.encode()))
            wait_for_pending(running, "model", 1)
        running.wait_for_line('"aborted":true')
        gate.open()
        sent = sent.result()
        running.wait_for_line('"path":"/v2/models/model/infer","model":"model","status":200')
    assert running.stop() == 0

    lines = [json.loads(line) for line in running.log if line != "Signal (15) received."]
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["ts"])
    access = [line for line in lines if line["level"] == "access"]
    others = [line for line in lines if line["level"] != "access"]
    assert all(list(line) == ["ts", "level", "pid", "at", "msg"] and line["level"] == "info"
               and line["pid"] == running.process.pid for line in others)
    assert "successfully loaded 'model'" in [line["msg"] for line in others]

    keys = ["ts", "level", "peer", "method", "path", "status", "bytes_in", "bytes_out",
            "duration_us"]
    with_model = keys[:5] + ["model"] + keys[5:]
    assert [list(line) for line in access] == [keys, with_model, keys, with_model + ["aborted"],
                                               with_model]
    assert [access[n]["status"] for n in (0, 1, 2, 4)] == [200, 404, 400, 200]
    assert [line["method"] for line in access] == ["GET", "GET", "", "POST", "POST"]
    assert [line["path"] for line in access] == ["/v2", '/v2/models/no%22body"\\', "",
                                                 *["/v2/models/model/infer"] * 2]
    assert access[3]["model"] == access[4]["model"] == "model"
    assert access[4]["bytes_in"] >= len(BODY) + 50
    assert access[4]["bytes_out"] >= len(sent.content) + 50
    assert all(0 <= line["duration_us"] < 30e6 for line in access)
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", line["peer"]) for line in access)


def test_the_access_log_has_names_whose_memory_is_freed_early(tmp_path):
    """A large request's memory is freed before its answer is written; a name that the body has is a part of it."""
    write_repository(tmp_path, {"model": TESTING})
    running = Server(tmp_path, ("--log-format=json",))
    body = b'{"model":"model","prompt":"' + b"y" * 200000 + b'"}'
    exchange(running.http_port, request("POST", "/v1/completions", body))
    running.wait_for_line('"path":"/v1/completions","model":"model","status":4')
    assert running.stop() == 0


def test_log_file(tmp_path):
    """Everything goes there, behind what it held."""
    log = tmp_path / "server.log"
    log.write_text("before\n")
    (tmp_path / "models").mkdir()
    running = Server(tmp_path / "models", (f"--log-file={log}",), waits_for=())
    pattern = re.compile(r"Started HTTPService at 127\.0\.0\.1:(\d+)")
    deadline = time.monotonic() + 30
    while not (match := pattern.search(log.read_text())):
        assert time.monotonic() < deadline
    url = f"http://127.0.0.1:{match.group(1)}"
    assert requests.get(f"{url}/v2/logging", timeout=20).json()["log_file"] == str(log)
    assert running.stop() == 0
    assert running.log == ["Signal (15) received."]
    lines = log.read_text().splitlines()
    assert lines[0] == "before" and len(messages(log.read_text())) == len(lines) - 1


def wait_for_text(path, text):
    deadline = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, (path, text)


def test_rotation_of_the_log_file(tmp_path):
    """After a rename, SIGHUP makes the server write to a new file, and no descriptor of the old one stays open. When
    that is impossible, the log goes on where it was, with the reason."""
    log, folder = tmp_path / "logs" / "server.log", tmp_path / "away"
    log.parent.mkdir()
    (tmp_path / "models").mkdir()
    running = Server(tmp_path / "models", (f"--log-file={log}",), waits_for=())
    wait_for_text(log, "Started Metrics Service")
    log.rename(log.with_suffix(".1"))
    running.process.send_signal(signal.SIGHUP)
    wait_for_text(log, "opened the log file again")
    opened = pathlib.Path(f"/proc/{running.process.pid}/fd")
    assert {target for fd in opened.iterdir()
            if (target := os.readlink(fd)).startswith(str(log.parent))} == {str(log)}

    log.parent.rename(folder)
    running.process.send_signal(signal.SIGHUP)
    wait_for_text(folder / "server.log",
                  "the log stays in the file that is open: unable to open log file")
    assert running.stop() == 0
    assert "Started Metrics Service" in (folder / "server.1").read_text()
    assert not log.parent.exists()


def test_a_pipe_for_the_log_is_not_opened_again(tmp_path):
    """The open of one without a reader does not end."""
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    (tmp_path / "models").mkdir()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    running = Server(tmp_path / "models", (f"--log-file={pipe}",), waits_for=())
    with open(pipe) as log:
        os.close(reader)
        assert any("Started Metrics Service" in line for line in log)
    running.process.send_signal(signal.SIGHUP)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(patience(20)) == 0
    assert running.stop() == 0


def test_levels_of_logs(tmp_path):
    write_repository(tmp_path, {"bad": "nonsense", "warned": {"config.pbtxt": IDENTITY,
                                                              "007/.keep": ""}})

    def letters(*options):
        ended = serve(f"--model-repository={tmp_path}", *options)
        lines = ended.stderr.splitlines()
        assert lines.pop() == "error: creating server: Internal - failed to load all models"
        return {line[0] for line in lines}

    assert letters() == {"I", "W", "E"}
    assert letters("--log-info=false") == {"W", "E"}
    assert letters("--log-info=false", "--log-warning=false") == {"E"}
    assert letters("--log-info=0", "--log-warning=0", "--log-error=0") == set()


def test_logs_without_quotes(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES", "false")
    running = Server(tmp_path)
    assert running.stop() == 0
    assert re.search(r"\w+\.c:\d+\] Started HTTPService at 127\.0\.0\.1:\d+$", running.text(),
                     re.MULTILINE)


def test_names_cannot_forge_log_lines(tmp_path):
    name = "evil\nE1120 00:00:00.000000 1 x.c:1] \"forged\x1b[2J"
    write_repository(tmp_path, {name: "nonsense"})
    running = Server(tmp_path, ("--exit-on-error=false",))
    assert running.stop() == 0
    assert not [line for line in running.log if line.startswith("E1120")]
    assert "\x1b" not in running.text()
    assert [text for text in messages(running.text()) if "forged" in text]


# ---- stop ---------------------------------------------------------------------------------------


def begin_stop(running, number=signal.SIGTERM):
    running.process.send_signal(number)
    running.wait_for_line(rf"^Signal \({int(number)}\) received\.$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(tmp_path, number):
    write_repository(tmp_path, {"model": IDENTITY})
    running = Server(tmp_path)
    with Wire(running.http_port) as idle:
        idle.send(request("GET", "/v2"))
        assert idle.read_answer().status == 200
        begin_stop(running, number)
        assert idle.is_closed()
    assert running.process.wait(20) == 0
    assert running.stop() == 0
    for text in ("Waiting for in-flight requests to complete.",
                 f"Timeout {patience(30):.0f}: Found 0 model versions that have in-flight inferences",
                 "All models are stopped, unloading models",
                 "successfully unloaded 'model' version 1"):
        assert text in messages(running.text())


def test_request_in_flight_is_finished(tmp_path):
    """The balancer sees 503 while the port is open; who is inside gets the answer."""
    write_repository(tmp_path, {"model": gated(TESTING), "other": IDENTITY})
    running = Server(tmp_path)
    metrics_port = running.port("metrics")
    with Gate(running, "model") as gate, concurrent.futures.ThreadPoolExecutor(2) as pool:
        executed = pool.submit(infer, running, "model")
        gate.wait()
        queued = pool.submit(infer, running, "model")
        wait_for_pending(running, "model", 1)
        begin_stop(running)
        running.wait_for_line("All models are stopped, unloading models")
        for path in ("/v2/health/ready", "/v2/health/live", "/v2/models/other/ready"):
            reply = requests.get(running.url + path, timeout=20)
            assert (reply.status_code, reply.json()) == (503, {"error": "Server exiting"})
        for model in ("model", "other"):
            reply = infer(running, model)
            assert (reply.status_code, reply.json()) == (503, {"error": "Server not ready"})
        assert requests.get(f"http://127.0.0.1:{metrics_port}/metrics", timeout=20).ok
        assert not executed.done()
        gate.open(2)
        for one in (executed, queued):
            assert one.result().status_code == 200
            assert one.result().json()["outputs"][0]["data"] == [1.0]
    assert running.process.wait(20) == 0
    assert running.stop() == 0
    said = messages(running.text())
    assert f"Timeout {patience(30):.0f}: Found 1 model versions that have in-flight inferences" in said
    assert "Model 'model' (version 1) has 2 in-flight inferences" in said
    seconds_left = [int(found.group(1)) for text in said if (found := re.fullmatch(
        r"Timeout (\d+): Found [12] live models and 0 in-flight non-inference requests", text))]
    assert seconds_left == sorted(set(seconds_left), reverse=True)
    assert 0 <= seconds_left[-1] <= seconds_left[0] < patience(30)


def test_exit_timeout(tmp_path):
    """Who does not come back in time is left behind."""
    write_repository(tmp_path, {"model": gated(TESTING)})
    running = Server(tmp_path, ("--exit-timeout-secs=1",))
    with Gate(running, "model") as gate, Wire(running.http_port) as stuck:
        stuck.send(request("POST", "/v2/models/model/infer", BODY.encode()))
        gate.wait()
        started = time.monotonic()
        begin_stop(running)
        assert running.process.wait(20) == 1
        assert 0.8 < time.monotonic() - started < 10
        assert stuck.is_closed()
    running.stop()
    assert running.log.count("Exit timeout expired. Exiting immediately.") == 1
    assert "Timeout 1: Found 1 model versions that have in-flight inferences" in messages(
        running.text())


def test_no_exit_timeout(tmp_path):
    write_repository(tmp_path, {"model": gated(TESTING)})
    running = Server(tmp_path, ("--exit-timeout-secs=0",))
    with Gate(running, "model") as gate, Wire(running.http_port) as stuck:
        stuck.send(request("POST", "/v2/models/model/infer", BODY.encode()))
        gate.wait()
        begin_stop(running)
        assert running.process.wait(20) == 1
    running.stop()
    assert running.log.count("Exit timeout expired. Exiting immediately.") == 1


def test_request_that_is_half_sent(tmp_path):
    """Nobody knows whether the rest will come: it is waited for, but no longer than allowed."""
    running = Server(tmp_path, ("--exit-timeout-secs=1",))
    with Wire(running.http_port) as half, Wire(running.http_port) as whole:
        whole.send(request("GET", "/v2"))
        assert whole.read_answer().status == 200
        half.send(request("GET", "/v2")[:-2])
        whole.send(request("GET", "/v2"))
        assert whole.read_answer().status == 200
        started = time.monotonic()
        begin_stop(running)
        assert whole.is_closed()
        assert running.process.wait(20) == 0
        assert 0.5 < time.monotonic() - started < 10
        assert half.is_closed()
    running.stop()
    assert "Timeout 0: Found 1 HTTP service connections" in messages(running.text())


def test_rest_that_comes_while_stopping(tmp_path):
    running = Server(tmp_path)
    with Wire(running.http_port) as wire:
        whole = request("GET", "/v2/health/live")
        wire.send(whole[:20])
        other = exchange(running.http_port, request("GET", "/v2"))
        assert other.status == 200
        begin_stop(running)
        running.wait_for_line("unloading models")
        wire.send(whole[20:])
        answer = wire.read_answer()
        assert (answer.status, json.loads(answer.body)) == (503, {"error": "Server exiting"})
        assert wire.is_closed()
    assert running.process.wait(20) == 0
    running.stop()


def test_second_signal(tmp_path):
    write_repository(tmp_path, {"model": gated(TESTING)})
    running = Server(tmp_path)
    with Gate(running, "model") as gate, Wire(running.http_port) as stuck:
        stuck.send(request("POST", "/v2/models/model/infer", BODY.encode()))
        gate.wait()
        begin_stop(running)
        running.wait_for_line("Found 1 live models")
        until = time.monotonic() + 20
        while running.process.poll() is None and time.monotonic() < until:
            # the first ones may still be an echo of SIGTERM
            running.process.send_signal(signal.SIGINT)
        assert running.process.wait(1) == 1
    running.stop()
    assert running.log.count("Second signal received. Exiting immediately.") == 1


@pytest.mark.parametrize("exits_on_error", ["true", "false"])
def test_signal_while_models_load(tmp_path, exits_on_error):
    """The load that runs goes on to its end; no other one begins, and no port opens."""
    write_repository(tmp_path, {"slow": {
        "config.pbtxt": TESTING + parameter("load_gate_fifo", "gate"), "gate": FIFO}, "tardy": IDENTITY})
    running = Server(tmp_path, ("--model-load-thread-count=1", f"--exit-on-error={exits_on_error}",
                                f"--port-file={tmp_path / 'ports'}"), waits_for=())
    running.wait_for_line("loading: slow:1")
    running.process.send_signal(signal.SIGTERM)
    running.wait_for_line("signal 15 during the start")
    with open(tmp_path / "slow" / "gate", "wb", buffering=0) as gate:
        gate.write(b"g")
        assert running.process.wait(20) == 0
    running.stop()
    assert "Signal (15) received." in running.log
    assert "successfully loaded 'slow'" in messages(running.text())
    assert "successfully unloaded 'slow' version 1" in messages(running.text())
    assert "loading: tardy:1" not in messages(running.text())
    assert "Started" not in running.text() and "error: " not in running.text()
    assert not (tmp_path / "ports").exists()


SLEEPER = """
import os, pathlib, time
class TritonPythonModel:
    def initialize(self, args):
        pathlib.Path(args["model_repository"], "pid").write_text(str(os.getpid()))
        time.sleep(60)
    def execute(self, requests):
        return []
"""


def test_signal_while_a_model_hangs(tmp_path):
    """Its initialization cannot be ended, so the process ends when the time for a stop has passed."""
    require_build(("python",))
    write_repository(tmp_path, {"hangs": {"config.pbtxt": 'backend: "python"\n' + tensors(),
                                          "1/model.py": SLEEPER}})
    running = Server(tmp_path, ("--exit-timeout-secs=1", "--disable-auto-complete-config", *OPTIONS), waits_for=())
    pid = tmp_path / "hangs" / "pid"
    wait_until(lambda: pid.exists() and pid.read_text())
    running.process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert running.process.wait(patience(10)) == 1
    assert time.monotonic() - begun > 0.9
    running.stop()
    assert running.log.count("Exit timeout expired. Exiting immediately.") == 1
    stub = pathlib.Path("/proc", pid.read_text())
    wait_until(lambda: not stub.exists() or ") Z " in (stub / "stat").read_text())


def test_port_file_of_a_server_that_was_killed(tmp_path):
    """A script that waits for the file must not read the ports of the last server."""
    ports = tmp_path / "ports"
    ports.write_text("http=1\n")
    write_repository(tmp_path / "models", {"slow": {
        "config.pbtxt": TESTING + parameter("load_gate_fifo", "gate"), "gate": FIFO}})
    running = Server(tmp_path / "models", (f"--port-file={ports}",), waits_for=())
    running.wait_for_line("loading: slow:1")
    assert not ports.exists()
    with open(tmp_path / "models" / "slow" / "gate", "wb", buffering=0) as gate:
        gate.write(b"g")
        running.wait_for_line("Started HTTPService")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
    running.stop()
    assert not ports.exists()


def test_port_file_of_two_servers(tmp_path):
    """A server that starts with the file of another one leaves it there until it is ready, and the first one then leaves
    the file to the second."""
    ports = tmp_path / "ports"
    write_repository(tmp_path / "models", {"slow": {
        "config.pbtxt": TESTING + parameter("load_gate_fifo", "gate"), "gate": FIFO}})
    (tmp_path / "none").mkdir()
    first = Server(tmp_path / "none", (f"--port-file={ports}",))
    wait_until(ports.exists)
    of_first = ports.read_text()
    second = Server(tmp_path / "models", (f"--port-file={ports}",), waits_for=())
    try:
        second.wait_for_line("loading: slow:1")
        assert ports.read_text() == of_first
        with open(tmp_path / "models" / "slow" / "gate", "wb", buffering=0) as gate:
            gate.write(b"g")
            second.wait_for_line("Started HTTPService")
            wait_until(lambda: ports.read_text() != of_first)
            of_second = ports.read_text()
        assert first.stop() == 0
        assert ports.read_text() == of_second
    finally:
        first.stop()
        second.stop()
    assert not ports.exists()


def test_second_signal_while_models_load(tmp_path):
    """A start that hangs can be ended from the terminal."""
    write_repository(tmp_path, {"slow": {
        "config.pbtxt": TESTING + parameter("load_gate_fifo", "gate"), "gate": FIFO}})
    running = Server(tmp_path, waits_for=())
    running.wait_for_line("loading: slow:1")
    running.process.send_signal(signal.SIGINT)
    running.wait_for_line("signal 2 during the start")
    until = time.monotonic() + 20
    while running.process.poll() is None and time.monotonic() < until:
        # the first ones may still be an echo
        running.process.send_signal(signal.SIGINT)
    assert running.process.wait(1) == 1
    running.stop()
    assert running.log.count("Second signal received. Exiting immediately.") == 1


def test_broken_pipe_of_the_log(tmp_path):
    """Nobody reads the log any more: the server goes on."""
    read, write = os.pipe()
    with subprocess.Popen([str(BUILD / "neso"), "serve", f"--model-repository={tmp_path}",
                           "--http-address=127.0.0.1", "--http-port=0", "--allow-grpc=false",
                           "--allow-metrics=false"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=write) as process:
        os.close(write)
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                match = re.search(rb"Started HTTPService at 127\.0\.0\.1:(\d+)", line)
                if match:
                    break
        url = f"http://127.0.0.1:{int(match.group(1))}"
        assert requests.post(f"{url}/v2/logging", json={"log_verbose_level": 3}, timeout=20).ok
        assert requests.get(f"{url}/v2/health/ready", timeout=20).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
