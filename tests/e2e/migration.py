# SPDX-License-Identifier: BSD-3-Clause
"""`neso check --migrate`, and what loading the models of a repository does."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

import requests

from conftest import BUILD, Server

DIRECTORIES = (f"--backend-directory={BUILD / 'backends'}",
               f"--repoagent-directory={BUILD / 'repoagents'}",
               f"--scheduler-directory={BUILD / 'schedulers'}")
EXPLICIT = ("--model-control-mode=explicit", *DIRECTORIES[1:])


@contextlib.contextmanager
def interpreter_of_the_tests():
    """Models in Python run with the interpreter of the tests, which has NumPy."""
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{path}"
    yield
    os.environ["PATH"] = path


def check(path, *options):
    ended = subprocess.run([BUILD / "neso", "check", "--migrate", path, *DIRECTORIES, *options],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def report(path, *options):
    code, out, err = check(path, "--json", *options)
    assert err == ""
    reported = json.loads(out)
    assert code == (1 if reported["verdict"] == "missing" else 0)
    return reported


def verdicts(path, *options):
    return {m["name"]: m["verdict"] for m in report(path, *options)["models"]}


def loads(repository, names):
    """Name -> None when the model is READY after its load, else what the server said."""
    server = Server(repository, EXPLICIT)
    try:
        results = {}
        for name in names:
            quoted = urllib.parse.quote(name)
            answer = requests.post(f"{server.url}/v2/repository/models/{quoted}/load", timeout=60)
            results[name] = None if answer.status_code == 200 else answer.text
            if answer.status_code == 200:
                ready = requests.get(f"{server.url}/v2/models/{quoted}/ready", timeout=60)
                assert ready.status_code == 200, name
        return results
    finally:
        server.stop()


def assert_is_what_loading_does(repository):
    reported = verdicts(repository)
    results = loads(repository, reported)
    surprises = [name for name, verdict in reported.items()
                 if (verdict == "missing") != (results[name] is not None)]
    assert not [name for name in surprises if reported[name] == "missing"], surprises
    if surprises:
        # What the backend alone knows: a load says it.
        loaded = verdicts(repository, "--load")
        assert {name: loaded[name] for name in surprises} == dict.fromkeys(surprises, "missing"), \
            results
    return reported
