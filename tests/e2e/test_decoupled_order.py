# SPDX-License-Identifier: BSD-3-Clause
"""The order and the time of the responses of decoupled models, alone and in ensembles, and readers who
do not read. Each test says how long it may take."""
import json
import random
import struct
import threading
import time
import urllib.request

import pytest

from conftest import Server, patience, write_repository
from frames import (ACK, DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, STREAM_INFER, Raw, frame,
                    head)
from grpc_stubs import Client, open_channel, stubs  # noqa: F401
from test_decoupled import REPEAT, SQUARE, outputs, repeat

TAKES_SECONDS = 35

INPUTS = """input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""
IDENTITY = """backend: "identity"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""


def ensemble(first, second=None):
    """`first` takes the inputs; `second`, if there is one, makes OUT of its output."""
    text = f"""platform: "ensemble"
{INPUTS}ensemble_scheduling {{
  step {{ model_name: "{first}" model_version: -1
         input_map {{ key: "IN" value: "IN" }} input_map {{ key: "DELAY" value: "DELAY" }}
         input_map {{ key: "WAIT" value: "WAIT" }}
         output_map {{ key: "OUT" value: "{'T' if second else 'OUT'}" }} }}
"""
    if second:
        text += f"""  step {{ model_name: "{second}" model_version: -1
         input_map {{ key: "IN" value: "T" }} output_map {{ key: "OUT" value: "OUT" }} }}
"""
    return text + "}\n"


MODELS = {"repeat": REPEAT, "square": SQUARE, "identity": IDENTITY, "plain": ensemble("repeat"),
          "passed": ensemble("repeat", "identity"), "nested": ensemble("passed", "identity"),
          "twice": ensemble("repeat", "square"), "nested_twice": ensemble("plain", "square"),
          "chain": 'platform: "chain"\nparameters { key: "stages" '
                   'value { string_value: "identity,chained" } }\n',
          "chained": SQUARE}
# Those whose second step makes v responses of each value v. Its requests run side by side, so only the
# responses of each have an order.
SQUARING = ("twice", "nested_twice")


