# SPDX-License-Identifier: BSD-3-Clause
"""Requests that cost more than their bytes, made from the protocols themselves.

json_cases() takes a valid body and puts each attack in the place of each of its members;
message_cases() does the same with each field of each request message of proto/. Both give the
decompressed bytes. What no body can say (chunks, header fields, frames) is in transport_cases().
"""
import gzip
import itertools
import json
import struct
import typing
import zlib


class Case(typing.NamedTuple):
    decoder: str
    name: str
    send: typing.Callable  # (server) -> what the server said
    wire_bytes: int
    decoded_bytes: int  # 0: nothing may be held beyond what was sent
    n_requests: int = 1
    held_per_byte: int = 16


def repeated(before, unit, after, size):
    """As many units as the size has room for."""
    return before + unit * max(1, (size - len(before) - len(after)) // len(unit)) + after


def numbered(before, form, after, size):
    """The same of units that all differ."""
    parts, length = [], len(before) + len(after)
    for i in itertools.count():
        part = form(i)
        length += len(part)
        if length > size:
            return before + b"".join(parts) + after
        parts.append(part)


# ---- JSON ----------------------------------------------------------------------------------------

MARK = "@@"  # stands for the member that is attacked


def members(value, path=()):
    """The paths of all members of an object, and of what is in them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path + (key,)
            yield from members(inner, path + (key,))
    elif isinstance(value, list) and value:
        yield path + (0,)
        yield from members(value[0], path + (0,))


def with_mark(value, path):
    if not path:
        return MARK
    if isinstance(value, dict):
        return {key: with_mark(inner, path[1:]) if key == path[0] else inner
                for key, inner in value.items()}
    return [with_mark(value[0], path[1:]), *value[1:]]


def find(value, path):
    for step in path:
        value = value[step]
    return value


# Short and long enough to be kept in another way than the shortest.
FORMS = [("[1] * 9", b"[1,1,1,1,1,1,1,1,1]"), ("[1] * 33", b"[" + b"1," * 32 + b"1]"),
         ("{} of 9", b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}'),
         ("text of 17", b'"aaaaaaaaaaaaaaaaa"'), ("escape", b'"\\u00e9"')]


def json_attacks(template, path, size):
    """(name, body) of each attack on one member."""
    marked = json.dumps(with_mark(template, path), separators=(",", ":"))
    good = json.dumps(find(template, path), separators=(",", ":")).encode()
    before, after = (part.encode() for part in marked.split(json.dumps(MARK)))
    key = json.dumps(path[-1]).encode() if isinstance(path[-1], str) else None
    if key:
        yield "repeated", repeated(before + good, b"," + key + b":" + good, after, size)
        yield "repeated empty", repeated(before + good, b"," + key + b":[]", after, size)
        yield "other members", numbered(before + good, lambda i: b',"%x":1' % i, after, size)
    else:
        yield "repeated", repeated(before + good, b"," + good, after, size)
        yield "elements {}", repeated(before + good, b",{}", after, size)
    for name, form in FORMS:
        unit = b"," + key + b":" + form if key else b"," + form
        yield "repeated " + name, repeated(before + good, unit, after, size)
        if key:  # the first may be the one that counts
            yield f"repeated {name}, first", repeated(
                before + form, unit, b"," + key + b":" + good + after, size)
    yield "nested []", before + b"[" * (size // 2) + b"]" * (size // 2) + after
    yield "nested {}", before + b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6) + after
    yield "open [", before + b"[" * size
    yield "digits", repeated(before, b"1", after, size)
    yield "text", repeated(before + b'"', b"a", b'"' + after, size)
    yield "escapes", repeated(before + b'"', b"\\u00e9", b'"' + after, size)
    yield "list of 1", repeated(before + b"[1", b",1", b"]" + after, size)
    yield 'list of ""', repeated(before + b'[""', b',""', b"]" + after, size)
    yield "list of []", repeated(before + b"[[]", b",[]", b"]" + after, size)
    yield "list of {}", repeated(before + b"[{}", b",{}", b"]" + after, size)
    yield "keys", numbered(before + b'{"a":1', lambda i: b',"%x":1' % i, b"}" + after, size)
    yield "blanks", repeated(before, b" ", good + after, size)


INFER = {
    "id": "a",
    "parameters": {"sequence_id": 0, "priority": 0, "timeout": 0, "binary_data_output": False,
                   "own": "x"},
    "inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                "parameters": {"binary_data_size": 4}, "data": [1]}],
    "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 1, "binary_data": False}}],
}

# Without what contradicts itself: requests that are answered must be among the attacks.
PLAIN_INFER = {"id": "a", "inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                                      "data": [1]}],
               "outputs": [{"name": "OUTPUT0"}]}

CONTROL = {
    "repository index": ("/v2/repository/index", {"ready": True}),
    "repository load": ("/v2/repository/models/other/load",
                        {"parameters": {"config": "{}", "file:1/model": "YQ=="}}),
    "repository unload": ("/v2/repository/models/other/unload",
                          {"parameters": {"unload_dependents": False}}),
    "trace settings": ("/v2/trace/setting",
                       {"trace_level": ["OFF"], "trace_rate": "1", "trace_count": "-1",
                        "log_frequency": "0"}),
    "log settings": ("/v2/logging", {"log_verbose_level": 0, "log_info": True,
                                     "log_format": "default"}),
    "shared memory": ("/v2/systemsharedmemory/region/r/register",
                      {"key": "/no_such_region", "offset": 0, "byte_size": 64}),
    "CUDA shared memory": ("/v2/cudasharedmemory/region/r/register",
                           {"raw_handle": {"b64": "AA=="}, "device_id": 0, "byte_size": 64}),
    "generate": ("/v2/models/fp32/generate", {"INPUT0": 1, "own": {"a": [1]}}),
}


def http_request(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: h", "Connection: close",
             f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def http_case(decoder, name, path, body, *headers, coding=None):
    decoded = len(body)
    if coding == "gzip":
        body = gzip.compress(body, 6)
    elif coding == "deflate":
        body = zlib.compress(body, 6)
    if coding:
        headers += (f"Content-Encoding: {coding}",)
        decoder += f", {coding}"
    request = http_request(path, body, *headers)
    return Case(decoder, name, lambda server: server.http(request), len(request),
                decoded + len(request) - len(body))


def json_cases(size, decoders):
    infer = "/v2/models/fp32/infer"
    targets = [("HTTP infer", infer, INFER), ("HTTP infer", infer, PLAIN_INFER)]
    targets += [(f"HTTP {name}", path, body) for name, (path, body) in CONTROL.items()]
    for decoder, path, template in (t for t in targets if decoders in t[0]):
        for member in members(template):
            for attack, body in json_attacks(template, member, size):
                place = ".".join(map(str, member))
                label = f"{place}: {attack}" if template is not PLAIN_INFER else \
                    f"{place}: {attack}, no parameters"
                yield http_case(decoder, label, path, body)
                if attack in ("repeated", "repeated [1] * 9", "nested []", "list of 1") and \
                        decoder in ("HTTP infer", "HTTP repository load"):
                    yield http_case(decoder, label, path, body,
                                    coding="gzip" if len(member) % 2 else "deflate")


def tensor_cases(size):
    """Requests that are right: what their answers cost."""
    infer = "/v2/models/%s/infer"
    for coding in (None, "gzip"):
        n = size // 4
        head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "FP32",
                                       "parameters": {"binary_data_size": 4 * n}}]}).encode()
        length = f"Inference-Header-Content-Length: {len(head)}"
        yield http_case("HTTP tensors", "FP32 zeros, answer in JSON", infer % "fp32",
                        head + bytes(4 * n), length, coding=coding)
        yield http_case("HTTP tensors", "FP32 that print long, answer in JSON", infer % "fp32",
                        head + struct.pack("<f", -1.1754944e-38) * n, length, coding=coding)
        body = {"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "FP32",
                            "parameters": {"binary_data_size": 4 * n}}],
                "outputs": [{"name": "OUTPUT0", "parameters": {"classification": n}}]}
        head = json.dumps(body).encode()
        yield http_case("HTTP tensors", "classification of all", infer % "fp32",
                        head + bytes(4 * n), f"Inference-Header-Content-Length: {len(head)}",
                        coding=coding)
        body["outputs"][0]["parameters"]["binary_data"] = True
        head = json.dumps(body).encode()
        yield http_case("HTTP tensors", "classification of all, binary", infer % "fp32",
                        head + bytes(4 * n), f"Inference-Header-Content-Length: {len(head)}",
                        coding=coding)
        head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "BYTES",
                                       "parameters": {"binary_data_size": 4 * n}}]}).encode()
        yield http_case("HTTP tensors", "BYTES of empty elements", infer % "bytes",
                        head + bytes(4 * n), f"Inference-Header-Content-Length: {len(head)}",
                        coding=coding)
        one = struct.pack("<I", 1) + b"\x01"
        n = size // len(one)
        head = json.dumps({"inputs": [{"name": "INPUT0", "shape": [n], "datatype": "BYTES",
                                       "parameters": {"binary_data_size": 5 * n}}]}).encode()
        yield http_case("HTTP tensors", "BYTES that print as escapes", infer % "bytes",
                        head + one * n, f"Inference-Header-Content-Length: {len(head)}",
                        coding=coding)
        for kind, unit in (("FP32", b"0,"), ("BYTES", b'"",')):
            n = size // len(unit)
            body = (b'{"inputs":[{"name":"INPUT0","datatype":"%s","shape":[%d],"data":['
                    % (kind.encode(), n) + (unit * n)[:-1] + b"]}]}")
            yield http_case("HTTP tensors", f"{kind} in JSON", infer % kind.lower(), body,
                            coding=coding)
        for count in (4, size // 256):
            body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [1]}],
                    "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 1}}] * count}
            yield http_case("HTTP tensors", f"{count} times one output", infer % "fp32",
                            json.dumps(body).encode(), coding=coding)
        body = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "FP32",
                            "parameters": {"binary_data_size": 0}}] * (size // 96)}
        head = json.dumps(body).encode()
        yield http_case("HTTP tensors", "many inputs of no bytes", infer % "fp32", head,
                        f"Inference-Header-Content-Length: {len(head)}", coding=coding)


# ---- protobuf ------------------------------------------------------------------------------------

def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def tag(number, wire):
    return varint(number << 3 | wire)


def part(number, payload):
    return tag(number, 2) + varint(len(payload)) + payload


VARINTS = {"INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM", "SINT32", "SINT64"}
KINDS = {1: "DOUBLE", 2: "FLOAT", 3: "INT64", 4: "UINT64", 5: "INT32", 6: "FIXED64",
         7: "FIXED32", 8: "BOOL", 9: "STRING", 10: "GROUP", 11: "MESSAGE", 12: "BYTES",
         13: "UINT32", 14: "ENUM", 15: "SFIXED32", 16: "SFIXED64", 17: "SINT32", 18: "SINT64"}

# What a message has besides, so that the attack is reached.
BASE = {
    "inference.ModelInferRequest": part(1, b"fp32"),
    "inference.ModelInferRequest.InferInputTensor": part(1, b"INPUT0") + part(2, b"FP32"),
    "inference.ModelInferRequest.InferRequestedOutputTensor": part(1, b"OUTPUT0"),
    "inference.ModelMetadataRequest": part(1, b"fp32"),
    "inference.ModelConfigRequest": part(1, b"fp32"),
    "inference.ModelReadyRequest": part(1, b"fp32"),
    "inference.ModelStatisticsRequest": part(1, b"fp32"),
    "inference.RepositoryModelLoadRequest": part(2, b"other"),
    "inference.RepositoryModelUnloadRequest": part(2, b"other"),
    "inference.SystemSharedMemoryRegisterRequest": part(1, b"r") + part(2, b"/no_such_region"),
    "inference.CudaSharedMemoryRegisterRequest": part(1, b"r"),
}


def is_repeated(field):
    return field.label == field.LABEL_REPEATED


def field_paths(message, path=()):
    """Each field of a message and of those within it."""
    for field in message.fields:
        yield path + (field,)
        if field.message_type and field.message_type not in [f.message_type for f in path]:
            yield from field_paths(field.message_type, path + (field,))


def one(field, i=0):
    """The field once, as short as it can be; entries of a map with different keys."""
    kind = KINDS[field.type]
    if kind in VARINTS:
        return tag(field.number, 0) + b"\1"
    if kind in ("DOUBLE", "FIXED64", "SFIXED64"):
        return tag(field.number, 1) + bytes(8)
    if kind in ("FLOAT", "FIXED32", "SFIXED32"):
        return tag(field.number, 5) + bytes(4)
    if field.message_type and field.message_type.GetOptions().map_entry:
        return part(field.number, part(1, b"%x" % i))
    return part(field.number, b"a" if kind in ("STRING", "BYTES") else b"")


def filled(message):
    """Each of its fields once, numbers of a list several times."""
    return b"".join(part(f.number, bytes(72)) if is_repeated(f) and KINDS[f.type] in VARINTS
                    else one(f) for f in message.fields)


def wrap(path, payload):
    """The payload as the content of the message at the path."""
    for field in reversed(path):
        payload = part(field.number, BASE.get(field.message_type.full_name, b"") + payload)
    return payload


def message_attacks(message, path, size):
    field, outer = path[-1], path[:-1]
    kind = KINDS[field.type]
    yield "repeated", wrap(outer, repeated(b"", one(field), b"", size))
    if field.message_type:
        yield "different", wrap(outer, numbered(b"", lambda i: one(field, i), b"", size))
        yield "repeated, filled", wrap(outer, repeated(
            b"", part(field.number, filled(field.message_type)), b"", size))
    if kind in ("STRING", "BYTES"):
        yield "long", wrap(outer, part(field.number, b"a" * size))
        yield "empty", wrap(outer, repeated(b"", part(field.number, b""), b"", size))
        yield "not UTF-8", wrap(outer, part(field.number, b"\xff" * size))
    elif not field.message_type and is_repeated(field):
        yield "packed", wrap(outer, part(field.number, bytes(size // 8 * 8)))
        yield "packed ones", wrap(outer, repeated(b"", part(field.number, bytes(8)), b"", size))
    for depth in range(len(outer), 0, -1):
        if is_repeated(outer[depth - 1]):
            unit = wrap(outer[depth - 1:], one(field))
            yield (f"repeated in repeated {outer[depth - 1].name}",
                   wrap(outer[:depth - 1], repeated(b"", unit, b"", size)))
            if kind in VARINTS and is_repeated(field):
                unit = wrap(outer[depth - 1:], part(field.number, bytes([1] * 9)))
                yield (f"9 packed in repeated {outer[depth - 1].name}",
                       wrap(outer[:depth - 1], repeated(b"", unit, b"", size)))


def unknown_attacks(size):
    yield "unknown number", repeated(b"", tag(1000, 0) + b"\1", b"", size)
    yield "unknown bytes", repeated(b"", part(1000, b""), b"", size)
    yield "unknown groups", repeated(b"", tag(1000, 3) + tag(1000, 4), b"", size)
    yield "nested groups", tag(1000, 3) * (size // 4) + tag(1000, 4) * (size // 4)
    yield "open groups", repeated(b"", tag(1000, 3), b"", size)


def grpc_case(decoder, name, method, message, is_stream, is_compressed=False):
    if is_compressed:
        decoder += ", gzip"
    wire = len(gzip.compress(message, 6)) if is_compressed else len(message)
    return Case(decoder, name,
                lambda server: server.grpc(method, [message], is_stream, is_compressed),
                wire + 5, len(message) + 5)


def message_cases(services, size, decoders):
    """`services`: descriptors. Each method, each field; compressed where something is held."""
    for service in services:
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            base = BASE.get(method.input_type.full_name, b"")
            is_stream = method.client_streaming
            decoder = f"gRPC {method.name}"
            if decoders not in decoder:
                continue
            attacks = [(".".join(f.name for f in fields) + ": " + name, base + message)
                       for fields in field_paths(method.input_type)
                       for name, message in message_attacks(method.input_type, fields, size)]
            attacks += [(name, base + message) for name, message in unknown_attacks(size)]
            for name, message in attacks:
                yield grpc_case(decoder, name, path, message, is_stream)
                if method.name == "ModelInfer" or name.endswith(": repeated"):
                    yield grpc_case(decoder, name, path, message, is_stream, True)


def grpc_tensor_cases(size):
    infer = "/inference.GRPCInferenceService/ModelInfer"

    def request(model, kind, n, raw, *more):
        tensor = part(1, b"INPUT0") + part(2, kind) + part(3, varint(n))
        return part(1, model) + part(5, tensor) + b"".join(more) + part(7, raw)

    n = size // 4
    classes = part(6, part(1, b"OUTPUT0") + part(2, part(1, b"classification") +
                                                 part(2, tag(2, 0) + varint(n))))
    for is_compressed in (False, True):
        for name, message in (
                ("FP32 zeros", request(b"fp32", b"FP32", n, bytes(4 * n))),
                ("classification of all", request(b"fp32", b"FP32", n, bytes(4 * n), classes)),
                ("BYTES of empty elements", request(b"bytes", b"BYTES", n, bytes(4 * n)))):
            yield grpc_case("gRPC tensors", name, infer, message, False, is_compressed)
    for count in (1000, 10000):
        message = request(b"fp32", b"FP32", 1, bytes(4))
        yield Case("gRPC streams", f"{count} requests of a stream",
                   lambda server, m=message, k=count: server.grpc(
                       "/inference.GRPCInferenceService/ModelStreamInfer", [m] * k, True, False),
                   count * (len(message) + 5), count * (len(message) + 5), count)
        yield Case("gRPC streams", f"{count} empty requests of a stream",
                   lambda server, k=count: server.grpc(
                       "/inference.GRPCInferenceService/ModelStreamInfer", [b""] * k, True, False),
                   count * 5, count * 5, count)


# ---- configurations that come with a load --------------------------------------------------------

TENSORS = {"input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
           "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}
PLAIN_CONFIG = {"backend": "identity", "max_batch_size": 4, **TENSORS}
ENSEMBLE_CONFIG = {"platform": "ensemble", **TENSORS, "ensemble_scheduling": {"step": [
    {"model_name": "fp32", "model_version": -1, "input_map": {"INPUT0": "INPUT0"},
     "output_map": {"OUTPUT0": "OUTPUT0"}}]}}
# The message, its JSON form, and copies of both: while it loads only.
CONFIG_HELD_PER_BYTE = 28


def is_map(field):
    return bool(field.message_type) and field.message_type.GetOptions().map_entry


def map_value(field):
    return field.message_type.fields_by_name["value"]


def json_scalar(field, i=0):
    kind = KINDS[field.type]
    if kind == "STRING":
        return f'"a{i:x}"'
    return {"BYTES": '"YQ=="', "BOOL": "true"}.get(kind, "1")


def json_filled(message, i=0, depth=0):
    """Each field once, down to some depth."""
    members = []
    for field in message.fields:
        inner = map_value(field) if is_map(field) else field
        if inner.message_type and depth == 2:
            continue
        value = json_filled(inner.message_type, i, depth + 1) if inner.message_type else \
            json_scalar(inner, i)
        if is_map(field):
            value = f'{{"k":{value}}}'
        elif is_repeated(field):
            value = f"[{value}]"
        members.append(f'"{field.name}":{value}')
    return "{" + ",".join(members) + "}"


def config_values(field, size):
    """(name, JSON of the field) of each attack."""
    def listed(name, form, before="[", after="]"):
        return name, numbered(before.encode() + form(0).encode(),
                              lambda i: b"," + form(i + 1).encode(), after.encode(), size).decode()

    if is_map(field):
        inner = map_value(field)
        one = "{}" if inner.message_type else json_scalar(inner)
        yield listed("keys", lambda i: f'"{i}":{one}', "{", "}")
        yield listed("long keys", lambda i: f'"{i:0100}":{one}', "{", "}")
        yield listed("one key", lambda i: f'"1":{one}', "{", "}")
        if inner.message_type:
            yield listed("keys, filled", lambda i: f'"{i}":{json_filled(inner.message_type)}',
                         "{", "}")
    elif field.message_type and is_repeated(field):
        yield listed("{}", lambda i: "{}")
        yield listed("filled", lambda i: json_filled(field.message_type, i))
        for member in field.message_type.fields:
            if not member.message_type:
                form = '{"%s":[%s]}' if is_repeated(member) else '{"%s":%s}'
                yield listed(f"only {member.name}", lambda i, form=form, member=member:
                             form % (member.name, json_scalar(member, i)))
    elif is_repeated(field):
        yield listed("repeated", lambda i: json_scalar(field))
        if KINDS[field.type] not in ("BOOL", "ENUM"):
            yield listed("different", lambda i: json_scalar(field, i)
                         if KINDS[field.type] == "STRING" else str(i + 1))
    elif not field.message_type and KINDS[field.type] == "STRING":
        yield "long", '"' + "a" * size + '"'


def config_paths(message, path=()):
    for field in message.fields:
        yield path + (field,)
        inner = map_value(field) if is_map(field) else field
        if inner.message_type and len(path) < 5:
            yield from config_paths(inner.message_type, path + (field,))


def config_with(value, path, text):
    """The JSON of a configuration whose field at the path is the text."""
    if not path:
        return text
    field, rest = path[0], path[1:]
    value = dict(value or {})
    old = value.pop(field.name, None)
    if rest and is_map(field):
        new = f'{{"k":{config_with(None, rest, text)}}}'
    elif rest and is_repeated(field):
        new = f"[{config_with(old[0] if old else None, rest, text)}]"
    else:
        new = config_with(old, rest, text)
    others = json.dumps(value)
    return others[:-1] + ("," if value else "") + f'"{field.name}":{new}}}'


def config_cases(config, size):
    """`config`: the descriptor of ModelConfig."""
    for path in config_paths(config):
        is_ensemble = path[0].name == "ensemble_scheduling"
        base = ENSEMBLE_CONFIG if is_ensemble else PLAIN_CONFIG
        for attack, text in config_values(path[-1], size):
            body = json.dumps({"parameters": {"config": config_with(base, path, text)}}).encode()
            name = ".".join(field.name for field in path) + ": " + attack
            yield http_case("HTTP load of a configuration", name,
                            "/v2/repository/models/other/load",
                            body)._replace(held_per_byte=CONFIG_HELD_PER_BYTE)


# ---- chunks, header fields, frames ---------------------------------------------------------------

def http_transport_cases(size, path=b"/v2/models/fp32/infer"):
    post = b"POST " + path + b" HTTP/1.1\r\nHost: h\r\n"
    start = post + b"Connection: close\r\nTransfer-Encoding: chunked\r\n"
    for name, text in (
            ("chunks of one byte", start + b"\r\n" + b"1\r\n \r\n" * (size // 6) + b"0\r\n\r\n"),
            ("an extension of a chunk", start + b"\r\n1;" + b"a" * size + b"\r\n \r\n0\r\n\r\n"),
            ("zeros before a chunk size", start + b"\r\n" + b"0" * size + b"1\r\n \r\n0\r\n\r\n"),
            ("trailers", start + b"\r\n0\r\n" + b"a: b\r\n" * (size // 6) + b"\r\n"),
            ("header fields", start + b"a: b\r\n" * (size // 6) + b"\r\n"),
            ("one header field", start + b"a: " + b"b" * size + b"\r\n\r\n"),
            ("a request line", b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
            ("blank lines", b"\r\n" * (size // 2)),
            ("requests one after the other",
             b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n" * (size // 43) +
             b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")):
        yield Case("HTTP transport", name, lambda server, t=text: server.http(t), len(text),
                   len(text), text.count(b"HTTP/1.1"))
    chunked = gzip.compress(b" " * size)
    pieces = b"".join(b"1\r\n" + chunked[i:i + 1] + b"\r\n" for i in range(len(chunked)))
    text = start + b"Content-Encoding: gzip\r\n\r\n" + pieces + b"0\r\n\r\n"
    yield Case("HTTP transport", "gzip in chunks of one byte",
               lambda server, t=text: server.http(t), len(text), size)
    half = post + b"Content-Length: 60000000\r\n\r\n{"
    yield Case("HTTP transport", "100 bodies that are announced",
               lambda server, t=half: server.http_held([t] * 100), 100 * len(half), 0, 100)
    packed = gzip.compress(bytes(16 * size))
    text = post + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (len(packed) + 1) + packed
    yield Case("HTTP transport", "8 gzip bodies without their last byte",
               lambda server, t=text: server.http_held([t] * 8), 8 * len(text), 0, 8)
    heads = b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 90
    yield Case("HTTP transport", "200 heads without an end",
               lambda server, t=heads: server.http_held([t] * 200), 200 * len(heads), 0, 200)


def frames_of(frames, stream, payload, flags=0):
    """DATA in frames of 16 KiB."""
    pieces = [payload[i:i + 16384] for i in range(0, len(payload), 16384)]
    return b"".join(frames.frame(frames.DATA, flags if piece is pieces[-1] else 0, stream, piece)
                    for piece in pieces)


def h2_cases(frames, size):
    """`frames`: the module of tests/e2e that makes HTTP/2 frames."""
    odd = range(1, 401, 2)
    infer = frames.head(frames.INFER)
    zipped = frames.head(frames.INFER, **{"grpc-encoding": "gzip"})
    many = b"".join(frames.field("abc", "d" * 60) for _ in range(90))
    packed = gzip.compress(bytes(16 * size))
    prefix = b"\1" + struct.pack(">I", len(packed))

    def headers(i, block):
        return frames.frame(frames.HEADERS, frames.END_HEADERS, i, block)

    bombs = b"".join(headers(i, zipped) + frames_of(frames, i, prefix + packed)
                     for i in (1, 3))
    announced = b"".join(headers(i, infer) + frames.frame(
        frames.DATA, 0, i, b"\0" + struct.pack(">I", 60 << 20) + bytes(100)) for i in odd)
    prefixes = headers(1, frames.head(frames.STREAM_INFER)) + frames_of(
        frames, 1, b"\0\0\0\0\0" * 10000)
    name = b"\x40\x01x\x7f" + varint(4000 - 127) + b"y" * 4000

    def initial_window(n):
        return frames.frame(frames.SETTINGS, 0, 0, struct.pack(">HI", 4, n) * 16)

    metadata = "/inference.GRPCInferenceService/ServerMetadata"
    windows = initial_window(0) + b"".join(
        frames.call(i, **{":path": metadata}) for i in odd) + b"".join(
        initial_window(n) for n in range(500))
    over = headers(1, frames.head("/no/method")) + frames.frame(
        frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, many) * (size // 8192)
    for label, text, decoded in (
            ("200 open streams", b"".join(headers(i, infer) for i in odd), 0),
            ("windows of 200 streams that open byte by byte", windows, 0),
            ("trailers of calls that are over", over, 0),
            ("200 streams with many fields", b"".join(headers(i, infer + many) for i in odd), 0),
            ("streams that are reset",
             b"".join(headers(i, infer) + frames.reset(i) for i in range(1, 2001, 2)), 0),
            ("frames without bytes", headers(1, infer) +
             frames.frame(frames.DATA, 0, 1) * (size // 9), 0),
            ("settings", frames.frame(frames.SETTINGS, 0, 0,
                                      struct.pack(">HI", 3, 100)) * (size // 15), 0),
            ("pings", frames.frame(frames.PING, 0, 0, bytes(8)) * (size // 17), 0),
            ("references to one header field",
             headers(1, infer + name + b"\xbe" * 12000), 12000 * 4000),
            ("200 messages that are announced", announced, 0),
            ("prefixes of empty messages", prefixes, 0),
            ("gzip messages of streams that stay open", bombs, 0)):
        yield Case("HTTP/2", label, lambda server, t=text: server.h2_held(t), len(text), decoded,
                   1 + text.count(b"/inference."))


def all_cases(services, frames, size, decoders=""):
    """Those whose decoder's name has this text."""
    few = itertools.chain(http_transport_cases(size), h2_cases(frames, size), tensor_cases(size),
                          grpc_tensor_cases(size))
    yield from (case for case in few if decoders in case.decoder)
    yield from json_cases(size, decoders)
    config = services[0].methods_by_name["ModelConfig"].output_type.fields_by_name["config"]
    yield from (case for case in config_cases(config.message_type, size)
                if decoders in case.decoder)
    yield from message_cases(services, size, decoders)
