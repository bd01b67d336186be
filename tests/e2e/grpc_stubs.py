# SPDX-License-Identifier: BSD-3-Clause
"""gRPC clients made from proto/ with grpcio, for the tests.

The fixture `stubs` holds the generated messages and makes stubs for the services; `client` is an
inference stub on the module's server. Classes are generated into a temporary folder once per run.
"""
import contextlib
import importlib
import subprocess
import sys
import types

import pytest

from conftest import ROOT, TLS, patience

grpc = pytest.importorskip("grpc")

FILES = ("model_config", "grpc_service", "health", "reflection")
SECONDS = patience(20)  # for each call; a test that hangs says where


def generate(folder):
    """protoc alone: the plug-in for services that Debian 12 has is older than its runtime, and a
    stub is a few lines."""
    subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}",
                    *(f"{name}.proto" for name in FILES)], check=True)
    sys.path.insert(0, str(folder))
    try:
        return {name: importlib.import_module(f"{name}_pb2") for name in FILES}
    finally:
        sys.path.remove(str(folder))


class Stub:
    """Callables named as the methods of a service; `package` replaces that of the .proto file."""

    def __init__(self, channel, module, service, package=None):
        descriptor = module.DESCRIPTOR.services_by_name[service]
        package = package or module.DESCRIPTOR.package
        for method in descriptor.methods:
            kind = ("stream" if method.client_streaming else "unary") + "_" + (
                "stream" if method.server_streaming else "unary")
            call = getattr(channel, kind)(
                f"/{package}.{service}/{method.name}",
                request_serializer=method.input_type._concrete_class.SerializeToString,
                response_deserializer=method.output_type._concrete_class.FromString)
            setattr(self, method.name, call)


class Client(Stub):
    """The inference service of one server, with time limits; `pb` are its messages."""

    def __init__(self, channel, stubs):
        super().__init__(channel, stubs.service, "GRPCInferenceService")
        self.channel = channel
        self.pb = stubs.service

    def call(self, method, request=None, **arguments):
        """The answer to ModelMetadata and the like: `request` is a dict of the request's fields."""
        message = getattr(self.pb, f"{method}Request")(**(request or {}))
        return getattr(self, method)(message, timeout=SECONDS, **arguments)

    def refusal(self, method, request=None, **arguments):
        """Code and text of a call that must fail."""
        with pytest.raises(grpc.RpcError) as caught:
            self.call(method, request, **arguments)
        return caught.value.code().name, caught.value.details()

    def request(self, model, inputs=(), raw=(), outputs=(), parameters=None, **fields):
        """inputs: (name, datatype, shape[, InferTensorContents as a dict[, parameters]])."""
        message = self.pb.ModelInferRequest(model_name=model, raw_input_contents=raw, **fields)
        fill(message.parameters, parameters)
        for name, datatype, shape, *more in inputs:
            tensor = message.inputs.add(name=name, datatype=datatype, shape=shape)
            if more and more[0] is not None:
                tensor.contents.CopyFrom(self.pb.InferTensorContents(**more[0]))
            fill(tensor.parameters, more[1] if len(more) > 1 else None)
        for name, *more in (o if isinstance(o, tuple) else (o,) for o in outputs):
            fill(message.outputs.add(name=name).parameters, more[0] if more else None)
        return message

    def infer(self, *arguments, metadata=None, **keywords):
        return self.ModelInfer(self.request(*arguments, **keywords), timeout=SECONDS,
                               metadata=metadata)

    def infer_refusal(self, *arguments, **keywords):
        with pytest.raises(grpc.RpcError) as caught:
            self.infer(*arguments, **keywords)
        return caught.value.code().name, caught.value.details()

    def stream(self, requests, metadata=None):
        return self.ModelStreamInfer(iter(requests), timeout=SECONDS, metadata=metadata)


class Unsigned(int):
    """A parameter that travels as uint64_param."""


def fill(parameters, values):
    """A map of InferParameter from a dict; the type of a value chooses the field, None sets none."""
    for name, value in (values or {}).items():
        parameter = parameters[name]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, Unsigned):
            parameter.uint64_param = value
        elif isinstance(value, int):
            parameter.int64_param = value
        elif isinstance(value, float):
            parameter.double_param = value
        elif isinstance(value, str):
            parameter.string_param = value


def plain(parameters):
    """A dict from a map of InferParameter."""
    return {name: getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in parameters.items()}


@contextlib.contextmanager
def open_channel(server):
    """Each with a connection of its own, and without limits on messages."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
               ("grpc.max_send_message_length", -1)]
    target = f"127.0.0.1:{server.port('grpc')}"
    if TLS:
        with open(f"{TLS}/ca.pem", "rb") as root:
            trusted = grpc.ssl_channel_credentials(root.read())
        channel = grpc.secure_channel(target, trusted, options)
    else:
        channel = grpc.insecure_channel(target, options)
    with channel:
        yield channel


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    modules = generate(tmp_path_factory.mktemp("stubs"))
    return types.SimpleNamespace(service=modules["grpc_service"], config=modules["model_config"],
                                 health=modules["health"], reflection=modules["reflection"])


@pytest.fixture(scope="module")
def client(server, stubs):
    with open_channel(server) as channel:
        yield Client(channel, stubs)