@pytest.fixture(name="server", scope="module")
def fixture_server(tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    write_repository(repository, MODELS)
    running = Server(repository, waits_for=("http", "grpc"))
    yield running
    assert running.stop() == 0


def expected(model, values):
    return [v for v in values for _ in range(v if model in SQUARING else 1)]


LATE_SECONDS = patience(5)  # how much later than its delays a response may come on a busy machine


def draw_request(chance, number):
    """Values and delays of 10 to 100 responses, one of them after up to half a second. The first four
    are the extremes."""
    n = (10, 100, 10, 100)[number] if number < 4 else chance.randint(10, 100)
    longest_ms = (0, 0, 500, 500)[number] if number < 4 else chance.randint(0, 500)
    delays = [chance.choice((0, 0, 0, 1, 5)) for _ in range(n)] if number != 0 else [0] * n
    delays[n // 2] = longest_ms
    return [chance.randint(1, 4) for _ in range(n)], delays


def check_times(model, values, delays, times):
    """Each response comes after the delays up to it, and soon after them."""
    due, total = [], 0
    for value, delay in zip(values, delays):
        total += delay / 1e3
        due += [total] * (value if model in SQUARING else 1)
    assert len(times) == len(due)
    # What becomes of one response keeps its time; side by side, only the order is another.
    assert all(at <= took < at + LATE_SECONDS for at, took in zip(due, sorted(times)))


def check_one(server, stubs, model, seed, numbers):  # noqa: F811
    """One stream; its requests must each have their responses in order, in the time of their delays."""
    chance = random.Random(seed)
    drawn = {str(k): draw_request(chance, k) for k in numbers}
    got, times = {k: [] for k in drawn}, {k: [] for k in drawn}
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        begun = time.monotonic()
        for message in client.stream([repeat(client, values, delays, model=model, id=k)
                                      for k, (values, delays) in drawn.items()]):
            assert not message.error_message
            k = message.infer_response.id
            got[k].append(outputs(message)["OUT"])
            times[k].append(time.monotonic() - begun)
    order = sorted if model in SQUARING else list
    for k, (values, delays) in drawn.items():
        assert order(got[k]) == order(expected(model, values))
        check_times(model, values, delays, times[k])


@pytest.mark.parametrize("model", ["repeat", "plain", "passed", "nested", "twice", "nested_twice"])
def test_eight_streams(server, stubs, model):  # noqa: F811
    failures = []

    def run(seed):
        try:
            check_one(server, stubs, model, seed, [seed])
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failures, failures


@pytest.mark.parametrize("model", ["repeat", "plain", "passed", "nested", "twice", "nested_twice"])
def test_one_stream_with_many_requests(server, stubs, model):  # noqa: F811
    check_one(server, stubs, model, 99, range(40))


@pytest.mark.parametrize("model", ["repeat", "passed", "twice"])
def test_readers_who_do_not_read_hold_up_nobody(server, stubs, model):  # noqa: F811
    """More of them than a pool has threads, each with more responses than are kept for a reader."""
    with open_channel(server) as still, open_channel(server) as quick:
        client = Client(still, stubs)
        n = 20000
        unread = []
        for _ in range(24):
            unread.append(client.stream([repeat(client, [3] * n, model=model)]))
            assert outputs(next(unread[-1]))["OUT"] == 3  # it has begun
        client = Client(quick, stubs)
        for _ in range(5):
            begun = time.monotonic()
            got = [outputs(m)["OUT"] for m in client.stream([repeat(client, [2] * 50, model=model)])]
            assert got == expected(model, [2] * 50)
            assert time.monotonic() - begun < LATE_SECONDS
        # A reader who goes on gets all that is left, in order.
        assert sum(1 for _ in unread[0]) == n * (3 if model in SQUARING else 1) - 1
        for one in unread[1:]:
            one.cancel()


def n_of_response(server, model, index):
    """How many requests had a response with this index."""
    with urllib.request.urlopen(f"{server.url}/v2/models/{model}/stats", timeout=20) as answer:
        (stats,) = json.load(answer)["model_stats"]
    return stats["response_stats"].get(str(index), {"success": {"count": 0}})["success"]["count"]


def test_chains_that_nobody_reads_hold_up_nobody(server, stubs):  # noqa: F811
    """The last stage is decoupled, and its model has fewer threads than there are such requests: each
    of them gets as many responses as are kept for a reader."""
    n_streams, n_kept = 24, 1024
    no_window = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
    with open_channel(server) as channel:
        client = Client(channel, stubs)

        def chain(n):
            return client.request("chain", [("IN", "INT32", [1])], [struct.pack("<i", n)])

        message = chain(10 * n_kept).SerializeToString()
        with Raw(server, PREFACE + no_window + frame(SETTINGS, ACK, 0)) as raw:
            for stream in range(1, 2 * n_streams, 2):
                raw.send(frame(HEADERS, END_HEADERS, stream, head(STREAM_INFER)) +
                         frame(DATA, 0, stream, b"\0" + struct.pack(">I", len(message)) + message))
            deadline = time.monotonic() + 20
            while (n := n_of_response(server, "chained", n_kept - 1)) < n_streams:
                assert time.monotonic() < deadline, n
            assert n_of_response(server, "chained", n_kept) == 0
            assert sum(1 for _ in client.stream([chain(50)])) == 50


def test_fan_out_holds_few_threads(server, stubs):  # noqa: F811
    with open_channel(server) as channel:
        client = Client(channel, stubs)
        unread = [client.stream([repeat(client, [200] * 3000, model="twice")]) for _ in range(40)]
        for one in unread:
            assert outputs(next(one))["OUT"] == 200
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            n = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
        for one in unread:
            one.cancel()
    assert n < 64
