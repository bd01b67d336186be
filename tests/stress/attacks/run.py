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

FOLDER = pathlib.Path(__file__).resolve().parent
NOT_ATTACKS = {"run.py", "attack.py", "decoupled_pipelines.py"}
SECONDS = 600  # what one attack may take


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[2] / "build")
    parser.add_argument("--only", default="", help="those alone whose file's name has this text")
    options = parser.parse_args()
    environment = {**os.environ, "NESO_BUILD": str(options.build.resolve())}
    failed = []
    scripts = [path for path in sorted(FOLDER.glob("*.py"))
               if path.name not in NOT_ATTACKS and options.only in path.name]
    for path in scripts:
        try:
            status = subprocess.run([sys.executable, str(path)], env=environment, check=False,
                                    timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            print(f"! over {SECONDS} s")
            status = 1
        if status != 0:
            failed.append(path.stem)
    print(f"{len(scripts)} attacks, {len(failed)} beyond their bounds"
          + (": " + ", ".join(failed) if failed else ""))
    sys.exit(1 if failed or not scripts else 0)


if __name__ == "__main__":
    main()
