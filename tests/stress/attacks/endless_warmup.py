#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A warm-up that never ends: model_warmup.count 4294967295.

The load has to be refused, so that its thread is free for others. The longest warm-up that is accepted has to
end when the model is unloaded, when it is loaded with another configuration, and when the server stops.
"""
import http.client
import json
import signal
import subprocess
import threading
import time

import attack

WARM = ('backend: "identity"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: 65536 }\n'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 65536 }\n'
        'model_warmup { name: "sample" batch_size: %d count: %d inputs { key: "INPUT0" '
        'value { data_type: TYPE_FP32 dims: 65536 random_data: true } } }\n')
MODELS = {"endless": WARM % (1, 4294967295), "long": WARM % (1024, 65536), "plain": attack.IDENTITY}
PLAIN = {"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
         "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}


def load(port, name, what="load", config=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {} if config is None else {"parameters": {"config": json.dumps(config)}}
    try:
        connection.request("POST", f"/v2/repository/models/{name}/{what}", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as e:
        return 0, repr(e)
    finally:
        connection.close()


def measure():
    with attack.server(MODELS, "--model-control-mode=explicit", "--model-load-thread-count=2",
                       "--exit-timeout-secs=5") as server:
        port = server.port("http")
        begun = time.monotonic()
        status, text = load(port, "endless")
        yield attack.Figure("time of a load that warms up for ever", time.monotonic() - begun, "s", at_most=1)
        yield attack.holds("it is refused and names the count", status == 400 and "4294967295" in text)
        for what, config in (("unload", None), ("load", PLAIN)):
            thread = threading.Thread(target=load, args=(port, "long"), daemon=True)
            thread.start()
            server.wait_for_line("loading: long:1")
            begun = time.monotonic()
            status, _ = load(port, "long", what, config)
            yield attack.Figure(f"time of another {what} during the longest warm-up", time.monotonic() - begun, "s",
                                at_most=4)
            yield attack.holds("it succeeds", status == 200)
            thread.join()
            load(port, "long", "unload")
        thread = threading.Thread(target=load, args=(port, "long"), daemon=True)
        thread.start()
        server.wait_for_line("loading: long:1")
        yield attack.holds("another model can be loaded", load(port, "plain")[0] == 200)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        try:
            status = server.process.wait(15)
        except subprocess.TimeoutExpired:
            status = -1
        yield attack.Figure("time of the stop during the longest warm-up", time.monotonic() - begun, "s", at_most=4)
        yield attack.Figure("exit status of the server", status, "", at_most=0, at_least=0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
