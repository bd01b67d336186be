# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of ONNX models in the memory of GPUs: bound where they lie, gathered and scattered there. The library seems
to be ONNX Runtime with CUDA (fake_cuda_binding.h) and ends a run with an error, or its process with a report, when a
tensor is not where it is said to be."""
import concurrent.futures
import contextlib
import subprocess
import sys

import numpy
import pytest
import requests

from conftest import ROOT, patience, require_build, write_repository
from gpus import GpuServer, fake_gpus, require_gpus
from onnx_gpus import Bindings, place_library, real_library
from scrape import metrics
from test_cuda_shared_memory import Http, Region
from test_gpu_pipelines import Copies, step, used_bytes
from test_shared_memory import Object, place

# All that holds for ONNX models on the CPU holds on GPUs: these run here with this module's server.
from test_onnx import (  # noqa: F401 pylint: disable=unused-import
    test_bad_requests, test_bf16, test_binary, test_completed_without_a_batch_dimension,
    test_external_weights, test_failed_run,
    test_initializer_that_is_an_input, test_json, test_mlp, test_open_dimensions,
    test_open_dimensions_of_many_clients, test_output_without_a_shape_in_the_file, test_reductions, test_scalars,
    test_shape_that_depends_on_values, test_start_begins_anew, test_state_from_file_in_one_buffer,
    test_states_of_many_sequences, test_strings, test_strings_of_several_inputs, test_sums_and_differences,
    test_tensors_made_of_the_batch, test_text_as_state, test_versions)

pytest.importorskip("onnx")

sys.path.append(str(ROOT / "tests" / "models"))
import make_test_models  # noqa: E402 pylint: disable=wrong-import-position

SECONDS = patience(30)
TAKES_SECONDS = 40
GROUP = "instance_group { kind: %s %s }\n"
BATCH_OF_3 = "dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 20000000 }\n"
BATCHES = "dynamic_batching { max_queue_delay_microseconds: 100000 }\n"
N = 1000
BYTES = 4 * N
POOLS = ("--cuda-memory-pool-byte-size=0:1048576", "--cuda-memory-pool-byte-size=1:1048576")


def on(*gpus):
    return GROUP % ("KIND_GPU", f"gpus: [ {', '.join(map(str, gpus))} ]")


def digits(more):
    text = (ROOT / "examples" / "models" / "digits" / "config.pbtxt").read_text()
    text = text.replace('name: "digits"\n', "").replace("instance_group { count: 1 kind: KIND_CPU }\n", "")
    return text.replace("dynamic_batching { }\n", "") + more


def doubled(size):
    """OUTPUT0 = 2 INPUT0, and OUTPUT1 = -INPUT0. `size`: None for any number of columns."""
    onnx_type, helper = make_test_models.TensorProto.FLOAT, make_test_models.helper
    return make_test_models.model(
        [helper.make_node("Add", ["INPUT0", "INPUT0"], ["OUTPUT0"]), helper.make_node("Neg", ["INPUT0"], ["OUTPUT1"])],
        [make_test_models.value("INPUT0", onnx_type, None, size)],
        [make_test_models.value(name, onnx_type, None, size) for name in ("OUTPUT0", "OUTPUT1")])


def write_doubled(folder, size, more):
    tensors = [make_test_models.tensor(kind, name, "TYPE_FP32", [size or -1])
               for kind, name in (("input", "INPUT0"), ("output", "OUTPUT0"), ("output", "OUTPUT1"))]
    make_test_models.write(folder, doubled(size), make_test_models.onnx_config(8, *tensors, more=more))


def line(*models):
    """An ensemble of models that double."""
    names = ["INPUT0", *(f"T{i}" for i in range(len(models) - 1)), "OUTPUT0"]
    steps = [step(model, {"INPUT0": names[i]}, {"OUTPUT0": names[i + 1]}) for i, model in enumerate(models)]
    return "\n".join(['platform: "ensemble" max_batch_size: 8', 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
                      'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }', "ensemble_scheduling {", *steps,
                      "}"])


def write_models(folder):
    """The models of the tests of ONNX, on all GPUs, and those of this module."""
    subprocess.run([sys.executable, str(ROOT / "tests" / "models" / "make_test_models.py"), str(folder)], check=True,
                   timeout=120)
    good = folder / "good"
    file = (ROOT / "examples" / "models" / "digits" / "1" / "model.onnx").read_bytes()
    for name, more in {"digits_cpu": GROUP % ("KIND_CPU", ""), "digits_0": on(0), "digits_1": on(1),
                       "digits_of_3": on(0) + BATCH_OF_3,
                       "digits_twice": on(0).replace("{ ", "{ count: 2 ") + "dynamic_batching { }\n",
                       "digits_mixed": on(0) + GROUP % ("KIND_CPU", ""),
                       "digits_model": GROUP % ("KIND_MODEL", "")}.items():
        write_repository(good, {name: digits(more)})
        (good / name / "1" / "model.onnx").write_bytes(file)
        (good / name / "labels.txt").write_bytes((ROOT / "examples/models/digits/labels.txt").read_bytes())
    for name, size, more in (("fixed_0", N, on(0)), ("open_0", None, on(0)), ("fixed_1", N, on(1)),
                             ("open_batches", None, on(0) + BATCHES), ("fixed_of_3", N, on(0) + BATCH_OF_3)):
        write_doubled(good / name, size, more)
    write_repository(good, {"fixed_line": line("fixed_0", "fixed_0"), "open_line": line("open_0", "open_0"),
                            "two_gpus": line("fixed_0", "fixed_1")})
    for name, gpu in (("nonzero", "nonzero_0"), ("onnx_identity_bytes", "bytes_0"), ("sequence_mean", "mean_0"),
                      ("lookup", "lookup_0")):
        text = (good / name / "config.pbtxt").read_text().replace(f'name: "{name}"', "") + on(0)
        if name == "lookup":
            text = text.replace("dynamic_batching { max_queue_delay_microseconds: 1000 }", BATCH_OF_3)
        write_repository(good, {gpu: text})
        (good / gpu / "1" / "model.onnx").write_bytes((good / name / "1" / "model.onnx").read_bytes())
    return good


@contextlib.contextmanager
def opens(folder, repository, *options, **settings):
    require_build(("onnxruntime", "identity", "testing"))
    require_gpus()
    folder.mkdir(exist_ok=True)
    bindings = Bindings(folder / "bindings")
    with fake_gpus(folder, **settings) as environment:
        server = GpuServer(repository, {**environment, "NESO_REAL_ONNXRUNTIME": real_library(),
                                        "NESO_FAKE_BINDINGS": str(bindings.path)},
                           [place_library(folder), "--allow-client-shm=true", *POOLS, *options])
        server.bindings = bindings
        try:
            yield server
        finally:
            code = server.stop()
        assert code == 0, f"exit code {code}:\n{server.text()}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def server(repository, tmp_path_factory):
    with opens(tmp_path_factory.mktemp("onnx_tensors"), repository) as running:
        yield running
        assert used_bytes(running) <= 1 << 20  # scratch memory of instances


@pytest.fixture(autouse=True)
def _no_runs(request):
    if "server" in request.fixturenames:
        request.getfixturevalue("server").bindings.clear()


# ---- requests -----------------------------------------------------------------------------------


def tensor(name, values, datatype="FP32"):
    return {"name": name, "datatype": datatype, "shape": list(values.shape), "data": values.ravel().tolist()}


def in_region(name, shape, where, datatype="FP32"):
    return {"name": name, "datatype": datatype, "shape": list(shape), "parameters": place(where)}


def to_region(name, where):
    return {"name": name, "parameters": place(where)}


def post(server, model, inputs, outputs=None):
    body = {"inputs": inputs}
    if outputs:
        body["outputs"] = [{"name": one} if isinstance(one, str) else one for one in outputs]
    return requests.post(f"{server.url}/v2/models/{model}/infer", json=body, timeout=SECONDS)


def ask(server, model, inputs, outputs=None):
    """{output: (shape, data)}; of one in a region no data."""
    reply = post(server, model, inputs, outputs)
    assert reply.status_code == 200, reply.text
    return {one["name"]: (one["shape"], one.get("data")) for one in reply.json()["outputs"]}


def at_once(*calls):
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: call(), calls))


def images(n, seed=1):
    return numpy.random.default_rng(seed).integers(0, 17, [n, 64]).astype(numpy.float32)


def row(seed):
    return numpy.arange(N, dtype=numpy.float32).reshape(1, N) + seed


def executions(server, model):
    stats = requests.get(f"{server.url}/v2/models/{model}/stats", timeout=SECONDS).json()["model_stats"][0]
    return stats["execution_count"]


def one_batch_of_3(server, model, *calls):
    """The answers of three requests that were one execution: the batch waits for the third."""
    before = executions(server, model)
    answers = at_once(*calls)
    assert executions(server, model) - before in (0, 1)  # a batch that fails is not counted
    return answers


# ---- where tensors are bound --------------------------------------------------------------------


@pytest.mark.parametrize("model", ["digits_0", "digits_1", "digits_mixed", "digits_model"])
def test_digits(server, model):
    for n in (1, 5):
        inputs = [tensor("image", images(n))]
        assert ask(server, model, inputs) == ask(server, "digits_cpu", inputs)


def test_host_tensors(server):
    """The runtime copies the input; the response's memory, which is the host's, is written by the run."""
    with Copies(server) as copies:
        ask(server, "digits_0", [tensor("image", images(2))])
    assert server.bindings.runs == ["host, host"]
    assert copies.bytes == {}


def test_regions_in_place(server):
    """Nothing is copied: the session reads and writes the client's memory."""
    x, page = images(3), bytes(4096)
    expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
    server.bindings.clear()
    with Region(Http(server), x.tobytes() + page) as gpu, Copies(server) as copies:
        answer = ask(server, "digits_0", [in_region("image", x.shape, ("r", 0, x.nbytes))],
                     [to_region("probabilities", ("r", x.nbytes, 120))])
        assert answer == {"probabilities": ([3, 10], None)}
        assert gpu.read(x.nbytes, 120) == numpy.float32(expected).tobytes()
    assert server.bindings.runs == ["gpu, gpu"]
    assert copies.bytes == {}


