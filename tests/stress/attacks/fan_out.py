# SPDX-License-Identifier: BSD-3-Clause
"""Many streams through two decoupled steps, which nobody reads and whose clients then leave.

Each request asks for thousands of elements, each of which becomes a request of the second step. While
the streams wait, threads and memory must stay small; after the clients have left, the work must end at
once, and another client's pipeline must be served throughout.
"""
import time

import attack
import decoupled_pipelines as pipelines

N_CHANNELS, N_STREAMS = 8, 400
N_ELEMENTS = 3000
MIB = 1 << 20


def cpu_seconds(process):
    fields = open(f"/proc/{process.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def n_threads(process):
    for line in open(f"/proc/{process.pid}/status", encoding="ascii"):
        if line.startswith("Threads:"):
            return int(line.split()[1])
    return 0


def quiet_after(process, limit):
    """Seconds until the server uses less than a tenth of a core."""
    begun = time.monotonic()
    while time.monotonic() < begun + limit:
        before = cpu_seconds(process)
        time.sleep(0.2)  # a period of measurement
        if cpu_seconds(process) - before <= 0.02:
            break
    return time.monotonic() - begun


def measure():
    with pipelines.server("--memory-budget=1073741824") as server, pipelines.clients(
            server, N_CHANNELS) as clients:
        n_before = n_threads(server.process)
        streams = [one.stream([pipelines.request(one, N_ELEMENTS, 4)])
                   for one in clients for _ in range(N_STREAMS // N_CHANNELS)]
        most_threads, most_bytes = 0, 0
        until = time.monotonic() + 6
        while time.monotonic() < until:
            most_threads = max(most_threads, n_threads(server.process))
            most_bytes = max(most_bytes, attack.resident_bytes(server.process))
            time.sleep(0.05)  # a period of measurement
        yield attack.Figure("threads while nobody reads", most_threads, "", at_most=n_before + 64)
        yield attack.Figure("resident memory", most_bytes / MIB, "MiB", at_most=1024)
        with pipelines.clients(server, 1) as (other,):
            begun = time.monotonic()
            got = sum(1 for _ in other.stream([pipelines.request(other, 20, 3)]))
            yield attack.Figure("another client's 60 responses", time.monotonic() - begun, "s",
                                at_most=5)
            yield attack.holds("all of them came", got == 60)
        for one in clients:
            one.channel.close()
        del streams
        yield attack.Figure("until the server is quiet after the clients left",
                            quiet_after(server.process, 20), "s", at_most=2)
        begun = time.monotonic()
        server.process.terminate()
        status = server.process.wait(40)
        yield attack.Figure("stop", time.monotonic() - begun, "s", at_most=5)
        yield attack.holds("the stop's status is 0", status == 0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
