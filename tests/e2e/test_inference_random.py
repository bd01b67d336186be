# SPDX-License-Identifier: BSD-3-Clause
"""Random inferences through HTTP, gRPC (unary, streams) and the C API: equal outputs or the same refusal.

A case is right at first; then up to two mistakes are made in it: a name, a type, a shape, a size, an output,
a parameter. What a way cannot say (bytes that do not fit a shape, in JSON) is not sent that way.

NESO_RANDOM_SECONDS and NESO_RANDOM_SEED make it longer and different; a failure prints the seed of its case.
"""
import dataclasses
import os
import time

import numpy

from grpc_stubs import client, stubs  # noqa: F401
from infer_ways import (CONTENTS, DTYPES, STATUSES, Answer, Case, Failure, GrpcRaw, GrpcStream,
                        GrpcTyped, HttpBinary, HttpJson, HttpMixed, InProcess, Tensor, strings)
from test_inference_matrix import content, expected, identity, open_dims

BACKENDS = ("identity", "testing")
TAKES_SECONDS = 15

RANDOM_SECONDS = float(os.environ.get("NESO_RANDOM_SECONDS", "6"))
RANDOM_SEED = int(os.environ.get("NESO_RANDOM_SEED", "20"))
PER_ROUND = 60  # each round starts the program of the C API once
MIN_CASES = 120  # also on a busy machine

RESPONSE_PARAMETERS = 'parameters { key: "response_parameters" value { string_value: "true" } }\n'
# (datatype, rank) of each input; dims of the configuration; max_batch_size.
SIGNATURES = {
    "plain": ([("FP32", 1)], 0), "batched": ([("INT64", 1), ("FP64", 2)], 8),
    "dynamic": ([("UINT8", 1), ("BYTES", 1)], 4), "texts": ([("BYTES", 2)], 0),
    "mixed": ([("INT8", 1), ("FP64", 2), ("BYTES", 1), ("BOOL", 3), ("UINT64", 1)], 0),
    "half": ([("FP16", 1), ("BF16", 1)], 0), "parameters": ([("INT32", 1)], 0),
}
MORE = {"dynamic": "dynamic_batching { }\n", "parameters": RESPONSE_PARAMETERS}
MODELS = {name: identity([(datatype, open_dims(rank)) for datatype, rank in inputs], batch,
                         MORE.get(name, "")) for name, (inputs, batch) in SIGNATURES.items()}
NAMES = ["INPUT0", "INPUT1", "OUTPUT0", "input0", "", "x" * 300, "\u00e9"]
PARAMETERS = [("text", "of mine"), ("number", -7), ("is", True), ("share", 0.25), ("", 1),
              ("priority", 3), ("priority", "high"), ("timeout", 5_000_000), ("timeout", True),
              ("sequence_id", 4), ("sequence_start", True), ("sequence_end", 1)]
# Parameters that are properties of a request: the C API has functions for them, and no wrong types. HTTP and
# gRPC name a wrong type each in the words of its messages.
RESERVED = {"priority", "timeout", "sequence_id", "sequence_start", "sequence_end", ""}
WRONG_TYPES = [("priority", "high"), ("timeout", True), ("sequence_end", 1)]


# ---- cases --------------------------------------------------------------------------------------


def pick(random, things):
    return things[random.integers(len(things))]


def made_input(random, number, datatype, shape):
    return Tensor(f"INPUT{number}", datatype, tuple(shape),
                  content(random, datatype, int(numpy.prod(shape))))


def right_case(random, name):
    model = pick(random, list(SIGNATURES))
    inputs, max_batch = SIGNATURES[model]
    prefix = [int(random.integers(1, max_batch + 1))] if max_batch else []
    tensors = tuple(made_input(random, n, datatype, prefix + random.integers(0, 4, rank).tolist())
                    for n, (datatype, rank) in enumerate(inputs))
    outputs = [f"OUTPUT{n}" for n in range(len(inputs)) if random.integers(2)]
    parameters = {name: value for name, value in PARAMETERS[:4] if random.integers(4) == 0}
    return Case(model, tensors, tuple(outputs), tuple(parameters.items()),
                name if random.integers(4) else "")


def changed(case, at, **fields):
    inputs = list(case.inputs)
    inputs[at] = dataclasses.replace(inputs[at], **fields)
    return dataclasses.replace(case, inputs=tuple(inputs))


def fitting(random, case, at, datatype, shape):
    """The input with another type or shape, and as many bytes as these say."""
    n = int(numpy.prod([max(dim, 0) for dim in shape]))
    return changed(case, at, datatype=datatype, shape=tuple(shape), content=content(random, datatype, n))


def wrong_shape(random, case, at):
    shape = list(case.inputs[at].shape)
    way = random.integers(4)
    if way == 0 or not shape:
        shape.append(1)
    elif way == 1:
        shape.pop()
    elif way == 2:
        shape[0] += int(random.integers(1, 9))
    else:
        shape[-1] = 0
    return fitting(random, case, at, case.inputs[at].datatype, shape)


def wrong_size(random, case, at):
    old = case.inputs[at].content
    cut = int(random.integers(1, 5))
    return changed(case, at, content=old[:-cut] if random.integers(2) else old + b"\0" * cut)


def wrong_output(random, case, at):  # pylint: disable=unused-argument
    outputs = list(case.outputs)
    outputs.insert(int(random.integers(len(outputs) + 1)), pick(random, NAMES + ["OUTPUT1", "OUTPUT9"]))
    return dataclasses.replace(case, outputs=tuple(outputs))


def without_input(random, case, at):  # pylint: disable=unused-argument
    return dataclasses.replace(case, inputs=case.inputs[:at] + case.inputs[at + 1:])


