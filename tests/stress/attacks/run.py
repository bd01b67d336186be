#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs every attack of this folder, one after the other; a part of `make hostile`.

  tests/stress/attacks/run.py [--build=build] [--only=TEXT]
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
NOT_ATTACKS = {"run.py", "attack.py", "decoupled_pipelines.py"}
SECONDS = 600  # what one attack may take
# Attacks of which each part is run by itself.
PARTS = {"grpc_through_proxies.py": ("haproxy", "haproxy-tls", "haproxy-sharing", "nginx", "nginx-tls")}


def is_chosen(path, only):
    """A whole name is that of one attack, though others contain it: through_proxies, grpc_through_proxies."""
    return path.stem == only if (FOLDER / f"{only}.py").exists() else only in path.name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[2] / "build")
    parser.add_argument("--only", default="", help="the attack of that name, or those whose file's name has this text")
    options = parser.parse_args()
    environment = {**os.environ, "NESO_BUILD": str(options.build.resolve())}
    failed = []
    all_begun = time.monotonic()
    scripts = [(path, *part) for path in sorted(FOLDER.glob("*.py"))
               if path.name not in NOT_ATTACKS and is_chosen(path, options.only)
               for part in [[one] for one in PARTS.get(path.name, ())] or [[]]]
    for number, (path, *part) in enumerate(scripts, 1):
        name, begun = " ".join([path.stem, *part]), time.monotonic()
        try:
            status = subprocess.run([sys.executable, str(path), *part], env=environment, check=False,
                                    timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            print(f"! over {SECONDS} s")
            status = 1
        if status != 0:
            failed.append(name)
        print(f"-- {number} of {len(scripts)}, {name}: {time.monotonic() - begun:.0f} s" + "  ! beyond" * (status != 0),
              flush=True)
    print(f"{len(scripts)} attacks, {len(failed)} beyond their bounds, {time.monotonic() - all_begun:.0f} s"
          + (": " + ", ".join(failed) if failed else ""))
    sys.exit(1 if failed or not scripts else 0)


if __name__ == "__main__":
    main()
