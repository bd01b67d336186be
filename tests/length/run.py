#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The campaign of length: what a server holds must not grow, however long it serves.

  make length       or       tests/length/run.py [--build=build] [--only=PART,...] [--scale=SCALE] [--out=FOLDER]

  requests     all schedulers in turn, over HTTP and gRPC; "requests:MODEL" for one of the models
  loads        models that are loaded and unloaded: identity, ONNX, Python; new names, changed configurations, failures
  sequences    sequences, of which one in a hundred is never ended
  connections  connections for one request each, HTTP and gRPC
  idle         10 000 idle connections for an hour, beside 1 000 requests a second
  models       10 000 models that stay loaded: time of the start, the index and a poll, memory of each
  observed     requests with traces, a verbose log and readings of the metrics, whose files are rotated

SCALE is a share of the full size, 1 by default, or one for each part: --scale=0.01,models=1. Each part has a server of
its own. Its resident memory (RSS), allocated heap, descriptors, threads and mappings, and the proportional memory (PSS)
of its Python processes are read before the load and after each tenth of it, when the server is at rest. From the
reading after the first tenth to the last one each may grow by 1 %, or by a floor of its own (gauge.py).

Writes length.json, length.svg and length.md into FOLDER, also after each tenth, and prints a table. The exit status is 1
when something grew or failed. --merge=FILE,... makes one report of the length.json of several runs; of a part that
several have, the last.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "faults")]
os.environ["PATH"] = "/usr/bin:/bin:" + os.environ["PATH"]
TENTHS = 10


def parse_scale(text, names):
    """{part: scale}; a number without a name is for all others."""
    scales, default = {}, 1.0
    for word in text.split(","):
        name, _, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise SystemExit(f"--scale: {word!r} is not a number") from None
        if name and name not in names:
            raise SystemExit(f"--scale: there is no part {name!r}")
        if not 0 < value <= 100:
            raise SystemExit(f"--scale: {word!r} is not above 0 and at most 100")
        if name:
            scales[name] = value
        else:
            default = value
    return {name: scales.get(name, default) for name in names}


def choose(text, parts):
    """The parts of --only, made."""
    by_name = {part.name: part for part in parts}
    chosen = []
    for word in text.split(",") if text else by_name:
        name, _, model = word.partition(":")
        if name not in by_name:
            raise SystemExit(f"--only: there is no part {name!r}; they are {', '.join(by_name)}")
        chosen.append(by_name[name](model) if model else by_name[name]())
        if model and not chosen[-1].loads:
            raise SystemExit(f"--only: {name} has no model {model!r}")
    return chosen


def run_part(part, build, scale, folder, save=lambda result: None):
    """Its result, as a dict, which save() gets after each tenth, too: then a run that is cut short leaves its readings."""
    import gauge  # pylint: disable=import-outside-toplevel
    from place import Failed, Place  # pylint: disable=import-outside-toplevel

    size = part.size(scale)
    each = max(1, round(size / TENTHS))
    result = {"name": part.name, "title": part.title, "unit": part.unit, "scale": scale, "done": 0, "readings": [],
              "growth": [], "failures": [], "facts": part.facts}
    begin = time.monotonic()

    def judge(*errors):
        result["seconds"] = round(time.monotonic() - begin, 1)
        result["done"] = size if part.unit == "models" else each * max(0, len(result["readings"]) - 1)
        result["failures"] = list(errors)
        if len(result["readings"]) > 2:
            result["growth"] = [growth._asdict() for growth in gauge.growths(result["readings"])]
            result["failures"] += [f"{gauge.TITLES[growth.what]} grows from {growth.first} to {growth.last}"
                                   for growth in gauge.judge(result["readings"])]

    try:
        with contextlib.closing(Place(build, folder, part.models(), part.options)) as place:
            part.prepare(place)
            result["readings"].append(part.read(place))
            part.burst(place)
            for number in range(TENTHS):
                part.tenth(place, each, number)
                result["readings"].append(part.read(place, result["readings"][1] if number > 0 else None))
                print(f"{part.name} {number + 1}/{TENTHS}, {time.monotonic() - begin:.0f} s: "
                      f"{result['readings'][-1]}", file=sys.stderr, flush=True)
                judge()
                save(result)
            # Of what is left once the allocator has given everything back, the growth is not fragmentation.
            in_use, kept = place.heap.read(trims=True)
            result["trimmed"] = {"rss_kib": gauge.rollup(place.pid)["Rss"], "heap_kib": in_use // 1024,
                                 "heap_free_kib": kept // 1024}
            part.finish(place)
        judge()
    except (Failed, AssertionError, OSError) as error:
        judge(f"{type(error).__name__}: {error}")
    return result


def describe_machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text(errors="replace"))
    return f"{os.cpu_count()} cores, {cpu.group(1) if cpu else os.uname().machine}, Linux {os.uname().release.split('-')[0]}"


def describe_commit():
    if shutil.which("git") is None:
        return "unknown"
    answer = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
                            capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def write_report(report, folder):
    import page  # pylint: disable=import-outside-toplevel

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "length.json").write_text(json.dumps(report, indent=1) + "\n")
    shown = [result for result in report["parts"] if result["growth"]]
    (folder / "length.svg").write_text(page.picture(shown))
    (folder / "length.md").write_text(page.page(report, "length.svg"))


def merge(paths):
    reports = [json.loads(pathlib.Path(path).read_text()) for path in paths.split(",")]
    by_name = {result["name"]: {"commit": report["commit"], **result} for report in reports for result in report["parts"]}
    return {**reports[-1], "command": "; ".join(report["command"] for report in reports),
            "parts": list(by_name.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--merge", default="", help="no run: a report of these reports")
    options = parser.parse_args()
    options.build = options.build.resolve()
    os.environ["NESO_BUILD"] = str(options.build)
    import page  # pylint: disable=import-outside-toplevel
    from parts import PARTS  # pylint: disable=import-outside-toplevel

    scales = parse_scale(options.scale, [part.name for part in PARTS])
    if options.merge:
        write_report(merge(options.merge), options.out or options.build / "length")
        return 0
    parts = choose(options.only, PARTS)
    report = {"date": datetime.date.today().isoformat(), "commit": describe_commit(), "machine": describe_machine(),
              "command": f"make length ONLY={options.only} SCALE={options.scale}", "parts": []}
    out = options.out or options.build / "length"
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="neso-length-") as folder:
            result = run_part(part, options.build, scales[part.name], folder,
                              lambda so_far: write_report({**report, "parts": [*report["parts"], so_far]}, out))
        report["parts"].append(result)
        print("\n".join(page.text(result) if result["growth"] else [result["title"]]), flush=True)
        for failure in result["failures"]:
            print(f"FAILED {part.name}: {failure}", flush=True)
        write_report(report, out)
    failed = [result["name"] for result in report["parts"] if result["failures"]]
    print(f"{len(report['parts'])} parts, {len(failed)} failed" + (": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
