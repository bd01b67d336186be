# SPDX-License-Identifier: BSD-3-Clause
"""The campaign of length (tests/length): its readings, its judgement and its report."""
import contextlib
import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
import requests

from conftest import BUILD, ROOT, is_sanitized

TAKES_SECONDS = 10
sys.path[:0] = [str(ROOT / "tests" / "length"), str(ROOT / "tests" / "faults")]

import gauge  # noqa: E402
import page  # noqa: E402
import parts  # noqa: E402
import place  # noqa: E402

RUN = ROOT / "tests" / "length" / "run.py"
READING = {"rss_kib": 10000, "anonymous_kib": 6000, "python_pss_kib": 0, "heap_kib": 5000, "heap_free_kib": 100,
           "descriptors": 40, "threads": 12, "mappings": 120}


def readings(**last):
    """Eleven; what the first tenth adds does not count."""
    return [dict(READING, rss_kib=7000, threads=10)] + [READING] * 9 + [dict(READING, **last)]


@pytest.mark.parametrize("last, grown", [
    ({}, []),
    ({"rss_kib": 10256, "heap_kib": 5064, "mappings": 122}, []),
    ({"rss_kib": 9000, "threads": 3}, []),
    ({"rss_kib": 10257}, ["rss_kib"]),
    ({"rss_kib": 9000, "anonymous_kib": 6257}, ["anonymous_kib"]),
    ({"heap_kib": 5065}, ["heap_kib"]),
    ({"python_pss_kib": 257}, ["python_pss_kib"]),
    ({"mappings": 123}, ["mappings"]),
    ({"descriptors": 41}, ["descriptors"]),
    ({"threads": 13}, ["threads"])])
def test_judgement(last, grown):
    assert [growth.what for growth in gauge.judge(readings(**last))] == grown


def test_one_percent_of_much():
    much = [dict(READING, rss_kib=1000000)] * 10
    assert gauge.judge([*much, dict(READING, rss_kib=1010000)]) == []
    assert [growth.more for growth in gauge.judge([*much, dict(READING, rss_kib=1010001)])] == [10001]


def result(**last):
    taken = readings(**last)
    return {"name": "requests", "title": "requests & more", "unit": "requests", "scale": 0.5, "done": 1000,
            "seconds": 12.5, "readings": taken, "failures": [], "facts": {"start, s": 0.5},
            "growth": [growth._asdict() for growth in gauge.growths(taken)]}


def test_report():
    picture = ElementTree.fromstring(page.picture([result(rss_kib=20000), result()]))
    assert len(picture.findall("{*}polyline")) == 6
    rows = page.table(result(rss_kib=20000))
    assert "| resident memory, MiB | 6.84 | 9.77 | 19.53 | +10000 KiB | 256 KiB | GROWS |" in rows
    assert "| threads | 10 | 12 | 12 | +0 | 0 | ok |" in rows
    text = page.page({"date": "2026-01-02", "commit": "abc", "machine": "2 cores", "command": "make length",
                      "parts": [result()]}, "x.svg")
    assert "1000 requests (scale 0.5) in 12 s: nothing grows." in text
    assert "* start, s: 0.5" in text


@pytest.mark.parametrize("arguments, text", [
    (["--only=request"], "--only: there is no part 'request'; they are requests, loads, sequences, connections, idle, "
                         "models, observed"),
    (["--only=requests:nonsense"], "--only: requests has no model 'nonsense'"),
    (["--scale=much"], "--scale: 'much' is not a number"),
    (["--scale=loads=0"], "--scale: 'loads=0' is not above 0 and at most 100"),
    (["--scale=load=1"], "--scale: there is no part 'load'")])
def test_wrong_arguments(arguments, text):
    answer = subprocess.run([sys.executable, str(RUN), f"--build={BUILD}", *arguments], capture_output=True, text=True,
                            check=False)
    assert (answer.returncode, answer.stderr.strip()) == (1, text)


