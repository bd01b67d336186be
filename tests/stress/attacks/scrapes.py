#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scrapes of the metrics page with 3000 models, whose page is some 37 MB: eight at a time, and many unread.

Scrapes at a time must share pages. Pages that are not read are charged to --memory-budget; beyond it a
scrape is refused with 503, and other requests are answered. Once the readers have left, a scrape is too.
"""
import json
import socket
import threading
import time
import urllib.request

import attack

MIB = 1 << 20
N_MODELS = 3000
BUDGET = 256
N_AT_A_TIME, N_ROUNDS = 8, 4
N_UNREAD = 40
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2],
                               "data": [1, 2]}]}).encode()


def scrape(server):
    """The size of the page; 0 when there was none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port('metrics')}/metrics",
                                    timeout=120) as page:
            return len(page.read())
    except OSError:
        return 0


def scrape_together(server):
    """The sizes of the pages that eight clients get."""
    sizes = []
    clients = [threading.Thread(target=lambda: sizes.append(scrape(server)))
               for _ in range(N_AT_A_TIME)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return sizes


def begin_unread(server):
    """A scrape whose first bytes have come, and the status."""
    reader = socket.create_connection(("127.0.0.1", server.port("metrics")), 120)
    reader.sendall(SCRAPE)
    return reader, int(reader.recv(12).split()[1])


def measure():
    with attack.server({f"model_{i}": attack.IDENTITY for i in range(N_MODELS)},
                       f"--memory-budget={BUDGET * MIB}",
                       waits_for=("http", "metrics")) as server:
        page = scrape(server)
        before = attack.resident_bytes(server.process)
        attack.forget_peak(server.process)
        n_short = sum(size < 0.99 * page for _ in range(N_ROUNDS)
                      for size in scrape_together(server))
        grown = attack.resident_bytes(server.process, "VmHWM") - before
        yield attack.Figure("a page", page / MIB, "MiB")
        yield attack.Figure("eight scrapes at a time: grown by", grown / MIB, "MiB",
                            at_most=3 * page / MIB + 16)
        yield attack.Figure("scrapes without a whole page", n_short, "", at_most=0)

        attack.forget_peak(server.process)
        readers, statuses = zip(*[begin_unread(server) for _ in range(N_UNREAD)])
        grown = attack.resident_bytes(server.process, "VmHWM") - before
        with urllib.request.urlopen(f"{server.url}/v2/models/model_0/infer", BODY, 20) as answer:
            is_answered = answer.status == 200
        yield attack.Figure("unread pages: grown by", grown / MIB, "MiB",
                            at_most=BUDGET + page / MIB)
        yield attack.Figure("scrapes that were begun", statuses.count(200), "", at_least=1)
        yield attack.holds("the others were refused with 503", set(statuses) == {200, 503})
        yield attack.holds("an inference is answered meanwhile", is_answered)
        for one in readers:
            one.close()
        begun = time.monotonic()
        yield attack.holds("then a scrape is answered", scrape(server) > 0.99 * page)
        yield attack.Figure("in", time.monotonic() - begun, "s", at_most=20)


if __name__ == "__main__":
    attack.main(measure, __doc__)
