# SPDX-License-Identifier: BSD-3-Clause
"""`neso check --migrate`: each verdict on a model is what loading it does, and each on an option of
tritonserver what `neso serve` does with it. test_migrate_repositories.py has whole repositories."""
import shlex
import subprocess

import pytest
import requests

from conftest import BUILD, ROOT, Server, require_build, write_repository
from migration import check, interpreter_of_the_tests, loads, report, verdicts

BACKENDS = ("identity", "testing")


@pytest.fixture(scope="module", autouse=True)
def machine():
    require_build(BACKENDS)
    with interpreter_of_the_tests():
        yield


# ---- planted problems ---------------------------------------------------------------------------

TENSORS = """\
max_batch_size: 8
input { name: "A" data_type: TYPE_FP32 dims: [ 2, 3 ] }
output { name: "A" data_type: TYPE_FP32 dims: [ 2, 3 ] }
"""
# Lines count from 1; an addition begins at line 5.
IDENTITY = 'backend: "identity"\n' + TENSORS

# What it is called, the configuration, the verdict, the field, its place, what is said.
PLANTED = [
    ("nothing", IDENTITY, "works", "backend", "1:1", "libtriton_identity.so"),
    ("TensorRT", 'platform: "tensorrt_plan"\n' + TENSORS, "missing", "backend", None,
     "needs the compiled backend libtriton_tensorrt.so in --backend-directory="),
    ("PyTorch", 'platform: "pytorch_libtorch"\n' + TENSORS, "missing", "backend", None,
     "or export the model to ONNX"),
    ("TensorFlow", 'platform: "tensorflow_savedmodel"\n' + TENSORS, "missing", "backend", None,
     "convert the model to ONNX"),
    ("OpenVINO", 'backend: "openvino"\n' + TENSORS, "missing", "backend", "1:1",
     "needs the compiled backend libtriton_openvino.so"),
    ("DALI", 'backend: "dali"\n' + TENSORS, "missing", "backend", "1:1", "in a model.py"),
    ("FIL", 'backend: "fil"\n' + TENSORS, "missing", "backend", "1:1", "trees"),
    ("a backend of one's own", 'backend: "ours"\n' + TENSORS, "missing", "backend", "1:1",
     "libtriton_ours.so in --backend-directory="),
    ("GPU", IDENTITY + "instance_group { kind: KIND_GPU }\n", "missing", "instance_group[0].kind",
     "5:18", "this machine has no GPUs"),
    ("a GPU by number", IDENTITY + "instance_group { count: 2 gpus: [ 0 ] }\n", "missing",
     "instance_group[0].gpus", "5:27", "this machine has no GPUs"),
    ("CUDA graphs", IDENTITY + "optimization {\n  cuda { graphs: true }\n}\n", "differs",
     "optimization.cuda", "6:3", "no CUDA graphs"),
    ("accelerator of a GPU",
     IDENTITY + "optimization { execution_accelerators {\n"
     '  gpu_execution_accelerator: [ { name: "tensorrt" } ]\n} }\n', "differs",
     "optimization.execution_accelerators.gpu_execution_accelerator", "6:3",
     "runs without the accelerator"),
    ("pinned memory", IDENTITY + "optimization { input_pinned_memory { enable: true } }\n",
     "differs", "optimization.input_pinned_memory", "5:16", "has no effect"),
    ("priority", IDENTITY + "optimization { priority: PRIORITY_MAX }\n", "differs",
     "optimization.priority", "5:16", "has no effect"),
    ("warm-up", IDENTITY + 'model_warmup { name: "w" batch_size: 1 inputs { key: "A" value {\n'
     "  data_type: TYPE_FP32 dims: [ 2, 3 ] zero_data: true } } }\n", "works", "model_warmup",
     "5:1", "runs at each load"),
    ("rate limiter",
     IDENTITY + 'instance_group { kind: KIND_CPU rate_limiter { resources { name: "R" count: 1 } } }\n',
     "works", "instance_group[0].rate_limiter", "5:33", "--rate-limit=execution_count"),
    ("response cache", IDENTITY + "response_cache { enable: true }\n", "works", "response_cache",
     "5:1", "--cache-config"),
    ("sequences", 'backend: "testing"\n' + TENSORS +
     'sequence_batching { control_input { name: "S" control {\n'
     "  kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }\n", "works",
     "sequence_batching", "5:1", "survive a reload"),
    ("a member of an ensemble",
     'platform: "ensemble"\n' + TENSORS.replace('output { name: "A"', 'output { name: "B"') +
     'ensemble_scheduling { step {\n  model_name: "gone"\n'
     '  input_map { key: "A" value: "A" } output_map { key: "A" value: "B" } } }\n', "missing",
     "ensemble_scheduling.step[0].model_name", "6:3", "gone"),
    ("parameters of one's own", IDENTITY + 'parameters { key: "mine" value { string_value: "x" } }\n',
     "works", "parameters[0]", "5:1", "ignores it"),
    ("a parameter with a meaning here",
     IDENTITY + 'parameters { key: "inline_execution" value { string_value: "never" } }\n',
     "differs", "parameters[0]", "5:1", "means nothing to Triton"),
    ("a parameter with a value that is none here",
     IDENTITY + 'parameters { key: "inline_execution" value { string_value: "later" } }\n',
     "missing", "parameters[0]", "5:1", "must be 'auto', 'never' or 'always'"),
    ("buckets", IDENTITY + "model_metrics { metric_control {\n"
     '  metric_identifier { family: "nv_inference_first_response_histogram_ms" }\n'
     "  histogram_options { buckets: [ 1, 2 ] } } }\n", "differs", "model_metrics", "5:1",
     "fixed buckets"),
    ("an agent", IDENTITY + 'model_repository_agents { agents { name: "gone" } }\n', "missing",
     "model_repository_agents.agents[0].name", "5:36", "gone"),
]


