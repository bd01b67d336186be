# SPDX-License-Identifier: BSD-3-Clause
"""The short forms of `make soak-pipelines`: steps come, change and go under constant load; many requests
inside an ensemble at a time."""
import subprocess
import sys

from conftest import BUILD, ROOT, require_build

TAKES_SECONDS = 10


def run(program, *options):
    require_build(("testing",))
    ended = subprocess.run([sys.executable, str(ROOT / "tests" / "stress" / program), f"--build={BUILD}",
                            *options, "--any-memory"],
                           capture_output=True, text=True, timeout=300, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_steps_change_under_load():
    run("pipelines.py", "--seconds=10")


def test_many_requests_inside():
    run("pipelines_in_flight.py", "--requests=2000")
