#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""HAProxy and nginx with the configurations of deploy/ in front of three servers or two, under load.

  make balancers      or      tests/balancers/run.py --build=build [--seconds=30] [--servers=2] [--only=haproxy|nginx]

32 clients check every answer: half of them use HTTP and half gRPC, and half of each kind sends sequences, some of them
on streams. The test restarts the servers one after the other, for --seconds and until each server was restarted: it
takes a server out, drains it, stops it by SIGTERM, starts it on the same ports, and puts it back. No request may be lost
and no sequence broken. A server that drains gets no new work, and its sequences continue. In every second restart
SIGTERM comes while sequences are live.

Where the balancer checks the health, a server hangs for some seconds. It is DOWN then, and keeps its sequences.

Then the test kills a server. Only its requests in flight may fail, and the balancer sends none of these to another
server. The next request of each of its sequences is answered with the error of a missing START. After its restart the
server gets requests again.
"""
import argparse
import itertools
import os
import pathlib
import signal
import sys
import tempfile
import time
import types

from clients import Grpc, GrpcStream, Http, Load, Lost, Sequence
from envoy import check_envoy
from place import HaProxy, Nginx, Server, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
N_CLIENTS = 32
N_SERVERS = 3
SEQUENCES_AT_LEAST = 3  # that a server has before it drains
HELD_MS = 15000         # a request that is in flight when its server is killed would take so long


def make_ways(balancer, stubs, client_type):
    """Odd ones send sequences (Load.start)."""
    kinds = [lambda: ("grpc", Grpc(balancer, client_type, stubs)),
             lambda: ("grpc", Grpc(balancer, client_type, stubs)),
             lambda: ("http", Http(balancer)),
             lambda: ("http", Http(balancer)),
             lambda: ("grpc", Grpc(balancer, client_type, stubs)),
             lambda: ("grpc stream", GrpcStream(balancer, client_type, stubs)),
             lambda: ("http", Http(balancer)),
             lambda: ("http", Http(balancer))]
    return [kinds[at % len(kinds)]() for at in range(N_CLIENTS)]


def restart(balancer, server, load, while_live):
    """A rolling restart's turn of one server; returns how many answers of sequences it gave while it drained."""
    wait_until(lambda: server.live_sequences() >= SEQUENCES_AT_LEAST, f"{server.name} has no sequences")
    balancer.take_out(server)
    server.ctl("drain")
    balancer.has_taken_out(server)
    before = load.answers()
    # For requests that the balancer had chosen this server for.
    server.ctl("drain", "--wait", "1")
    if not while_live:
        wait_until(lambda: server.live_sequences() == 0, f"sequences do not leave {server.name}")
    server.stop()
    after = load.answers()
    # Those that were in flight when it was taken out, at most one of each client.
    n_plain = after["plain", server.name] - before["plain", server.name]
    if n_plain > N_CLIENTS // 2:
        load.mistakes.append(f"{server.name} drains and gets requests: {n_plain}")
    server.start()
    balancer.put_back(server)
    balancer.has_back(server)
    seen = load.answers()["plain", server.name]
    wait_until(lambda: load.answers()["plain", server.name] > seen + 10, f"{server.name} gets no requests again")
    return after["sums", server.name] - before["sums", server.name]


def restart_all(balancer, load, seconds):
    """Returns the number of restarts, and of answers of sequences by draining servers."""
    until = time.monotonic() + seconds
    n_restarts = n_answers = 0
    for server in itertools.cycle(balancer.servers):
        n_answers += restart(balancer, server, load, while_live=n_restarts % 2 == 1)
        n_restarts += 1
        if n_restarts >= len(balancer.servers) and time.monotonic() >= until or load.failures or load.mistakes:
            return n_restarts, n_answers


def hang_one(balancer, load, server, ways):
    """A server that does not answer the checks for some seconds, so that it is DOWN, keeps its sequences."""
    own = [Sequence(way, server.name) for way in ways]
    server.pause()
    try:
        balancer.finds_down(server)
        for one in own:
            one.start(sequence_end=True)
    finally:
        server.resume()
    load.mistakes += [f"the sequence of a server that hung: {result!r}" for result in [one.join() for one in own]
                      if result is None or isinstance(result, Exception) or result[:2] != (2, server.name)]
    balancer.has_back(server)


def unexplained(failure, victim, gone_at):
    """What a killed server may cost: its requests in flight, and its sequences."""
    was_in_flight = failure.began <= gone_at
    if failure.server not in (None, victim.name):
        return True
    return not was_in_flight and not failure.is_missing_start