def test_regions_of_another_gpu(server):
    """The server copies between the GPUs."""
    x = images(2)
    expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
    server.bindings.clear()
    with Region(Http(server), x.tobytes() + bytes(4096), device=1) as gpu, Copies(server) as copies:
        ask(server, "digits_0", [in_region("image", x.shape, ("r", 0, x.nbytes))],
            [to_region("probabilities", ("r", x.nbytes, 80))])
        assert gpu.read(x.nbytes, 80) == numpy.float32(expected).tobytes()
    assert server.bindings.runs == ["gpu, made"]
    assert copies.bytes == {"between_devices": x.nbytes + 80}


def test_places_that_are_not_aligned(server):
    """Kernels with wide loads want 16 bytes, so the bytes are copied within the device."""
    x = images(1)
    expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
    server.bindings.clear()
    with Region(Http(server), bytes(4) + x.tobytes() + bytes(4096)) as gpu, Copies(server) as copies:
        ask(server, "digits_0", [in_region("image", x.shape, ("r", 4, x.nbytes))],
            [to_region("probabilities", ("r", 1028, 40))])
        assert gpu.read(1028, 40) == numpy.float32(expected).tobytes()
    assert server.bindings.runs == ["gpu, made"]
    assert copies.bytes == {"within_device": x.nbytes + 40}


