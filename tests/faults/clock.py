#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clocks that jump, and machines that are suspended.

  make faults-clock       or       tests/faults/clock.py [--build=build] [--only=SCENE;...] [--report=clock.json]

CLOCK_REALTIME jumps by an hour, forth and back, in the server and its libraries (move_clock.c). Time-outs, queue
delays and deadlines keep their length; durations in metrics stay sane; the log, certificates and keys are judged by
the new time. A suspended machine is all processes stopped for 20 seconds.
"""
import contextlib
import datetime
import json
import os
import re
import signal
import socket
import ssl
import struct
import sys
import threading
import time

import scenes
from processes import Load, children_of
from scenes import IDENTITY, PYTHON, PYTHON_MODEL, TENSORS, Client, Shared, ask_metric, check, wait_until

HOUR = 3600
SUSPENDED_SECONDS = 20
JUMPS = (HOUR, 0, -HOUR, 0)
SLOW_MS = 1500
UPLOAD_SECONDS = 16          # more than the window of a rate, 10 s
DEADLINE_EXCEEDED = 4
MODELS = {
    "plain": IDENTITY,
    "python": {"config.pbtxt": PYTHON, "1/model.py": PYTHON_MODEL},
    "slow": IDENTITY + f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{SLOW_MS}" }} }}\n',
    "delayed": 'backend: "identity"\nmax_batch_size: 8\n' + TENSORS.replace("-1", "1")
               + "dynamic_batching { max_queue_delay_microseconds: 700000 preferred_batch_size: 8 }\n",
    "hurried": IDENTITY + f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{SLOW_MS}" }} }}\n'
               + "max_batch_size: 1\ndynamic_batching { default_queue_policy { timeout_action: REJECT "
                 "default_timeout_microseconds: 500000 } }\n",
}
MODELS["hurried"] = MODELS["hurried"].replace("[ -1 ]", "[ 1 ]")


def moved(stage, models, *options):
    control = Shared(stage.path("control"))
    stage.environment["MOVE_CLOCK"] = str(control.path)
    return control, stage.serve(stage.write(models), *options, preload="move_clock")


def infer_batch(port, model, parameters=None):
    """Seconds, status and text of a request of one row."""
    client, begin = Client(port), time.monotonic()
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}],
            "parameters": parameters or {}}
    status, text = client.ask("POST", f"/v2/models/{model}/infer", json.dumps(body).encode())
    client.close()
    return time.monotonic() - begin, status, text


def during_jump(control, offset, work):
    """Runs work on a thread, lets the clock jump meanwhile, and returns the result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    time.sleep(0.2)
    control.set(0, offset)
    thread.join(scenes.SECONDS)
    check(results, "no answer within a minute")
    return results[0]


def lengths(stage):
    """A queue delay, a time-out in the queue and an execution take as long as without a jump."""
    control, serving = moved(stage, MODELS)
    longest = 0.0
    with serving as server:
        for offset in JUMPS:
            seconds, status, text = during_jump(control, offset, lambda: infer_batch(server.http_port, "delayed"))
            check(status == 200 and 0.69 <= seconds < 30, f"a queue delay of 0.7 s took {seconds:.2f} s: {text}")
            longest = max(longest, seconds)
        for offset in JUMPS:
            first = threading.Thread(target=infer_batch, args=(server.http_port, "hurried"))
            first.start()
            time.sleep(0.1)
            seconds, status, text = during_jump(control, offset, lambda: infer_batch(server.http_port, "hurried"))
            first.join()
            check(status != 200 and b"imeout" in text, f"no time-out in the queue: {status} {text}")
            check(0.45 <= seconds < 30, f"a time-out of 0.5 s took {seconds:.2f} s")
            longest = max(longest, seconds)
    return {"longest, s": round(longest, 2)}


def infer_message(model):
    """A ModelInferRequest of one value."""
    def member(number, content):
        return bytes([number << 3 | 2, len(content)]) + content
    tensor = member(1, b"INPUT0") + member(2, b"FP32") + member(3, b"\1")
    return member(1, model.encode()) + member(5, tensor) + member(7, struct.pack("<f", 1))


