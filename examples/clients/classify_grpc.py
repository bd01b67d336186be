#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Asks a server over gRPC for the three likeliest readings of a handwritten digit.

    classify_grpc.py [NUMBER] [ADDRESS]     by default 0 and localhost:8001

NUMBER is that of a held-out digit in examples/data, 0 to 359. It takes python3-grpcio and protoc,
which makes the classes of the messages from the .proto files that come with the server.
"""
import importlib
import pathlib
import struct
import subprocess
import sys
import tempfile

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
PIXELS = 64
IMAGE_BYTES = PIXELS * 4


def make_messages():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}",
                        "model_config.proto", "grpc_service.proto"], check=True)
        sys.path.insert(0, folder)
        return importlib.import_module("grpc_service_pb2")


def read_digit(number):
    """Raw little-endian FP32, and what was meant."""
    images = (DATA / "heldout_images.f32").read_bytes()
    labels = (DATA / "heldout_labels.u8").read_bytes()
    if not 0 <= number < len(labels):
        sys.exit(f"there are digits 0 to {len(labels) - 1}")
    return images[number * IMAGE_BYTES:][:IMAGE_BYTES], labels[number]


def read_strings(raw):
    """The elements of a BYTES tensor: each has its length, in 4 bytes, before it."""
    while raw:
        (n_bytes,) = struct.unpack_from("<I", raw)
        yield raw[4:4 + n_bytes].decode()
        raw = raw[4 + n_bytes:]


def classify(channel, messages, image):
    request = messages.ModelInferRequest(model_name="digits", raw_input_contents=[image])
    request.inputs.add(name="image", datatype="FP32", shape=[1, PIXELS])
    output = request.outputs.add(name="probabilities")
    output.parameters["classification"].int64_param = 3
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer",
                                request_serializer=messages.ModelInferRequest.SerializeToString,
                                response_deserializer=messages.ModelInferResponse.FromString)
    return read_strings(infer(request, timeout=10).raw_output_contents[0])


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    address = sys.argv[2] if len(sys.argv) > 2 else "localhost:8001"
    image, truth = read_digit(number)
    try:
        with grpc.insecure_channel(address) as channel:
            for text in classify(channel, make_messages(), image):
                probability, _, label = text.split(":")
                print(f"{label:6} {float(probability):.4f}")
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
    print(f"it is  {truth}")


if __name__ == "__main__":
    main()