def test_system_regions(server):
    x = images(2)
    expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
    server.bindings.clear()
    with Object(x.tobytes() + bytes(4096)) as shm:
        http = Http(server)
        http.register("host", shm.key, x.nbytes + 4096)
        ask(server, "digits_0", [in_region("image", x.shape, ("host", 0, x.nbytes))],
            [to_region("probabilities", ("host", x.nbytes, 80))])
        assert shm.read(x.nbytes, 80) == numpy.float32(expected).tobytes()
        http.unregister("host")
    assert server.bindings.runs == ["host, host"]


def test_models_with_instances_on_the_cpu(server):
    """Their tensors are in main memory, whichever instance runs: the server copies."""
    x = images(1)
    expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
    for model in ("digits_mixed", "digits_model"):
        with Region(Http(server), x.tobytes() + bytes(4096)) as gpu:
            for _ in range(4):
                ask(server, model, [in_region("image", x.shape, ("r", 0, x.nbytes))],
                    [to_region("probabilities", ("r", 1024, 40))])
                assert gpu.read(1024, 40) == numpy.float32(expected).tobytes()


def test_output_that_nobody_asks_for(server):
    """It is neither computed nor bound."""
    answer = ask(server, "fixed_0", [tensor("INPUT0", row(1))], ["OUTPUT1"])
    assert answer == {"OUTPUT1": ([1, N], (-row(1)).ravel().tolist())}
    assert server.bindings.runs == ["host, host"]
    ask(server, "fixed_0", [tensor("INPUT0", row(1))], ["OUTPUT1", "OUTPUT0"])
    assert server.bindings.runs[1:] == ["host, host host"]


