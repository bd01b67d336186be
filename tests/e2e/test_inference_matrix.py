# SPDX-License-Identifier: BSD-3-Clause
"""The same inferences through HTTP (JSON, binary), gRPC (raw, typed) and the C API: the same bytes.

Every data type, with one to four dimensions and without any, empty tensors, batches of many sizes,
values at the edges. Values are random but the same in each run.
"""
import itertools

import numpy
import pytest

from grpc_stubs import client, stubs  # noqa: F401
from infer_ways import (DTYPES, STATUSES, Answer, Case, Failure, GrpcRaw, GrpcTyped, HttpBinary,
                        HttpJson, HttpMixed, InProcess, Tensor, strings)

BACKENDS = ("identity", "testing")
MIB = 1 << 20

WAYS = ("http_json", "http_binary", "grpc_raw", "grpc_typed", "in_process")
BATCHES = (1, 2, 3, 7, 8, 16, 64)
RANKS = (0, 1, 2, 3, 4)
ONLY_RAW = ("FP16", "BF16")  # neither JSON nor the contents of gRPC have them
TYPES = (*DTYPES, *ONLY_RAW, "BYTES")

# Bits that each type with a row must carry. Floats: 0, -0, the smallest subnormal, -the largest one, 1,
# the largest number, infinities, NaN.
EDGES = {
    "FP16": (0, 0x8000, 1, 0x83ff, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7e00),
    "BF16": (0, 0x8000, 1, 0x807f, 0x3f80, 0x7f7f, 0x7f80, 0xff80, 0x7fc0),
    "FP32": (0, 0x80000000, 1, 0x807fffff, 0x3f800000, 0x7f7fffff, 0x7f800000, 0xff800000,
             0x7fc00000),
    "FP64": (0, 1 << 63, 1, (1 << 63) + (1 << 52) - 1, 0x3ff << 52, (0x7ff << 52) - 1, 0x7ff << 52,
             0xfff << 52, 0x7ff8 << 48),
}
BITS = {"FP16": "<u2", "BF16": "<u2", "FP32": "<u4", "FP64": "<u8"}
# The bits that are all set in infinities and NaN. A type without a row has neither.
INFINITY = {"FP16": 0x7c00, "BF16": 0x7f80, "FP32": 0x7f800000, "FP64": 0x7ff << 52}


# ---- the models ---------------------------------------------------------------------------------


def kind_of(datatype):
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def tensors(kind, name, datatypes_and_dims):
    return "".join(f'{kind} {{ name: "{name}{n}" data_type: {kind_of(datatype)} {dims} }}\n'
                   for n, (datatype, dims) in enumerate(datatypes_and_dims))


def identity(datatypes_and_dims, max_batch_size=0, more=""):
    return (f'backend: "identity"\nmax_batch_size: {max_batch_size}\n' + more
            + tensors("input", "INPUT", datatypes_and_dims)
            + tensors("output", "OUTPUT", datatypes_and_dims))


def open_dims(rank):
    return f"dims: {[-1] * rank}"


# For clients of one dimension, as a configuration has to name one; for the model of none behind
# the batch. Without batches the model has to see one as well.
SCALAR = "dims: [ 1 ] reshape { shape: [ ] }"
ONE = "dims: [ 1 ] reshape { shape: [ 1, 1 ] }"


def all_ranks(datatype, scalar):
    return [(datatype, open_dims(rank) if rank > 0 else scalar) for rank in RANKS]


MIXED = [("INT8", open_dims(1)), ("FP64", open_dims(2)), ("BYTES", open_dims(1)),
         ("BOOL", open_dims(3)), ("UINT64", "dims: [ 1 ]")]
MIXED_RAW = [*MIXED, ("FP16", open_dims(1)), ("BF16", open_dims(2))]
ANSWERS_PARAMETERS = 'parameters { key: "response_parameters" value { string_value: "true" } }\n'