def test_merge(tmp_path):
    for name, part in (("a", {**result(), "done": 7}), ("b", result(threads=13)), ("c", {**result(), "name": "idle"})):
        (tmp_path / name).write_text(json.dumps({"date": "2026-01-02", "commit": "abc", "machine": "2 cores",
                                                 "command": f"run {name}", "parts": [part]}))
    subprocess.run([sys.executable, str(RUN), f"--merge={tmp_path / 'a'},{tmp_path / 'b'},{tmp_path / 'c'}",
                    f"--out={tmp_path / 'out'}"], check=True)
    merged = json.loads((tmp_path / "out" / "length.json").read_text())
    assert [(part["name"], part["done"]) for part in merged["parts"]] == [("requests", 1000), ("idle", 1000)]
    assert merged["command"] == "run a; run b; run c"
    text = (tmp_path / "out" / "length.md").read_text()
    assert "| threads | 10 | 12 | 13 | +1 | 0 | GROWS |" in text
    assert "1000 requests (scale 0.5, commit abc) in " in text


def load_run():
    """The faults have a run.py, too."""
    spec = importlib.util.spec_from_file_location("length_run", RUN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NoPlace:
    def __init__(self, *_):
        pass

    def close(self):
        pass


class Broken(parts.Part):
    """Its third tenth fails."""

    name = title = unit = "broken"

    def tenth(self, _, n, number):
        if number == 2:
            raise place.Failed("enough")

    def read(self, _, first=None):
        return dict(READING)


def test_run_that_is_cut_short(monkeypatch):
    """Its readings so far are saved after each tenth, and its page says so."""
    saved = []
    monkeypatch.setattr(place, "Place", NoPlace)
    ended = load_run().run_part(Broken(), BUILD, 1, "", lambda so_far: saved.append(json.loads(json.dumps(so_far))))
    assert [len(so_far["readings"]) for so_far in saved] == [2, 3]
    assert [bool(so_far["growth"]) for so_far in saved] == [False, True]
    assert ended["failures"] == ["Failed: enough"]
    text = page.page({"date": "2026-01-02", "commit": "abc", "machine": "2 cores", "command": "make length",
                      "parts": [saved[1]]}, "x.svg")
    assert "cut short after 2 tenths: nothing grows." in text
    assert "after 2/10" in text


def metric(where, name):
    text = requests.get(f"http://127.0.0.1:{where.server.port('metrics')}/metrics", timeout=20).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + "{"))


def test_loads(tmp_path):
    """The programs that are the load, and what is read of the server meanwhile."""
    if not (BUILD / "tests" / "length" / "heap_reader.so").exists():
        pytest.skip("tests/length is not built")
    if is_sanitized():
        pytest.skip("a sanitizer must be the first library that is preloaded")
    with contextlib.closing(place.Place(BUILD, tmp_path, parts.Connections().models())) as where:
        before = gauge.read(where.pid, where.heap)
        assert set(before) == set(READING)
        assert before["heap_kib"] > 500 and before["threads"] > 5
        assert 1000 < before["anonymous_kib"] < before["rss_kib"]
        assert where.heap.arenas().count("<heap nr=") > 1
        for protocol in ("http", "grpc"):
            # 2 of 16 get no answer, of which one had sent its request.
            assert where.connections(protocol, "plain", 160, 8) == {"connections": 160, "answers": 140}
            where.bench(protocol, "plain", 50, *parts.SHAPE)
        assert metric(where, "nv_inference_request_success") in range(2 * (140 + 50), 2 * (150 + 50) + 1)
        holder = place.Holder(where, "grpc", "plain", 20)
        assert gauge.read(where.pid, where.heap)["descriptors"] >= before["descriptors"] + 20
        assert holder.end() == 0
        with pytest.raises(place.Failed, match="GET /v2/models/none: 40"):
            where.ask("GET", "/v2/models/none")
        assert json.loads(where.ask("POST", "/v2/repository/index"))[0]["name"] == "plain"