def test_shape_that_is_known_after_the_run(server):
    """The runtime's memory on the GPU is copied to where the client wants the output."""
    values = numpy.float32([0, 1, 0, 2, 3])
    with Region(Http(server), values.tobytes() + bytes(4096)) as gpu, Copies(server) as copies:
        answer = ask(server, "nonzero_0", [in_region("INPUT", [5], ("r", 0, 20))],
                     [to_region("OUTPUT", ("r", 256, 100))])
        assert answer["OUTPUT"][0] == [1, 3]
        assert gpu.read(256, 24) == numpy.int64([1, 3, 4]).tobytes()
        assert copies_after(server, copies) == {"within_device": 24}
        small = post(server, "nonzero_0", [in_region("INPUT", [5], ("r", 0, 20))],
                     [to_region("OUTPUT", ("r", 256, 23))])
        assert small.status_code == 400 and "should be at least 24 bytes" in small.text
    with Copies(server) as copies:
        assert ask(server, "nonzero_0", [tensor("INPUT", values)])["OUTPUT"] == ([1, 3], [1, 3, 4])
        assert ask(server, "nonzero_0", [tensor("INPUT", 0 * values)])["OUTPUT"] == ([1, 0], [])
    assert copies.bytes == {"to_host": 24}
    assert server.bindings.runs == ["gpu, made", "gpu, made", "host, made", "host, made"]


def copies_after(server, copies):
    copies.__exit__()
    return copies.bytes


def test_strings_in_regions(server):
    """The server checks them on the host; the answer is written by the CPU and copied to the GPU."""
    raw = b"\3\0\0\0abc" + b"\0\0\0\0" + b"\2\0\0\0de"
    with Region(Http(server), raw + bytes(4096)) as gpu:
        answer = ask(server, "bytes_0", [in_region("INPUT0", [1, 3], ("r", 0, len(raw)), "BYTES")],
                     [to_region("OUTPUT0", ("r", 101, 200))])
        assert answer["OUTPUT0"][0] == [1, 3]
        assert gpu.read(101, len(raw)) == raw
    assert server.bindings.runs == ["host, made-host"]


def test_states_stay_on_the_gpu(server):
    """The next state is computed where the next request of the sequence reads it."""
    def send(value, **parameters):
        body = {"inputs": [tensor("INPUT", numpy.float32([[value, -value]]))],
                "parameters": {"sequence_id": 77, **parameters}}
        reply = requests.post(f"{server.url}/v2/models/mean_0/infer", json=body, timeout=SECONDS)
        assert reply.status_code == 200, reply.text
        return reply.json()["outputs"][0]["data"]

    assert send(2, sequence_start=True) == [2, -2]
    server.bindings.clear()
    with Copies(server) as copies:
        assert send(4) == [3, -3]
        assert send(9) == [5, -5]
    assert copies.bytes == {}
    assert server.bindings.runs == ["host gpu gpu, host gpu gpu"] * 2
    send(1, sequence_end=True)


# ---- batches ------------------------------------------------------------------------------------


def region_inputs(http, names, model_input="image", columns=64, device=0):
    """For each name a region with an input of one row, the row, and room for the output after it."""
    found = []
    for i, name in enumerate(names):
        x = images(1, seed=i + 10) if columns == 64 else row(100 * i)
        found.append((Region(http, x.tobytes() + bytes(2 * x.nbytes), name, device), x,
                      in_region(model_input, x.shape, (name, 0, x.nbytes))))
    return found


def test_batch_of_host_inputs(server):
    xs = [images(1, seed) for seed in range(3)]
    answers = one_batch_of_3(server, "digits_of_3",
                             *(lambda x=x: ask(server, "digits_of_3", [tensor("image", x)]) for x in xs))
    assert server.bindings.runs == ["host, made"]
    for x, answer in zip(xs, answers):
        assert_close(answer, ask(server, "digits_cpu", [tensor("image", x)]))