MODELS = {
    **{f"{t}_plain": identity(all_ranks(t, ONE)) for t in TYPES},
    **{f"{t}_batched": identity(all_ranks(t, SCALAR), 64) for t in TYPES},
    **{f"{t}_dynamic": identity(all_ranks(t, SCALAR), 64, "dynamic_batching { }\n") for t in TYPES},
    "mixed": identity(MIXED),
    "mixed_dynamic": identity(MIXED, 64, "dynamic_batching { }\n"),
    "mixed_raw": identity(MIXED_RAW, 64),
    "parameters": identity(MIXED, more=ANSWERS_PARAMETERS),
    "one": identity([("FP32", open_dims(1))], 8),
    "strings": identity([("BYTES", open_dims(1))]),
    "testing": ('backend: "testing"\n' + tensors("input", "INPUT", [("FP32", "dims: [-1]")])
                + tensors("output", "OUTPUT", [("FP32", "dims: [-1]")])),
}


# ---- the values ---------------------------------------------------------------------------------


def bits_content(random, datatype, n):
    """Any bits but those of NaN, of which only one kind survives JSON; then the edges."""
    bits = numpy.frombuffer(random.bytes(n * int(BITS[datatype][2])), BITS[datatype]).copy()
    infinity = bits.dtype.type(INFINITY.get(datatype, 0))
    is_special = (bits & infinity) == infinity  # with 0, the next line changes nothing
    bits[is_special] ^= infinity
    n_edges = min(n, len(EDGES[datatype]))
    bits[:n_edges] = numpy.array(EDGES[datatype], bits.dtype)[:n_edges]
    random.shuffle(bits)
    return bits.tobytes()


def integer_content(random, datatype, n):
    limits = numpy.iinfo(DTYPES[datatype])
    values = random.integers(limits.min, limits.max, n, DTYPES[datatype], endpoint=True)
    values[:2] = [limits.min, limits.max][:n]
    random.shuffle(values)
    return values.tobytes()


TEXTS = ["", "a", "\0", "\u00e9 \u65e5\u672c \U0001f600", '"\\/\b\f\n\r\t\x7f', "x" * 300, " "]


def text_content(random, n):
    return strings(TEXTS[i].encode() for i in random.integers(0, len(TEXTS), n))


def content(random, datatype, n):
    if datatype == "BYTES":
        return text_content(random, n)
    if datatype == "BOOL":
        return random.integers(0, 2, n, numpy.uint8).tobytes()
    if datatype in EDGES:
        return bits_content(random, datatype, n)
    return integer_content(random, datatype, n)


def inputs_of(random, datatypes, shapes):
    return tuple(Tensor(f"INPUT{n}", datatype, tuple(shape),
                        content(random, datatype, int(numpy.prod(shape))))
                 for n, (datatype, shape) in enumerate(zip(datatypes, shapes)))


def shapes(random, batch, at_least=1):
    """One of each rank, behind the batch if there is one."""
    prefix = () if batch is None else (batch,)
    return [prefix + (tuple(random.integers(at_least, 4, rank).tolist()) if rank else (1,))
            for rank in RANKS]


def cases_of(datatype):
    """Names are of use in a failure."""
    random = numpy.random.default_rng(TYPES.index(datatype))

    def case(model, made):
        return Case(f"{datatype}_{model}", inputs_of(random, [datatype] * len(RANKS), made),
                    id=f"{datatype} {model} {made}")

    for batch, model in itertools.product(BATCHES, ("batched", "dynamic")):
        yield case(model, shapes(random, batch))
    for _ in range(5):
        yield case("plain", shapes(random, None))
    yield case("plain", [(1,), (13,), (5, 3), (2, 1, 7), (1, 1, 1, 1)])
    # Without elements, in the ways of each rank.
    yield case("plain", [(1,), (0,), (0, 3), (2, 0, 2), (0, 0, 0, 0)])
    yield case("batched", [(2, 1), (2, 0), (2, 3, 0), (2, 0, 1, 1), (2, 1, 1, 0, 4)])