def find_row(model, field, verdict):
    rows = [row for row in model["rows"]
            if row.get("field") == field and row["verdict"] == verdict]
    assert len(rows) == 1, model["rows"]
    return rows[0]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The report on all of them, by name, and what loading them does."""
    folder = tmp_path_factory.mktemp("planted")
    models = {f"m{i}": config for i, (_, config, *_) in enumerate(PLANTED)}
    write_repository(folder, models)
    return {m["name"]: m for m in report(folder)["models"]}, loads(folder, models)


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=[p[0] for p in PLANTED])
def test_planted(planted, number):
    _, _, verdict, field, place, reported = PLANTED[number]
    models, results = planted
    model = models[f"m{number}"]
    assert model["verdict"] == verdict
    assert (results[f"m{number}"] is not None) == (verdict == "missing"), results[f"m{number}"]
    row = find_row(model, field, verdict)
    assert reported in row["why"] + row.get("advice", "")
    assert (f"{row['line']}:{row['column']}" if "line" in row else None) == place
    assert row["file"].endswith(f"m{number}/config.pbtxt")


def test_the_installed_backends(tmp_path):
    """Folders without a library are none."""
    backends = tmp_path / "backends"
    for name, file in (("one", "libtriton_one.so"), ("two", "readme"), ("three", "libtriton_three.so")):
        (backends / name).mkdir(parents=True)
        (backends / name / file).write_text("")
    write_repository(tmp_path / "models", {"m": 'backend: "fil"\n' + TENSORS})
    ended = subprocess.run([BUILD / "neso", "check", "--migrate", tmp_path / "models",
                            f"--backend-directory={backends}"],
                           capture_output=True, timeout=20, check=False, text=True)
    assert ended.returncode == 1
    assert f"--backend-directory={backends} (which has one, three); or convert" in ended.stdout


def test_decoupled():
    require_build(("repeat",))
    models = {m["name"]: m for m in report(ROOT / "examples/models")["models"]}
    assert "infer refuses it, as in Triton" in find_row(
        models["repeat"], "model_transaction_policy", "works")["why"]
    assert not [row for row in models["identity"]["rows"] if "model_transaction_policy" in row.values()]


ONNX = 'backend: "onnxruntime"\n'


@pytest.mark.parametrize("config, verdict, reported", [
    (ONNX, "works", "libtriton_onnxruntime.so"),
    (ONNX + "optimization { graph { level: 1 } }\n", "works", "passed to ONNX Runtime"),
    (ONNX + "optimization { execution_accelerators {\n"
     ' gpu_execution_accelerator { name: "tensorrt" } } }\n', "differs", "without the accelerator"),
    (ONNX + "optimization { execution_accelerators {\n"
     ' cpu_execution_accelerator { name: "openvino" } } }\n', "missing", "refuses to load"),
    (ONNX + 'model_operations { op_library_filename: "/opt/ops.so" }\n', "missing",
     "in the model's directory"),
    (ONNX + 'parameters { key: "gpu_mem_limit" value { string_value: "1" } }\n', "differs", "GPUs"),
    (ONNX + 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n', "works",
     "as in Triton"),
])
def test_onnx(tmp_path, config, verdict, reported):
    require_build(("onnxruntime",))
    digits = (ROOT / "examples/models/digits/1/model.onnx").read_bytes()
    write_repository(tmp_path, {"m": {"config.pbtxt": config, "1/model.onnx": digits}})
    model = report(tmp_path)["models"][0]
    assert model["verdict"] == verdict
    assert any(reported in row["why"] for row in model["rows"] if row["verdict"] == verdict)
    assert (loads(tmp_path, ["m"])["m"] is not None) == (verdict == "missing")


PROGRAM = """\
class TritonPythonModel:
    def execute(self, requests):
        return []
