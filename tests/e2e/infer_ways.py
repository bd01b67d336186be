# SPDX-License-Identifier: BSD-3-Clause
"""One inference, sent in six ways: `Case` is what is sent, `Answer` what comes back.

    HttpJson, HttpBinary     POST /v2/models/{m}/infer
    GrpcRaw, GrpcTyped       ModelInfer with raw_input_contents, with contents
    GrpcStream               ModelStreamInfer, a stream for each case
    InProcess                the C API (tests/abi/infer_cases.c)

Each way has send(cases), which gives the answers in the order of the cases. Tensors are little-endian
bytes in cases and answers, whatever the way makes of them.
"""
import concurrent.futures
import contextlib
import dataclasses
import json
import struct
import subprocess

import grpc
import numpy
import requests

from conftest import BUILD
from grpc_stubs import SECONDS, plain

DTYPES = {
    "BOOL": "?", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1",
    "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "FP32": "<f4", "FP64": "<f8",
}
CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
    "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
    "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}

# What an error of the core becomes, by its number in TRITONSERVER_Error_Code.
CODES = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARGUMENT", "UNAVAILABLE", "UNIMPLEMENTED",
         "ALREADY_EXISTS", "CANCELLED"]
STATUSES = {"UNKNOWN": 400, "INTERNAL": 500, "NOT_FOUND": 404, "INVALID_ARGUMENT": 400,
            "UNAVAILABLE": 503, "UNIMPLEMENTED": 501, "ALREADY_EXISTS": 400, "CANCELLED": 400}


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    datatype: str
    shape: tuple
    content: bytes
    labels: tuple = ()  # of its classes; only the C API tells them


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    inputs: tuple  # of Tensor
    outputs: tuple = ()  # names; () asks for all
    parameters: tuple = ()  # of (name, value)
    id: str = ""
    classes: int = 0  # of each of `outputs`, where there are any; the C API does not classify


@dataclasses.dataclass(frozen=True)
class Answer:
    model: str
    version: str
    id: str
    parameters: dict
    outputs: tuple  # of Tensor


@dataclasses.dataclass(frozen=True)
class Failure:
    code: str  # as gRPC has it
    text: str


def strings(texts):
    """A BYTES tensor."""
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def texts_of(content):
    texts, at = [], 0
    while at < len(content):
        size, = struct.unpack_from("<I", content, at)
        texts.append(content[at + 4:at + 4 + size])
        at += 4 + size
    return texts


def values_of(tensor):
    """As numbers, or bytes for BYTES."""
    if tensor.datatype == "BYTES":
        return texts_of(tensor.content)
    return numpy.frombuffer(tensor.content, DTYPES[tensor.datatype]).tolist()


def content_of(datatype, values):
    if datatype == "BYTES":
        return strings(text.encode() for text in values)
    return numpy.array(values, DTYPES[datatype]).tobytes()


# ---- HTTP ---------------------------------------------------------------------------------------


class Http:
    def __init__(self, server):
        self.url = f"{server.url}/v2/models"
        self.session = requests.Session()

    def send(self, cases):
        return [self.send_one(case) for case in cases]

    def send_one(self, case):
        head, tail = self.request(case)
        head = json.dumps(head).encode()
        reply = self.session.post(f"{self.url}/{case.model}/infer", data=head + tail,
                                  headers=self.headers(len(head)), timeout=SECONDS)
        if reply.status_code != 200:
            return reply.status_code, reply.json()["error"]
        length = int(reply.headers.get("Inference-Header-Content-Length", len(reply.content)))
        return self.answer(json.loads(reply.content[:length]), reply.content[length:])

    def answer(self, head, tail):
        """The tail holds the binary outputs in their order, and nothing else."""
        outputs, at = [], 0
        for output in head["outputs"]:
            if "data" in output:
                content = content_of(output["datatype"], output["data"])
            else:
                size = output["parameters"]["binary_data_size"]
                content, at = tail[at:at + size], at + size
            outputs.append(Tensor(output["name"], output["datatype"], tuple(output["shape"]),
                                  content))
        assert at == len(tail)
        return Answer(head["model_name"], head["model_version"], head.get("id", ""),
                      head.get("parameters", {}), tuple(outputs))

    def request(self, case):
        """JSON and the bytes behind it."""
        head = {"inputs": [], "parameters": dict(case.parameters)}
        if case.id:
            head["id"] = case.id
        if case.outputs:
            head["outputs"] = [{"name": name} for name in case.outputs]
        if case.classes:
            for output in head["outputs"]:
                output["parameters"] = {"classification": case.classes}
        tail = b""
        for number, tensor in enumerate(case.inputs):
            sent = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
            tail += self.add_content(number, tensor, sent)
            head["inputs"].append(sent)
        return head, tail

    def add_content(self, number, tensor, sent):
        raise NotImplementedError

    def headers(self, n_head):
        raise NotImplementedError


def add_values(tensor, sent):
    values = values_of(tensor)
    sent["data"] = [text.decode() for text in values] if tensor.datatype == "BYTES" else values
    return b""


def add_binary(tensor, sent):
    sent["parameters"] = {"binary_data_size": len(tensor.content)}
    return tensor.content


class HttpJson(Http):
    def add_content(self, number, tensor, sent):
        return add_values(tensor, sent)

    def headers(self, n_head):
        return {"Content-Type": "application/json"}  # and requests accepts compressed answers


class HttpBinary(Http):
    def request(self, case):
        """Outputs that are listed say each that they are binary, the others by the request."""
        head, tail = super().request(case)
        for output in head.get("outputs", ()):
            output.setdefault("parameters", {})["binary_data"] = True
        head["parameters"]["binary_data_output"] = True
        return head, tail

    def add_content(self, number, tensor, sent):
        return add_binary(tensor, sent)

    def headers(self, n_head):
        return {"Content-Type": "application/octet-stream", "Accept-Encoding": "identity",
                "Inference-Header-Content-Length": str(n_head)}