def expected(case):
    """What a model that repeats its inputs answers."""
    outputs = tuple(Tensor(t.name.replace("INPUT", "OUTPUT"), t.datatype, t.shape, t.content)
                    for t in case.inputs)
    if case.outputs:
        outputs = tuple(o for o in outputs if o.name in case.outputs)
    parameters = {}
    if case.model == "parameters":
        parameters = {"param0": "an example string parameter", "param1": 42, "param2": False}
    return Answer(case.model, "1", case.id, parameters, outputs)


# ---- the ways -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ways(server, client, tmp_path_factory):  # noqa: F811
    return {"http_json": HttpJson(server), "http_binary": HttpBinary(server),
            "http_mixed": HttpMixed(server), "grpc_raw": GrpcRaw(client),
            "grpc_typed": GrpcTyped(client),
            "in_process": InProcess(server, tmp_path_factory.mktemp("in_process"))}


@pytest.fixture(scope="module")
def in_process(ways):
    """The C program serves all types at once: to start it costs more than the inferences."""
    cases = [case for datatype in TYPES for case in cases_of(datatype)]
    return dict(zip((case.id for case in cases), ways["in_process"].send(cases)))


def check(cases, answers):
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers):
        assert answer == expected(case), case.id


# What is missing here has test_types_without_a_text.
TYPES_AND_WAYS = [(datatype, way) for datatype, way in itertools.product(TYPES, WAYS)
                  if datatype not in ONLY_RAW or way in ("http_binary", "grpc_raw", "in_process")]


@pytest.mark.parametrize("datatype,way", TYPES_AND_WAYS)
def test_every_type(request, ways, way, datatype):
    cases = list(cases_of(datatype))
    if way == "in_process":
        answers = [request.getfixturevalue("in_process")[case.id] for case in cases]
    else:
        answers = ways[way].send(cases)
    check(cases, answers)


def test_edges_are_there():
    """The cases hold what this page says."""
    for datatype, bits in EDGES.items():
        seen = b"".join(t.content for case in cases_of(datatype) for t in case.inputs)
        assert set(bits) <= set(numpy.frombuffer(seen, BITS[datatype]).tolist())
    for datatype in ("INT8", "INT64", "UINT64"):
        seen = b"".join(t.content for case in cases_of(datatype) for t in case.inputs)
        limits = numpy.iinfo(DTYPES[datatype])
        assert {limits.min, limits.max} <= set(numpy.frombuffer(seen, DTYPES[datatype]).tolist())
    assert any(0 in t.shape for case in cases_of("BYTES") for t in case.inputs)


class JsonOfAnyType(HttpJson):
    def add_content(self, number, tensor, sent):
        sent["data"] = [1.0] * int(numpy.prod(tensor.shape))
        return b""


class BinaryForJson(HttpBinary):
    def request(self, case):
        head, tail = super().request(case)
        del head["parameters"]["binary_data_output"]
        return head, tail


@pytest.mark.parametrize("datatype", ONLY_RAW)
def test_types_without_a_text(server, client, datatype):  # noqa: F811
    """JSON and typed contents do not have these types, and the error says so."""
    case = next(cases_of(datatype))
    advice = f"{datatype} data via JSON is not supported. Please use the binary data format for"
    assert JsonOfAnyType(server).send([case]) == [(400, f"receiving {advice} input INPUT0")]
    assert BinaryForJson(server).send([case]) == [(400, f"sending {advice} output")]
    assert client.infer_refusal(case.model, [
        ("INPUT0", datatype, [1, 1], {"fp32_contents": [1.0]})]) == (
            "INVALID_ARGUMENT", "unexpected explicit tensor data for input tensor 'INPUT0' for "
                                f"model '{case.model}' of type 'FP32', expected datatype "
                                f"'{datatype}'")