def assert_close(answer, expected):
    """A batch may be added up in another order."""
    for name, (shape, data) in expected.items():
        assert answer[name][0] == shape and answer[name][1] == pytest.approx(data, abs=1e-6)


def test_batch_of_mixed_inputs(server):
    """One on the GPU, one on another GPU, one on the host: they are gathered on the GPU; two outputs go to regions."""
    http, host = Http(server), images(1, 5)
    (zero, x0, in0), = region_inputs(http, ["zero"])
    (one, x1, in1), = region_inputs(http, ["one"], device=1)
    with zero, one, Copies(server) as copies:
        out = [to_region("probabilities", (name, 256, 40)) for name in ("zero", "one")]
        answers = one_batch_of_3(server, "digits_of_3",
                                 lambda: ask(server, "digits_of_3", [in0], [out[0]]),
                                 lambda: ask(server, "digits_of_3", [in1], [out[1]]),
                                 lambda: ask(server, "digits_of_3", [tensor("image", host)]))
        found = [numpy.frombuffer(memory.read(256, 40), numpy.float32).tolist() for memory in (zero, one)]
    assert copies.bytes == {"within_device": 256 + 40, "between_devices": 256 + 40, "to_device": 256, "to_host": 40}
    assert server.bindings.runs == ["gpu, made"]
    for x, got in ((x0, found[0]), (x1, found[1]), (host, answers[2]["probabilities"][1])):
        expected = ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1]
        assert got == pytest.approx(expected, abs=1e-6)


def test_ragged_inputs_in_regions(server):
    """X of two requests is flat over the batch on whichever GPU runs it, and Y is cut into their regions."""
    http = Http(server)
    xs = [numpy.float32([[1, 2, 3]]), numpy.float32([[4, 5], [6, 7]])]
    with Region(http, xs[0].tobytes() + bytes(4096), "a") as a, \
            Region(http, xs[1].tobytes() + bytes(4096), "b", device=1) as b:
        def send(name, x):
            return ask(server, "ragged",
                       [in_region("X", x.shape, (name, 0, x.nbytes)), tensor("ROWS", numpy.zeros([len(x), 1]))],
                       [to_region("Y", (name, 512, x.nbytes)), "SEEN"])

        with Copies(server) as copies:
            answers = at_once(*(lambda name=name, x=x: send(name, x) for name, x in zip("ab", xs)))
        for memory, x, answer in zip((a, b), xs, answers):
            assert answer["Y"] == (list(x.shape), None)
            assert memory.read(512, x.nbytes) == (2 * x).tobytes()
        seen_bytes = sum(4 * len(answer["SEEN"][1]) for answer in answers)
    # One region is on the instance's GPU, the other one is not.
    assert copies.bytes["to_host"] == seen_bytes and "to_device" not in copies.bytes
    assert copies.bytes["within_device"] + copies.bytes["between_devices"] == 2 * (12 + 16)
    assert server.bindings.runs[0].startswith("gpu host") and server.bindings.runs[0].endswith("made made")


def test_two_instances_on_one_gpu(server):
    """They share the session, and each has its own binding and scratch memory."""
    with contextlib.ExitStack() as stack:
        regions = region_inputs(Http(server), [f"r{i}" for i in range(8)])
        for region, _, _ in regions:
            stack.enter_context(region)

        def send(number):
            region, x, one = regions[number]
            for i in range(25):
                where = 256 + 4 * i  # mostly not aligned
                ask(server, "digits_twice", [one], [to_region("probabilities", (region.name, where, 40))])
                assert numpy.frombuffer(region.read(where, 40), numpy.float32).tolist() == pytest.approx(
                    expected[number], abs=1e-6)

        expected = [ask(server, "digits_cpu", [tensor("image", x)])["probabilities"][1] for _, x, _ in regions]
        at_once(*(lambda number=number: send(number) for number in range(8)))


