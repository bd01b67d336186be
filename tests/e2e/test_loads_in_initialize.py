# SPDX-License-Identifier: BSD-3-Clause
"""Models in Python whose initialize() loads models, and warm-ups that end with the server."""
import concurrent.futures

import requests

import conftest
from python_programs import OPTIONS as PYTHON, SECONDS

LOADER = '''
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model("%s")

    def execute(self, requests):
        return []
'''
IO = "input { name: \"X\" data_type: TYPE_FP32 dims: %s }\noutput { name: \"Y\" data_type: TYPE_FP32 dims: %s }\n"
PLAIN = 'backend: "identity"\n' + IO % ("-1", "-1")
WARM = ('backend: "identity"\n' + IO % ("65536", "65536")
        + 'model_warmup { name: "sample" batch_size: %d count: %d inputs { key: "X" '
        'value { data_type: TYPE_FP32 dims: 65536 random_data: true } } }\n')
LOADS = {"a": "plain_a", "b": "plain_b", "c": "plain_a", "self": "self", "one": "two", "two": "three", "three": "one"}
MODELS = {**{name: {"config.pbtxt": 'backend: "python"\n' + IO % ("1", "1"), "1/model.py": LOADER % other}
             for name, other in LOADS.items()},
          "plain_a": PLAIN, "plain_b": PLAIN, "plain": PLAIN,
          "endless": WARM % (1, 4294967295), "long": WARM % (1024, 65536)}
OPTIONS = (*PYTHON, "--model-control-mode=explicit", "--model-load-thread-count=2")
BACKENDS = ("python", "identity")


def load(server, name):
    answer = requests.post(f"{server.url}/v2/repository/models/{name}/load", timeout=SECONDS)
    return answer.status_code, answer.text


def is_ready(server, name):
    return requests.get(f"{server.url}/v2/models/{name}/ready", timeout=SECONDS).status_code == 200


def test_more_models_than_slots_load_models(server):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert [status for status, _ in pool.map(lambda name: load(server, name), "abc")] == [200] * 3
    assert all(is_ready(server, name) for name in ("a", "b", "c", "plain_a", "plain_b"))


def test_a_load_that_waits_for_itself_is_refused(server):
    status, text = load(server, "self")
    assert status == 400 and "model 'self' is changed by a load that waits for this one: self -> self" in text
    status, text = load(server, "one")
    assert status == 400 and "three -> one -> two -> three" in text
    assert not any(is_ready(server, name) for name in ("self", "one", "two", "three"))
    assert load(server, "plain")[0] == 200


def test_the_count_of_a_warm_up_is_bounded(server):
    status, text = load(server, "endless")
    assert status == 400 and "warmup sample 'sample' has count 4294967295, at most 65536 are supported" in text


def test_the_end_of_the_server_ends_a_warm_up(tmp_path):
    conftest.write_repository(tmp_path, {"long": MODELS["long"]})
    server = conftest.Server(tmp_path, ("--model-control-mode=explicit", "--exit-timeout-secs=20"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        server.port("http")
        answer = pool.submit(lambda: load_or_none(server))
        server.wait_for_line("loading: long:1")
        assert server.stop() == 0
        answer.result()
    assert "failed to run warmup sample 'sample': Server exiting" in server.text()


def load_or_none(server):
    try:
        return load(server, "long")
    except requests.RequestException:
        return None  # the server has ended