"""
PYTHON = 'backend: "python"\n' + TENSORS


def environment(path):
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{path}" }} }}\n'


@pytest.mark.parametrize("addition, verdict, reported", [
    ("", "works", "libtriton_python.so"),
    (environment("$$TRITON_MODEL_DIRECTORY/env"), "works", "interpreter of this environment"),
    (environment("/opt/gone.tar.gz"), "missing",
     "the environment '/opt/gone.tar.gz' is not on this machine"),
    (environment("$$TRITON_MODEL_DIRECTORY/1"), "missing", "1/bin/activate' does not exist"),
    ('parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n', "differs",
     "main memory"),
])
def test_python(tmp_path, addition, verdict, reported):
    require_build(("python",))
    write_repository(tmp_path, {"m": {"config.pbtxt": PYTHON + addition, "1/model.py": PROGRAM,
                                      "env/bin/activate": ""}})
    (tmp_path / "m/env/bin/python3").symlink_to("/usr/bin/python3")
    model = report(tmp_path)["models"][0]
    assert model["verdict"] == verdict
    assert any(reported in row["why"] for row in model["rows"] if row["verdict"] == verdict)
    assert (loads(tmp_path, ["m"])["m"] is not None) == (verdict == "missing")


def test_what_the_backend_alone_knows(tmp_path):
    """Without --load nothing is executed; with it the load's error is the reason."""
    require_build(("python",))
    write_repository(tmp_path, {"m": {"config.pbtxt": PYTHON, "1/model.py": "import gone_module\n"}})
    assert verdicts(tmp_path) == {"m": "works"}
    model = report(tmp_path, "--load")["models"][0]
    assert model["verdict"] == "missing"
    assert any("gone_module" in row["why"] for row in model["rows"])


# ---- command lines ------------------------------------------------------------------------------

IMAGE = "nvcr.io/nvidia/tritonserver:25.10-py3"