def deadlines(stage):
    """A deadline of a gRPC call is as far away as its client has said."""
    import grpc  # pylint: disable=import-outside-toplevel

    from frames import INFER, Raw, call, says_status  # pylint: disable=import-outside-toplevel

    control, serving = moved(stage, {"slow": MODELS["slow"]})
    longest = 0.0

    def ask_late(server):
        """Over a connection without a clock: the server alone ends the call."""
        begin = time.monotonic()
        with Raw(server) as raw:
            raw.send(call(1, infer_message("slow"), path=INFER, **{"grpc-timeout": "700m"}))
            return says_status(raw.trailers(1) or b"", DEADLINE_EXCEEDED), time.monotonic() - begin

    def ask_in_time(server):
        begin = time.monotonic()
        with grpc.insecure_channel(f"127.0.0.1:{server.port('grpc')}") as channel:
            answer = channel.unary_unary(INFER)(infer_message("slow"), timeout=scenes.SECONDS)
        return struct.pack("<f", 1) in answer, time.monotonic() - begin

    with serving as server:
        for offset in JUMPS:
            is_told, seconds = during_jump(control, offset, lambda: ask_late(server))
            check(is_told and 0.69 <= seconds < 30, f"a deadline of 0.7 s: {is_told}, after {seconds:.2f} s")
            longest = max(longest, seconds)
            has_come, seconds = during_jump(control, offset, lambda: ask_in_time(server))
            check(has_come and seconds > SLOW_MS / 1000 - 0.01, f"in time: {has_come}, after {seconds:.2f} s")
    return {"longest, s": round(longest, 2)}