@pytest.mark.parametrize("way", ("http_binary", "grpc_raw", "in_process"))
def test_every_bit_pattern(ways, way):
    """Signalling NaN, NaN with a payload and a sign: bytes are not touched."""
    every = numpy.arange(1 << 16, dtype="<u2")
    fp32 = (every.astype("<u4") << 16 | 1).tobytes()
    fp64 = (every.astype("<u8") << 48 | 1).tobytes()
    one = {"FP16": every.tobytes(), "BF16": every.tobytes(), "FP32": fp32, "FP64": fp64}
    cases = []
    for datatype, bits in one.items():
        width = len(bits) >> 16
        cases.append(Case(f"{datatype}_plain", (
            Tensor("INPUT0", datatype, (1,), bits[:width]),
            Tensor("INPUT1", datatype, (1 << 16,), bits),
            Tensor("INPUT2", datatype, (2, 1 << 15), bits),
            Tensor("INPUT3", datatype, (1, 1, 1), bits[-width:]),
            Tensor("INPUT4", datatype, (0, 1, 1, 1), b"")), id=datatype))
    check(cases, ways[way].send(cases))


@pytest.mark.parametrize("way", WAYS)
def test_long_strings(ways, way):
    """Elements of 1 MiB beside empty ones."""
    rows = [[b"x" * MIB], [b"", b"y" * MIB, b"", b"z" * (MIB - 1), b"\n" * MIB], [b""] * 1000,
            [b""], []]
    cases = [Case("strings", (Tensor("INPUT0", "BYTES", (len(row),), strings(row)),), id=str(n))
             for n, row in enumerate(rows)]
    check(cases, ways[way].send(cases))


@pytest.mark.parametrize("way", ("http_binary", "grpc_raw", "grpc_typed", "in_process"))
def test_strings_that_are_no_text(ways, way):
    row = [bytes(range(256)), b"\xff", b"\xc0\x80", b"\0\0", b""]
    cases = [Case("strings", (Tensor("INPUT0", "BYTES", (5,), strings(row)),))]
    check(cases, ways[way].send(cases))


# ---- several inputs of several types ------------------------------------------------------------


def mixed_cases(raw=False):
    random = numpy.random.default_rng(99)
    names = [datatype for datatype, _ in (MIXED_RAW if raw else MIXED)]

    def made(prefix):
        shaped = [(5,), (2, 3), (4,), (1, 2, 2), (1,), (6,), (3, 2)]
        return inputs_of(random, names, [prefix + shape for shape in shaped[:len(names)]])

    def turned(inputs, by):
        return inputs[by:] + inputs[:by]

    if raw:
        for batch in (1, 5, 64):
            yield Case("mixed_raw", made((batch,)), id=f"raw {batch}")
            yield Case("mixed_raw", turned(made((batch,)), 3), ("OUTPUT6", "OUTPUT0", "OUTPUT5"),
                       id=f"raw {batch} of three")
        return
    for by, asked in itertools.product((0, 1, 3), (
            (), ("OUTPUT2",), ("OUTPUT4", "OUTPUT1"),
            ("OUTPUT3", "OUTPUT2", "OUTPUT1", "OUTPUT0", "OUTPUT4"))):
        own = (("text", "of mine"), ("count", -7), ("is", True), ("share", 0.25))
        yield Case("mixed", turned(made(()), by), asked, own[:by], f"mixed {by} {asked}")
        yield Case("parameters", turned(made(()), by), asked, own, f"parameters {by} {asked}")
        yield Case("mixed_dynamic", turned(made((by + 1,)), by), asked, (), f"batch {by} {asked}")


def by_name(answer):
    """Backends allocate outputs in their order; a request may name them in another."""
    if not isinstance(answer, Answer):
        return answer
    return {**vars(answer), "outputs": sorted(answer.outputs, key=lambda t: t.name)}


@pytest.mark.parametrize("way", (*WAYS, "http_mixed"))
def test_mixed(ways, way):
    cases = list(mixed_cases())
    answers = ways[way].send(cases)
    for case, answer in zip(cases, answers):
        assert by_name(answer) == by_name(expected(case)), case.id


