# SPDX-License-Identifier: BSD-3-Clause
"""What the attacks on pipelines share: an ensemble of two decoupled steps, and clients of it."""
import contextlib
import pathlib
import struct
import tempfile
import types

import attack
import grpc_stubs

REPEAT = """backend: "repeat"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }
"""
SQUARE = """backend: "square"
model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""
# `square` of n gives n elements, each n, and each of those gives n again.
TWICE = """platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  step { model_name: "repeat" model_version: -1
         input_map { key: "IN" value: "IN" } input_map { key: "DELAY" value: "DELAY" }
         input_map { key: "WAIT" value: "WAIT" } output_map { key: "OUT" value: "T" } }
  step { model_name: "square" model_version: -1
         input_map { key: "IN" value: "T" } output_map { key: "OUT" value: "OUT" } }
}
"""
SQUARES = """platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
  step { model_name: "square" model_version: -1
         input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "T" } }
  step { model_name: "square" model_version: -1
         input_map { key: "IN" value: "T" } output_map { key: "OUT" value: "OUT" } }
}
"""


def server(*options, **more_models):
    return attack.server({"repeat": REPEAT, "square": SQUARE, "twice": TWICE, "squares": SQUARES,
                          **more_models}, *options, waits_for=("http", "grpc", "metrics"))


@contextlib.contextmanager
def clients(running, n):
    """n connections to the server."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        modules = grpc_stubs.generate(pathlib.Path(folder))
        stubs = types.SimpleNamespace(service=modules["grpc_service"])
        yield [grpc_stubs.Client(stack.enter_context(grpc_stubs.open_channel(running)), stubs)
               for _ in range(n)]


def int32(values):
    return struct.pack(f"<{len(values)}i", *values)


def request(client, n, each):
    """n elements, each of which becomes `each` responses."""
    return client.request("twice", [("IN", "INT32", [n]), ("DELAY", "UINT32", [n]),
                                    ("WAIT", "UINT32", [1])],
                          [int32([each] * n), int32([0] * n), int32([0])])


def request_of_squares(client, n):
    """n times n responses."""
    return client.request("squares", [("IN", "INT32", [1])], [int32([n])])
