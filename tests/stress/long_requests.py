#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a client waits beside others whose requests take long, on the same loop.

  tests/stress/long_requests.py [--build=build] [--seconds=10] [--rounds=3] [name ...]

The server has one loop for each protocol. Prints the worst and the 99th percentile of a tiny
inference (HTTP) and of ServerLive (gRPC), asked every few milliseconds, without and with the requests
of tests/e2e/long_requests.py: all of FOUR together, then each alone; or those named, together.
"""
import argparse
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def line(what, times):
    text = f"{what:24}"
    for name in ("http", "grpc"):
        values = sorted(times[name])
        text += (f"  {name}: worst {values[-1] * 1e3:8.1f} ms, 99 % "
                 f"{values[int(len(values) * 0.99)] * 1e3:7.1f} ms ({len(values)})")
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    os.environ["NESO_BUILD"] = options.build
    from conftest import Server, write_repository
    import long_requests as long

    sets = [options.names] if options.names else [
        list(long.FOUR), *([make.__name__] for make in long.HTTP + long.GRPC)]
    with tempfile.TemporaryDirectory() as folder:
        write_repository(folder, long.MODELS)
        server = Server(folder, ("--http-thread-count=1", "--grpc-infer-thread-count=1"),
                        ("http", "grpc"))
        ports = server.port("http"), server.port("grpc")
        try:
            with long.Prober(*ports) as prober:
                for _ in range(options.rounds):
                    print(line("alone", prober.waits(options.seconds)), flush=True)
                    for names in sets:
                        with long.LongRequests(*ports, names) as requests:
                            times = prober.waits(options.seconds)
                        label = "four together" if names == list(long.FOUR) else "+".join(names)
                        print(line(label, times), requests.counts, flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