def test_batch_of_open_shapes(server):
    """Requests of two shapes that came together are two runs."""
    xs = [numpy.float32([[1, 2]]), numpy.float32([[3, 4]]), numpy.float32([[5, 6, 7]])]
    answers = at_once(*(lambda x=x: ask(server, "open_batches", [tensor("INPUT0", x)]) for x in xs[:2]),
                      lambda: ask(server, "open_batches", [tensor("INPUT0", xs[2])]))
    for x, answer in zip(xs, answers):
        assert answer["OUTPUT0"] == (list(x.shape), (2 * x).ravel().tolist())
        assert answer["OUTPUT1"] == (list(x.shape), (-x).ravel().tolist())


def test_batch_with_a_bad_request(server):
    """The runtime refuses the batch; then only the bad one fails."""
    http = Http(server)
    with Region(http, numpy.int64([2]).tobytes() + bytes(4096)) as gpu:
        replies = one_batch_of_3(
            server, "lookup_0",
            lambda: post(server, "lookup_0", [in_region("INDEX", [1, 1], ("r", 0, 8), "INT64")],
                         [to_region("OUTPUT", ("r", 512, 8))]),
            lambda: post(server, "lookup_0", [tensor("INDEX", numpy.int64([[99]]), "INT64")]),
            lambda: post(server, "lookup_0", [tensor("INDEX", numpy.int64([[3]]), "INT64")]))
        assert gpu.read(512, 8) == numpy.float32([4, 5]).tobytes()
    assert [reply.status_code for reply in replies] in ([200, 400, 200], [200, 500, 200])
    assert "99" in replies[1].text
    assert replies[2].json()["outputs"][0]["data"] == [6, 7]


# ---- ensembles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model, runs, copied", [
    ("fixed_line", ["gpu, gpu", "gpu, gpu"], {}),
    ("open_line", ["gpu, made", "gpu, made"], {"within_device": 2 * BYTES}),
])
def test_two_steps_on_one_gpu(server, model, runs, copied):
    """No byte passes through main memory: neither between the steps nor to and from the client."""
    x = row(3)
    with Region(Http(server), x.tobytes() + bytes(3 * BYTES)) as gpu, Copies(server) as copies:
        ask(server, model, [in_region("INPUT0", x.shape, ("r", 0, BYTES))],
            [to_region("OUTPUT0", ("r", 2 * BYTES, BYTES))])
        assert gpu.read(2 * BYTES, BYTES) == (4 * x).tobytes()
    assert server.bindings.runs == runs
    assert copies.bytes == copied


def test_two_steps_with_a_client_on_the_host(server):
    x = row(3)
    with Copies(server) as copies:
        assert ask(server, "fixed_line", [tensor("INPUT0", x)])["OUTPUT0"] == ([1, N], (4 * x).ravel().tolist())
    assert copies.bytes == {}
    assert server.bindings.runs == ["host, gpu", "gpu, host"]


def test_two_steps_on_two_gpus(server):
    x = row(3)
    with Copies(server) as copies:
        assert ask(server, "two_gpus", [tensor("INPUT0", x)])["OUTPUT0"] == ([1, N], (4 * x).ravel().tolist())
    assert copies.bytes == {"between_devices": BYTES}
    assert server.bindings.runs == ["host, gpu", "gpu, host"]


# ---- errors of the driver, memory ---------------------------------------------------------------


def few(repository, folder, *names):
    target = folder / "few"
    target.mkdir()
    for name in names:
        (target / name).symlink_to(repository / name)
    return target


def test_failed_copies_of_outputs(repository, tmp_path):
    """All outputs of a batch are copied together. When that fails, only the request fails whose copy does."""
    control = tmp_path / "control"
    control.write_text("FAIL=\n")
    with opens(tmp_path / "server", few(repository, tmp_path, "fixed_of_3"), CONTROL=control) as server:
        http = Http(server)
        regions = region_inputs(http, ["a", "b", "c"], "INPUT0", N)
        with contextlib.ExitStack() as stack:
            for region, _, _ in regions:
                stack.enter_context(region)
            # The copies of the outputs together, of which the first fails, and then one by one.
            control.write_text("FAIL=cuMemcpyDtoDAsync:1:999,cuMemcpyDtoDAsync:3:999\n")
            replies = one_batch_of_3(server, "fixed_of_3", *(
                lambda region=region, x=x: post(server, "fixed_of_3", [tensor("INPUT0", x)],
                                                [to_region("OUTPUT0", (region.name, 2 * BYTES, BYTES))])
                for region, x, _ in regions))
            assert sorted(reply.status_code for reply in replies) == [200, 200, 503]
            for (region, x, _), reply in zip(regions, replies):
                if reply.status_code == 200:
                    assert region.read(2 * BYTES, BYTES) == (2 * x).tobytes()
                else:
                    assert "unable to copy 4000 bytes" in reply.text and "999" in reply.text
            control.write_text("FAIL=\n\n")
            answers = one_batch_of_3(server, "fixed_of_3", *(
                lambda x=x: ask(server, "fixed_of_3", [tensor("INPUT0", x)], ["OUTPUT0"]) for _, x, _ in regions))
            assert [answer["OUTPUT0"][1] for answer in answers] == [(2 * x).ravel().tolist() for _, x, _ in regions]