# As documentation of the reference has them: each option's verdict, in order; the new command line.
LINES = [
    (f"docker run --gpus=1 --rm -p8000:8000 -v/full/path:/models {IMAGE} \\\n"
     "  tritonserver --model-repository=/models", "works", ["--model-repository=/models"]),
    ("tritonserver --model-repository=/models --model-control-mode=explicit --load-model=*",
     "works works works",
     ["--model-repository=/models", "--model-control-mode=explicit", "--load-model=*"]),
    ("tritonserver --model-store /models --strict-model-config=false --log-verbose=1",
     "works works works",
     ["--model-repository=/models", "--strict-model-config=false", "--log-verbose=1"]),
    ("tritonserver --model-repository=/models --cache-config local,size=1048576", "works works",
     ["--model-repository=/models", "--cache-config=local,size=1048576"]),
    ("tritonserver --model-repository=/models --cache-config redis,host=redis-host",
     "works missing", ["--model-repository=/models"]),
    ("tritonserver --model-repository=/m "
     "--trace-config triton,file=/tmp/trace.json --trace-config triton,log-frequency=50 "
     "--trace-config rate=100 --trace-config level=TIMESTAMPS --trace-config count=100",
     "works works works works works works",
     ["--model-repository=/m", "--trace-config=triton,file=/tmp/trace.json",
      "--trace-config=triton,log-frequency=50", "--trace-config=rate=100",
      "--trace-config=level=TIMESTAMPS", "--trace-config=count=100"]),
    ("tritonserver --model-repository=/m --rate-limit=execution_count "
     "--rate-limit-resource=R1:10 --rate-limit-resource=R2:5:0", "works works works works",
     ["--model-repository=/m", "--rate-limit=execution_count", "--rate-limit-resource=R1:10",
      "--rate-limit-resource=R2:5:0"]),
    ("tritonserver --model-repository=/m "
     "--http-restricted-api=model-repository:admin-key=admin-value "
     "--grpc-restricted-protocol=health:infer-key=infer-value", "works works works",
     ["--model-repository=/m", "--http-restricted-api=model-repository:admin-key=admin-value",
      "--grpc-restricted-protocol=health:infer-key=infer-value"]),
    ("tritonserver --model-repository=/m --metrics-config summary_latencies=true "
     "--metrics-config counter_latencies=false", "works missing works",
     ["--model-repository=/m", "--metrics-config=counter_latencies=false"]),
    ("tritonserver --model-repository=s3://https://host:9000/bucket/models", "works",
     ["--model-repository=s3://https://host:9000/bucket/models"]),
    ("tritonserver --model-repository=/m --allow-vertex-ai=true --vertex-ai-port=8080",
     "works works works", ["--model-repository=/m", "--allow-vertex-ai=true", "--vertex-ai-port=8080"]),
    ("tritonserver --model-repository=/m --pinned-memory-pool-byte-size=0 "
     "--cuda-memory-pool-byte-size=0:67108864 --min-supported-compute-capability 7.5",
     "works works works works",
     ["--model-repository=/m", "--pinned-memory-pool-byte-size=0",
      "--cuda-memory-pool-byte-size=0:67108864", "--min-supported-compute-capability=7.5"]),
    ("tritonserver --model-repository=/m --http-header-forward-pattern='(?i)x-.*'", "works missing",
     ["--model-repository=/m"]),
    ("tritonserver --model-repository=/m --grpc-header-forward-pattern='x-\\d+'", "works differs",
     ["--model-repository=/m", "--grpc-header-forward-pattern=x-\\d+"]),
    ("tritonserver --model-repository=/m --model-control-mode=poll --repository-poll-secs=5",
     "works differs works",
     ["--model-repository=/m", "--model-control-mode=poll", "--repository-poll-secs=5"]),
    ("tritonserver --model-repository=/m --http-prot 8000 --openai-frontend",
     "works missing missing", ["--model-repository=/m"]),
    ("tritonserver --model-repository=$MODELS --id '$ID'", "works works",
     ["--model-repository=$MODELS", "--id=$ID"]),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    write_repository(folder, {"m": IDENTITY})
    return folder


def new_arguments(text):
    words = shlex.split(text.replace("\\\n", " "))
    assert words[:2] == ["neso", "serve"]
    return words[2:]


@pytest.mark.parametrize("line, expected, options", LINES)
def test_lines_of_the_reference(repository, line, expected, options):
    reported = report(repository, f"--command-line={line}")["command_line"]
    assert [o["verdict"] for o in reported["options"]] == expected.split(), reported
    assert all(o.get("why") for o in reported["options"] if o["verdict"] != "works")
    arguments = new_arguments(reported["neso"])
    assert arguments == (options or [f"--model-repository={repository}"])
    parsed = subprocess.run([BUILD / "neso", "options", *arguments], capture_output=True,
                            timeout=20, check=False)
    assert parsed.returncode == 0, parsed.stderr


def test_the_new_line_starts_a_server(repository):
    line = (f"tritonserver --model-store {repository} --model-control-mode=explicit "
            "--load-model=* --cache-config local,size=1048576 --pinned-memory-pool-byte-size=9 "
            "--log-format=xml --strict-readiness=true --grpc-infer-thread-count=2")
    reported = report(repository, f"--command-line={line}")["command_line"]
    server = Server(repository, new_arguments(reported["neso"])[1:])
    try:
        answer = requests.get(f"{server.url}/v2/models/m/ready", timeout=20)
        assert answer.status_code == 200
    finally:
        assert server.stop() == 0


def test_nothing_is_left_behind(repository, tmp_path):
    """No file that the options name is made."""
    before = sorted(repository.rglob("*"))
    report(repository, f"--command-line=tritonserver --model-repository=/m "
           f"--log-file={tmp_path}/log --trace-config triton,file={tmp_path}/trace")
    assert list(tmp_path.iterdir()) == [] and sorted(repository.rglob("*")) == before


def test_options_about_models(tmp_path):
    write_repository(tmp_path, {"m": {"config.pbtxt": 'backend: "ours"\n' + TENSORS,
                                      "configs/cpu.pbtxt": IDENTITY}})
    assert verdicts(tmp_path) == {"m": "missing"}
    assert verdicts(tmp_path, "--command-line=--model-config-name=cpu") == {"m": "works"}


# ---- what people see ----------------------------------------------------------------------------


def test_tables(tmp_path):
    write_repository(tmp_path, {
        "a": IDENTITY, "b": IDENTITY + "optimization { cuda { graphs: true } }\n",
        "c": 'backend: "fil"\n' + TENSORS})
    code, out, err = check(tmp_path, "--quiet", "--command-line=docker run x tritonserver "
                           "--model-repository=/m --http-port=9000 --log-format=xml")
    assert (code, err) == (1, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["MODEL", "VERDICT", "FIELD", "PLACE", "WHY"]
    assert rows[1] == ["a", "works"] and rows[2] == ["b", "differs"]
    assert rows[3][:3] == ["differs", "optimization.cuda", f"{tmp_path}/b/config.pbtxt:5:16"]
    assert rows[3][3:5] == ["has", "no"]
    assert rows[4] == ["c", "missing"]
    assert rows[5][:3] == ["missing", "backend", f"{tmp_path}/c/config.pbtxt:1:1"]
    assert rows[7] == ["OPTION", "VERDICT", "WHY"]
    assert rows[8][:2] == ["--log-format=xml", "missing"]
    assert "Not read: docker run x" in out
    assert "neso serve \\\n  --model-repository=/m \\\n  --http-port=9000\n" in out
    assert out.endswith("\nmodels: 1 works, 1 differs, 1 missing "
                        "(read, not loaded: --load asks the backends, too)\n")
    assert check(tmp_path, "--load")[1].endswith("\nmodels: 1 works, 1 differs, 1 missing\n")


def test_exit_codes(tmp_path, repository):
    assert check(repository)[0] == 0
    differs = tmp_path / "differs"
    write_repository(differs, {"m": IDENTITY + "optimization { priority: PRIORITY_MAX }\n"})
    assert check(differs)[0] == 0
    assert check(repository, "--command-line=--log-format=xml")[0] == 1
    code, _, err = check(repository, "--command-line=tritonserver --id='x")
    assert code == 2 and "--command-line: a quote ' without its end at character 19" in err
    code, _, err = check(repository, "--command-line=tritonserver --id=x > log")
    assert code == 2 and "'>', which a shell would interpret, at character 21" in err
    ended = subprocess.run([BUILD / "neso", "check", repository, "--command-line=x"],
                           capture_output=True, timeout=20, check=False)
    assert ended.returncode == 2 and b"--command-line needs --migrate" in ended.stderr
    code, _, err = check(tmp_path / "none")
    assert code == 1 and "is not a directory" in err