def input_twice(random, case, at):  # pylint: disable=unused-argument
    return dataclasses.replace(case, inputs=case.inputs + (case.inputs[at],))


def other_parameter(random, case, at):  # pylint: disable=unused-argument
    return dataclasses.replace(case, parameters=tuple(dict([*case.parameters, pick(random, PARAMETERS)]).items()))


def other_classes(random, case, at):  # pylint: disable=unused-argument
    outputs = case.outputs or tuple(f"OUTPUT{n}" for n in range(len(case.inputs)))
    return dataclasses.replace(case, outputs=outputs, classes=int(random.integers(1, 4)))


MISTAKES = [
    lambda random, case, at: changed(case, at, name=pick(random, NAMES)),
    lambda random, case, at: fitting(random, case, at, pick(random, [*DTYPES, "BYTES", "FP16"]),
                                     case.inputs[at].shape),
    lambda random, case, at: dataclasses.replace(case, model=pick(random, ["plain", "half", "nobody"])),
    wrong_shape, wrong_size, wrong_output, without_input, input_twice, other_parameter, other_classes,
]


def made_case(seed):
    random = numpy.random.default_rng([RANDOM_SEED, seed])
    case = right_case(random, f"case {seed}")
    for _ in range(pick(random, [0, 0, 1, 1, 1, 2])):
        if case.inputs:
            case = pick(random, MISTAKES)(random, case, int(random.integers(len(case.inputs))))
    return case


# ---- what each way can say ----------------------------------------------------------------------


def fits(tensor):
    """True when the values that the shape needs are all that the bytes hold."""
    n = int(numpy.prod(tensor.shape))
    if tensor.datatype == "BYTES":
        at = count = 0
        while at + 4 <= len(tensor.content):
            at += 4 + int.from_bytes(tensor.content[at:at + 4], "little")
            count += 1
        return at == len(tensor.content) and count == n
    return tensor.datatype in CONTENTS and len(tensor.content) == n * int(DTYPES[tensor.datatype][2:] or 1)


def has_values(case):
    return all(fits(tensor) for tensor in case.inputs)


def has_json(case):
    """The answer has them too: half floats have no text."""
    return has_values(case) and case.model != "half"


def has_c(case):
    return not case.classes and not any(name in RESERVED for name, _ in case.parameters)


SAYS = {"http_json": has_json, "http_mixed": lambda case: has_json(case) and not case.classes, "http_binary": lambda case: True,
        "grpc_raw": lambda case: True, "grpc_typed": lambda case: has_values(case) and not case.classes,
        "grpc_stream": lambda case: True, "in_process": has_c}


# ---- comparison ---------------------------------------------------------------------------------


def uniform(answer):
    """An answer with its outputs by name, and without what a stream adds; a failure as (code, text)."""
    if isinstance(answer, Answer):
        parameters = {name: value for name, value in answer.parameters.items() if name != "triton_final_response"}
        return dataclasses.replace(answer, parameters=parameters, outputs=tuple(sorted(
            (dataclasses.replace(o, labels=()) for o in answer.outputs), key=lambda o: o.name)))
    return (answer.code, answer.text) if isinstance(answer, Failure) else tuple(answer)


def is_same(case, one, other):
    """Statuses of HTTP stand for several codes, and failures in a stream have none."""
    if isinstance(one, Answer) or isinstance(other, Answer):
        return one == other
    is_worded_alike = not any(parameter == wrong for parameter in case.parameters for wrong in WRONG_TYPES)
    codes = [{STATUSES.get(code, code)} if code != "" else set(STATUSES.values())
             for code in (one[0], other[0])]
    return (one[1] == other[1] or not is_worded_alike) and bool(codes[0] & codes[1])


def check(seeds, cases, answers):
    for number, case in enumerate(cases):
        got = {way: uniform(answers[way][number]) for way in answers if number in answers[way]}
        first = got["grpc_raw"]
        different = {way: answer for way, answer in got.items() if not is_same(case, first, answer)}
        assert not different, (f"NESO_RANDOM_SEED={RANDOM_SEED}, case {seeds[number]}", case,
                               {"grpc_raw": first, **different})


def test_all_ways_agree(server, client, tmp_path):  # noqa: F811
    ways = {"http_json": HttpJson(server), "http_binary": HttpBinary(server), "http_mixed": HttpMixed(server),
            "grpc_raw": GrpcRaw(client), "grpc_typed": GrpcTyped(client), "grpc_stream": GrpcStream(client),
            "in_process": InProcess(server, tmp_path)}
    deadline, done, n_right = time.monotonic() + RANDOM_SECONDS, 0, 0
    while done < MIN_CASES or time.monotonic() < deadline:
        seeds = range(done, done + PER_ROUND)
        cases = [made_case(seed) for seed in seeds]
        answers = {}
        for name, way in ways.items():
            said = [number for number, case in enumerate(cases) if SAYS[name](case)]
            answers[name] = dict(zip(said, way.send([cases[number] for number in said])))
        check(seeds, cases, answers)
        n_right += sum(isinstance(answer, Answer) for answer in answers["grpc_raw"].values())
        done += PER_ROUND
    assert done // 5 < n_right < done  # both kinds come
    print(f"{done} cases, {n_right} were answered")


def test_a_case_that_is_right_is_answered(client):  # noqa: F811
    """The generator's first step makes no mistakes, so that others are what the second one made."""
    random = numpy.random.default_rng(1)
    cases = [right_case(random, "right") for _ in range(30)]
    for case, answer in zip(cases, GrpcRaw(client).send(cases)):
        want = expected(case)
        assert uniform(answer) == uniform(want), case


def test_strings_is_little_endian():
    assert fits(Tensor("a", "BYTES", (2,), strings([b"a", b""])))
    assert not fits(Tensor("a", "BYTES", (1,), strings([b"a", b""])))
