# SPDX-License-Identifier: BSD-3-Clause
"""Two small requests to an ensemble of two decoupled steps, read slowly, hold no more than the budget.

A request of 199 bytes asks for 20 000 elements, each of which becomes 20 000 responses. The client
reads a response now and then, so nothing of it is late. What the server holds beyond an idle server
must stay below --memory-budget.
"""
import threading
import time

import attack
import decoupled_pipelines as pipelines

MIB = 1 << 20
SECONDS = 5


def read_slowly(stream, ends):
    for _ in stream:
        if ends.wait(0.05):
            return


def measure():
    for budget in (64, 256):
        with pipelines.server(f"--memory-budget={budget * MIB}") as server, pipelines.clients(
                server, 2) as clients:
            idle = attack.resident_bytes(server.process)
            ends = threading.Event()
            streams = [one.stream([pipelines.request_of_squares(one, 20000)]) for one in clients]
            readers = [threading.Thread(target=read_slowly, args=(one, ends)) for one in streams]
            for one in readers:
                one.start()
            time.sleep(SECONDS)  # the length of the attack
            held = (attack.resident_bytes(server.process) - idle) / MIB
            yield attack.Figure(f"held under a budget of {budget} MiB", held, "MiB", at_most=budget)
            ends.set()
            for one in streams:
                one.cancel()
            for one in readers:
                one.join()


if __name__ == "__main__":
    attack.main(measure, __doc__)