class Upload(threading.Thread):
    """A body of UPLOAD_SECONDS at so many bytes a second."""

    def __init__(self, port, rate):
        super().__init__()
        self.port, self.rate = port, rate
        self.answer, self.seconds = b"", 0.0

    def run(self):
        body = b'{"inputs":[{"name":"INPUT0","shape":[1],"datatype":"FP32","data":[1]}]}'
        body += b" " * (self.rate * UPLOAD_SECONDS - len(body))
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port), scenes.SECONDS) as one:
            one.sendall(b"POST /v2/models/plain/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            try:
                for at in range(0, len(body), self.rate // 2):
                    one.sendall(body[at:at + self.rate // 2])
                    time.sleep(0.5)
                    one.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        self.answer = one.recv(1000)
                        break
                    one.settimeout(scenes.SECONDS)
                self.answer = self.answer or one.recv(1000)
            except OSError:
                pass  # closed while it was sent
        self.seconds = time.monotonic() - begin


def rates(stage):
    """A body that comes too slowly is refused as late as without a jump, one that comes fast enough is not, and a
    model that waits for a resource gets it when it is free."""
    limited = ("instance_group { kind: KIND_CPU count: 1 rate_limiter { resources { name: \"R\" count: 1 } } }\n")
    control, serving = moved(stage, {"plain": IDENTITY, **{name: MODELS["slow"] + limited for name in ("a", "b")}},
                             "--rate-limit=execution_count")
    with serving as server:
        uploads = slow, fast = Upload(server.http_port, 300), Upload(server.http_port, 4096)
        for upload in uploads:
            upload.start()
        for offset in JUMPS:
            first = threading.Thread(target=infer_one, args=(server.http_port, "a"))
            begin = time.monotonic()
            first.start()
            status, _ = during_jump(control, offset, lambda: infer_one(server.http_port, "b"))
            first.join()
            seconds = time.monotonic() - begin
            check(status == 200 and 2 * SLOW_MS / 1000 - 0.01 < seconds < 30, f"one after the other: {status}, {seconds:.2f} s")
        for upload in uploads:
            upload.join(scenes.SECONDS)
    check(b" 408 " in slow.answer[:20] and slow.seconds > 9.5, f"the slow body: {slow.seconds:.1f} s, {slow.answer!r}")
    check(b" 200 " in fast.answer[:20], f"the fast body: {fast.seconds:.1f} s, {fast.answer!r}")
    return {"slow body, s": round(slow.seconds, 1), "fast body, s": round(fast.seconds, 1)}


def infer_one(port, model):
    return Client(port).infer(model, [1.0])


def histograms(stage):
    """Sums of durations grow by what passed, not by an hour."""
    control, serving = moved(stage, {name: MODELS[name] for name in ("plain", "python")})
    with serving as server:
        begin = time.monotonic()
        with Load(server.http_port, ["plain", "python"], 2) as load:
            for offset in JUMPS * 3:
                control.set(0, offset)
                n_before = load.n_right
                wait_until(lambda n=n_before: load.n_right > n + 10, "answers go on after a jump")
        passed = time.monotonic() - begin
        sums = {name: ask_metric(server, name) / 1e6 for name in (
            "nv_inference_request_duration_us", "nv_inference_queue_duration_us",
            "nv_inference_compute_infer_duration_us")}
        for name, seconds in sums.items():
            check(0 <= seconds <= 2 * 2 * passed + 1, f"{name} is {seconds:.1f} s after {passed:.1f} s")
        for offset in JUMPS:
            control.set(0, offset)
            status, page = Client(server.http_port).ask("GET", "/v2/dashboard?since=0&log=0")
            apart = int(re.search(rb'"now_ms":\s*(\d+)', page).group(1)) / 1000 - time.time() - offset
            check(status == 200 and abs(apart) < 60, f"the time of the dashboard: {status}, {apart:.0f} s apart")
    return {"answers": load.n_right, "sum, s": round(sum(sums.values()), 2), "passed, s": round(passed, 1)}


def loadings(lines):
    return [line for line in lines if '"loading: ' in line]


def log_times(stage):
    """The log has the new time at once."""
    control, serving = moved(stage, {"plain": IDENTITY}, "--model-control-mode=explicit")
    seen = []
    with serving as server:
        client = Client(server.http_port)
        for offset in JUMPS:
            control.set(0, offset)
            n_lines = len(server.log)
            check(client.order("load", "plain")[0] == 200, "no load")
            wait_until(lambda n=n_lines: loadings(server.log[n:]), "a line of the log")
            line = loadings(server.log[n_lines:])[0]
            hour, minute = map(int, re.match(r"[IWE]\d{4} (\d\d):(\d\d):", line).groups())
            wanted = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset)
            apart = (hour * 60 + minute - wanted.hour * 60 - wanted.minute) % 1440
            check(min(apart, 1440 - apart) <= 1, f"{line[:25]} at {wanted}")
            seen.append(offset)
            client.order("unload", "plain")
    return {"jumps": len(seen)}


def certificates(stage):
    """A client's certificate that is valid for half an hour: refused an hour later, accepted again an hour earlier."""
    from certificates import Authority  # pylint: disable=import-outside-toplevel

    folder = stage.path("tls", "x").parent
    authority = Authority(folder)
    authority.issue("server")
    authority.issue("client")
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)
    reissue(authority, folder, until)
    control, serving = moved(
        stage, {"plain": IDENTITY}, "--http-use-ssl=true", f"--http-server-cert={authority.cert('server')}",
        f"--http-server-key={authority.key('server')}", f"--http-root-cert={authority.root}",
        "--http-use-ssl-mutual=true")
    results = []
    with serving as server:
        for offset in (0, HOUR, 0):
            control.set(0, offset)
            results.append(can_connect(server.http_port, authority))
    check(results == [True, False, True], f"accepted: {results}")
    return {"connections": len(results)}


def can_connect(port, authority):
    context = ssl.create_default_context(cafile=authority.root)
    context.check_hostname = False
    context.load_cert_chain(authority.cert("short"), authority.key("client"))
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as raw, context.wrap_socket(raw) as one:
            one.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            return one.recv(100).startswith(b"HTTP/1.1 200")
    except (ssl.SSLError, ConnectionError):
        return False


def reissue(authority, folder, until):
    """The client's certificate with another end."""
    from certificates import openssl  # pylint: disable=import-outside-toplevel

    request, config = folder / "short.csr", folder / "ca.cnf"
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("77\n")
    config.write_text(f"[ca]\ndefault_ca = a\n[a]\ndatabase = {folder}/index.txt\nserial = {folder}/serial\n"
                      f"new_certs_dir = {folder}\ndefault_md = sha256\npolicy = p\n[p]\ncommonName = supplied\n")
    openssl("req", "-new", "-key", authority.key("client"), "-subj", "/CN=short", "-out", str(request))
    openssl("ca", "-batch", "-notext", "-config", str(config), "-cert", authority.root, "-keyfile", authority.key("ca"),
            "-in", str(request), "-out", authority.cert("short"), "-startdate", "20200101000000Z",
            "-enddate", until.strftime("%Y%m%d%H%M%SZ"))


def suspended(stage):
    """All processes stop; what they did goes on afterwards, and connections are as they were."""
    repository = stage.write({name: MODELS[name] for name in ("plain", "python", "slow")})
    with stage.serve(repository) as server:
        kept = Client(server.http_port)
        check(kept.infer("plain", [1.0]) == (200, [1.0]), "no answer before")
        answers = []
        slow = threading.Thread(target=lambda: answers.append(Client(server.http_port).infer("slow", [3.0])))
        slow.start()
        time.sleep(0.2)
        pids = [server.process.pid, *children_of(server.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(SUSPENDED_SECONDS)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
        slow.join(scenes.SECONDS)
        check(answers == [(200, [3.0])], f"the request under way: {answers}")
        check(kept.infer("plain", [2.0]) == (200, [2.0]), "the connection does not go on")
        check(Client(server.http_port).infer("python", [2.0]) == (200, [2.0]), "the Python model does not answer")
        check(ask_metric(server, "neso_python_restarts_total") == 0, "a process was started again")
    return {"seconds": SUSPENDED_SECONDS}


SCENES = {
    "lengths of time-outs": lengths,
    "deadlines of gRPC": deadlines,
    "rates and resources": rates,
    "durations in metrics": histograms,
    "times of the log": log_times,
    "certificates": certificates,
    "suspended machine": suspended,
}

if __name__ == "__main__":
    sys.exit(scenes.main(__doc__, SCENES))