def test_failed_copies_of_inputs(repository, tmp_path):
    """Inputs that cannot be gathered are run one by one, where they lie."""
    control = tmp_path / "control"
    control.write_text("FAIL=\n")
    with opens(tmp_path / "server", few(repository, tmp_path, "fixed_of_3"), CONTROL=control) as server:
        regions = region_inputs(Http(server), ["a", "b", "c"], "INPUT0", N)
        with contextlib.ExitStack() as stack:
            for region, _, _ in regions:
                stack.enter_context(region)
            control.write_text("FAIL=cuMemcpyDtoDAsync:1+:999\n")
            answers = one_batch_of_3(server, "fixed_of_3", *(
                lambda one=one: ask(server, "fixed_of_3", [one], ["OUTPUT0"]) for _, _, one in regions))
            assert [answer["OUTPUT0"][1] for answer in answers] == [(2 * x).ravel().tolist() for _, x, _ in regions]
            assert server.bindings.runs == ["gpu, host"] * 3


def test_failed_run_of_the_driver(repository, tmp_path):
    """The runtime's error is the request's, and the next request is served."""
    control = tmp_path / "control"
    control.write_text("FAIL=\n")
    with opens(tmp_path / "server", few(repository, tmp_path, "fixed_0"), CONTROL=control) as server:
        for function in ("cuMemcpyHtoDAsync", "cuMemAlloc", "cuMemcpyDtoHAsync"):
            control.write_text(f"FAIL={function}:1+:999\n")
            reply = post(server, "fixed_0", [tensor("INPUT0", row(0))])
            assert reply.status_code == 500 and "onnx runtime error" in reply.text and "999" in reply.text
            control.write_text("FAIL=\n\n")
            assert ask(server, "fixed_0", [tensor("INPUT0", row(1))])["OUTPUT0"][1] == (2 * row(1)).ravel().tolist()


def test_reloads_leave_nothing(repository, tmp_path):
    """The stand-in reports memory that is left on a device at the end of the server."""
    names = ("digits_of_3", "fixed_0", "open_0")
    with opens(tmp_path / "server", few(repository, tmp_path, *names), "--model-control-mode=explicit") as server:
        http = Http(server)
        for i in range(100):
            name = names[i % 3]
            assert requests.post(f"{server.url}/v2/repository/models/{name}/load", timeout=SECONDS).status_code == 200
            if name == "digits_of_3":
                regions = region_inputs(http, ["a", "b", "c"])
                with contextlib.ExitStack() as stack:
                    for region, _, _ in regions:
                        stack.enter_context(region)
                    one_batch_of_3(server, name, *(lambda one=one: ask(server, name, [one]) for _, _, one in regions))
                assert used_bytes(server) > 0
            else:
                ask(server, name, [tensor("INPUT0", row(i))])
            assert requests.post(f"{server.url}/v2/repository/models/{name}/unload", timeout=SECONDS).status_code == 200
            until_unloaded(server, name)
        assert used_bytes(server) == 0


def until_unloaded(server, name):
    gone = f'neso_model_ready{{model="{name}",version="1"}}'
    for _ in range(1000):
        if metrics(server).get(gone, 0) == 0:
            index = requests.post(f"{server.url}/v2/repository/index", timeout=SECONDS).json()
            if [one for one in index if one["name"] == name and one.get("reason") == "unloaded"]:
                return
    raise AssertionError(f"{name} is not unloaded")