@pytest.mark.parametrize("way", ("http_binary", "grpc_raw", "in_process"))
def test_mixed_with_half_floats(ways, way):
    cases = list(mixed_cases(raw=True))
    for case, answer in zip(cases, ways[way].send(cases)):
        assert by_name(answer) == by_name(expected(case)), case.id


def test_outputs_have_the_same_order(ways):
    cases = list(mixed_cases())
    orders = {way: [[o.name for o in answer.outputs] for answer in ways[way].send(cases)]
              for way in WAYS}
    assert all(order == orders["in_process"] for order in orders.values()), orders


# ---- what is refused ----------------------------------------------------------------------------


def fp32(*values, name="INPUT0", shape=None, datatype="FP32"):
    return Tensor(name, datatype, shape or (1, len(values)),
                  numpy.array(values, "<f4").tobytes())


TESTING = (fp32(1, shape=(1,)),)
REFUSED = {
    "unknown model": (Case("nobody", (fp32(1),)), "NOT_FOUND",
                      "Request for unknown model: 'nobody' is not found"),
    "no input": (Case("one", ()), "INVALID_ARGUMENT",
                 "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'one'. "
                 "Got input(s) [], but missing required input(s) ['INPUT0']. Please provide all "
                 "required input(s)."),
    "unknown input": (Case("one", (fp32(1, name="OTHER"),), id="7"), "INVALID_ARGUMENT",
                      "unexpected inference input 'OTHER' for model 'one'"),
    "unknown output": (Case("one", (fp32(1),), ("OTHER",), id="7"), "INVALID_ARGUMENT",
                       "unexpected inference output 'OTHER' for model 'one'"),
    "batch": (Case("one", (fp32(*range(9), shape=(9, 1)),), id="7"), "INVALID_ARGUMENT",
              "[request id: 7] inference request batch-size must be <= 8 for 'one'"),
    "rank": (Case("one", (fp32(1, shape=(1, 1, 1)),), id="7"), "INVALID_ARGUMENT",
             "[request id: 7] unexpected shape for input 'INPUT0' for model 'one'. Expected "
             "[-1,-1], got [1,1,1]. NOTE: Setting a non-zero max_batch_size in the model config "
             "requires a batch dimension to be prepended to each input shape. If you want to "
             "specify the full shape including the batch dim in your input dims config, try "
             "setting max_batch_size to zero. See the model configuration docs for more info on "
             "max_batch_size."),
    "by the model": (Case("testing", TESTING, (), (("fail", "as \u00e4sked"),)), "INTERNAL",
                     "as \u00e4sked"),
    "by the model, unavailable": (Case("testing", TESTING, (), (
        ("fail", "not now"), ("fail_code", "Unavailable"))), "UNAVAILABLE", "not now"),
    "by the model, unsupported": (Case("testing", TESTING, (), (
        ("fail", "not here"), ("fail_code", "Unsupported"))), "UNIMPLEMENTED", "not here"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_refused_alike(ways, way, name):
    case, code, text = REFUSED[name]
    got, = ways[way].send([case])
    assert got == ((STATUSES[code], text) if way.startswith("http") else Failure(code, text))


@pytest.mark.parametrize("way", ("http_binary", "grpc_raw", "in_process"))
def test_sizes_that_do_not_fit(ways, way):
    short = Case("one", (fp32(1, 2, shape=(1, 3)),), id="7")
    cut = Case("strings", (Tensor("INPUT0", "BYTES", (2,), strings([b"ab", b"cd"])[:-1]),), id="7")
    texts = ["[request id: 7] input byte size mismatch for input 'INPUT0' for model 'one'. Expected "
             "12, got 8",
             "[request id: 7] incomplete last string element for inference input 'INPUT0' for "
             "model 'strings', 1 bytes are missing"]
    got = ways[way].send([short, cut])
    assert got == [(400, text) if way == "http_binary" else Failure("INVALID_ARGUMENT", text)
                   for text in texts]