class HttpMixed(HttpBinary):
    """Every second input is JSON, every second output that is listed too."""

    def request(self, case):
        head, tail = super().request(case)
        for output in head.get("outputs", ())[::2]:
            del output["parameters"]
        return head, tail

    def add_content(self, number, tensor, sent):
        is_binary = number % 2 == 0 or tensor.datatype not in CONTENTS
        return (add_binary if is_binary else add_values)(tensor, sent)


# ---- gRPC ---------------------------------------------------------------------------------------


class Grpc:
    def __init__(self, client):
        self.client = client

    def send(self, cases):
        """All at the same time."""
        futures = [self.client.ModelInfer.future(self.request(case), timeout=SECONDS)
                   for case in cases]
        return [self.answer(future) for future in futures]

    def answer(self, future):
        try:
            reply = future.result()
        except grpc.RpcError as error:
            return Failure(error.code().name, error.details())
        return self.answer_of(reply)

    def answer_of(self, reply):
        assert len(reply.outputs) == len(reply.raw_output_contents)
        return Answer(reply.model_name, reply.model_version, reply.id, plain(reply.parameters),
                      tuple(Tensor(o.name, o.datatype, tuple(o.shape), content)
                            for o, content in zip(reply.outputs, reply.raw_output_contents)))

    def request(self, case):
        raise NotImplementedError


class GrpcRaw(Grpc):
    def request(self, case):
        classes = {"classification": case.classes} if case.classes else {}
        return self.client.request(case.model, [(t.name, t.datatype, t.shape) for t in case.inputs],
                                   [t.content for t in case.inputs],
                                   [(name, classes) for name in case.outputs],
                                   dict(case.parameters), id=case.id)


class GrpcTyped(Grpc):
    def request(self, case):
        inputs = [(t.name, t.datatype, t.shape, {CONTENTS[t.datatype]: values_of(t)})
                  for t in case.inputs]
        return self.client.request(case.model, inputs, (), case.outputs, dict(case.parameters),
                                   id=case.id)


class GrpcStream(GrpcRaw):
    """Models that answer once; a failure has no code of its own in a stream."""

    def send(self, cases):
        answers = []
        for case in cases:
            only, = self.client.stream([self.request(case)])
            answers.append(Failure("", only.error_message) if only.error_message
                           else self.answer_of(only.infer_response))
        return answers


# ---- the C API ----------------------------------------------------------------------------------


def word(number):
    return struct.pack("=q", number)


def text(content):
    content = content.encode() if isinstance(content, str) else content
    return word(len(content)) + content + b"\0"


def counted(parts):
    parts = list(parts)
    return word(len(parts)) + b"".join(parts)


# bool before int, which it is as well.
PARAMETERS = [(0, str, lambda value: value.encode()), (2, bool, lambda value: bytes([value])),
              (1, int, word), (3, float, lambda value: struct.pack("=d", value))]


def parameter(name, value):
    number, pack = next((number, pack) for number, kind, pack in PARAMETERS
                        if isinstance(value, kind))
    return text(name) + word(number) + text(pack(value))


def tensor_text(tensor):
    return (text(tensor.name) + text(tensor.datatype) + counted(map(word, tensor.shape))
            + text(tensor.content))


class AnswerFile:
    """Reads what infer_cases wrote."""

    UNPACK = {0: bytes.decode, 1: lambda raw: struct.unpack("=q", raw)[0],
              2: lambda raw: raw != b"\0", 3: lambda raw: struct.unpack("=d", raw)[0]}

    def __init__(self, path):
        self.content = path.read_bytes()
        self.at = 0

    def word(self):
        self.at += 8
        return struct.unpack_from("=q", self.content, self.at - 8)[0]

    def bytes(self):
        size = self.word()
        self.at += size + 1
        assert self.content[self.at - 1] == 0
        return self.content[self.at - size - 1:self.at - 1]

    def text(self):
        return self.bytes().decode()

    def parameter(self):
        name, kind = self.text(), self.word()
        return name, self.UNPACK[kind](self.bytes())

    def tensor(self):
        return Tensor(self.text(), self.text(), tuple(self.word() for _ in range(self.word())),
                      self.bytes(), tuple(self.text() for _ in range(self.word())))

    def answer(self):
        code = self.word()
        if code >= 0:
            return Failure(CODES[code], self.text())
        model, version, name = self.text(), str(self.word()), self.text()
        parameters = dict(self.parameter() for _ in range(self.word()))
        return Answer(model, version, name, parameters,
                      tuple(self.tensor() for _ in range(self.word())))


class InProcess:
    """A server of its own on the same repository; one for each send()."""

    def __init__(self, server, folder):
        self.repository = server.repository
        self.folder = folder

    def send(self, cases):
        with self.opens(cases):
            pass
        return self.answers(len(cases))

    @contextlib.contextmanager
    def opens(self, cases, *options):
        """infer_cases, as long as it tells statistics (its header says how)."""
        sent = self.folder / "cases"
        sent.write_bytes(counted(
            text(case.model) + text(case.id) + counted(parameter(*p) for p in case.parameters)
            + counted(map(tensor_text, case.inputs)) + counted(map(text, case.outputs))
            for case in cases))
        with subprocess.Popen([BUILD / "tests" / "abi" / "infer_cases", self.repository,
                               BUILD / "backends", sent, self.folder / "answers", *options],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
                process.communicate(timeout=120)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == 0

    def answers(self, n_cases):
        found = AnswerFile(self.folder / "answers")
        got = [found.answer() for _ in range(n_cases)]
        assert found.at == len(found.content)
        return got