def kill_one(balancer, load, victim, ways):
    """Returns the failures that it caused: in flight, and of a missing START."""
    wait_until(lambda: victim.live_sequences() >= SEQUENCES_AT_LEAST, f"{victim.name} has no sequences")
    held = [Sequence(way, victim.name) for way in ways]
    for one in held:
        one.start(delay_ms=HELD_MS)
    wait_until(lambda: all(one.is_in(victim.sequences()) for one in held), f"no request is held by {victim.name}")
    gone_at = victim.kill()
    # Sent again it would be refused by a server that does not know its sequence.
    load.mistakes += [f"a request that {victim.name} had was not lost: {result!r}"
                      for result in [one.join() for one in held] if not isinstance(result, Lost)]
    others = [server.name for server in balancer.servers if server is not victim]
    seen = load.answers()
    wait_until(lambda: all(load.answers()[kind, name] > seen[kind, name] + 30
                           for kind in ("plain", "sums") for name in others), "the others do not serve")
    victim.start()
    balancer.has_back(victim)
    seen = load.answers()
    wait_until(lambda: all(load.answers()[kind, victim.name] > seen[kind, victim.name] + 10
                           for kind in ("plain", "sums")), f"{victim.name} gets no requests again")
    load.stop()
    failures = list(load.failures)
    load.mistakes += [f"after the kill of {victim.name}: {one} (began {one.began - gone_at:+.4f} s)"
                      for one in failures if unexplained(one, victim, gone_at)]
    n_start = sum(one.is_missing_start for one in failures)
    if n_start == 0:
        load.mistakes.append("no sequence of the killed server got the error of a missing START")
    return len(failures) - n_start, n_start


def report_restarts(balancer, load, n_restarts, n_drained, seconds):
    print(f"{balancer.name}: {n_restarts} restarts in {seconds:.0f} s: {sum(load.answers().values())} answers, "
          f"{len(load.failures)} lost, {load.n_sequences} sequences whole, {n_drained} answers of sequences by servers "
          "that drained", flush=True)
    if n_drained == 0:
        load.mistakes.append("no sequence continued on a server that drained")


def use_balancer(balancer, load, seconds, ways):
    """Returns what was lost before a server was killed."""
    began = time.monotonic()
    n_restarts, n_drained = restart_all(balancer, load, seconds)
    report_restarts(balancer, load, n_restarts, n_drained, time.monotonic() - began)
    if balancer.checks_health:
        hang_one(balancer, load, balancer.servers[1], ways())
    lost = list(load.failures)
    if not lost and not load.mistakes:
        n_in_flight, n_start = kill_one(balancer, load, balancer.servers[0], ways())
        print(f"{balancer.name}: a server killed: {n_in_flight} requests in flight lost, {n_start} of its sequences got "
              "the error of a missing START", flush=True)
    load.stop()
    for server in balancer.servers:
        server.stop()
    return lost


def test_balancer(kind, build, folder, n_servers, seconds, stubs, client_type):
    """Returns whether it passed."""
    folder.mkdir()
    folder.chmod(0o755)
    servers = [Server(build, folder, number) for number in range(1, n_servers + 1)]
    balancer, load, lost = None, Load(), []
    try:
        for server in servers:
            server.start()
        balancer = kind(folder, servers)
        load.start(make_ways(balancer, stubs, client_type))
        lost = use_balancer(balancer, load, seconds,
                            lambda: [Http(balancer), Grpc(balancer, client_type, stubs)])
    except AssertionError as error:
        load.mistakes.append(str(error))
        lost = list(load.failures)
    finally:
        load.stop()
        for one in (*servers, balancer):
            if one is not None:
                one.close()
    for problem in [*map(str, lost), *load.mistakes][:20]:
        print(f"FAILED: {kind.name}: {problem}")
    return not lost and not load.mistakes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=os.environ.get("NESO_BUILD", ROOT / "build"), type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=30, help="of restarts, for each balancer")
    parser.add_argument("--servers", type=int, choices=(2, 3), default=N_SERVERS)
    parser.add_argument("--only", choices=[kind.name for kind in (HaProxy, Nginx)])
    options = parser.parse_args()
    build = options.build.resolve()
    os.environ["NESO_BUILD"] = str(build)
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    from grpc_stubs import Client, generate

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and balancers end as well
    passed = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # the workers of nginx, which have another user, look for files in it
        (folder / "stubs").mkdir()
        stubs = types.SimpleNamespace(service=generate(folder / "stubs")["grpc_service"])
        if options.only is None:
            problems = check_envoy(folder / "envoy")
            for text in problems:
                print(f"FAILED: {text}")
            passed = not problems
            if passed:
                print("envoy: the configuration fits the API; nothing runs it", flush=True)
        for kind in (HaProxy, Nginx):
            if options.only in (None, kind.name):
                passed &= test_balancer(kind, build, folder / kind.name, options.servers, options.seconds, stubs, Client)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
