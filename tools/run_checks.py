#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds, runs every test and ends with one line: "N passed, N failed".

  run_checks.py build                       everything: programs of Meson, then tests/e2e
  run_checks.py --suite=unit --end-to-end="tests/e2e/test_http_infer.py" build-asan
                                            some suites of Meson, and some end-to-end tests

A test program of cmocka counts with each of its tests; any other program counts once, and so does
anything that keeps tests from running (a build that fails, a program that crashes, time over).
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"
CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test", re.M)


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def fail(self, what):
        print(f"FAILED: {what}", flush=True)
        self.failed += 1


def run(command, timeout, env=None, quiet=False):
    """The exit status, None when the time was over (then the whole process group was ended)."""
    print("+ " + " ".join(command), flush=True)
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL if quiet else None,
                               start_new_session=True)
    try:
        return process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None


def build(folder, options):
    command = ["make", "--no-print-directory", f"{folder}/build.ninja", f"BUILD={folder}"]
    if folder in ("build-clang", "build-asan", "build-tsan"):
        command.pop()  # has a rule of its own
    # Since Meson 1.7 "all" is without what only tests depend on.
    return (run(command, options.build_seconds) == 0
            and run(["ninja", "-C", folder, "all", "meson-test-prereq"],
                    options.build_seconds) == 0)


def count_program(entry, tally):
    """One line of Meson's testlog.json."""
    text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    passed = sum(int(n) for n in CMOCKA_PASSED.findall(text))
    failed = sum(int(n) for n in CMOCKA_FAILED.findall(text))
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        tally.add(max(passed, 1), 0)
        return
    if entry["result"] == "SKIP":
        return
    tally.add(passed, max(failed, 1))
    print(f"\n==== {entry['name']}: {entry['result']} (status {entry.get('returncode')}) ====")
    print(text.strip()[-20000:], flush=True)


def sanitizer_environment(folder):
    env = dict(os.environ)
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    # ONNX Runtime is not instrumented: how its threads synchronise is not seen.
    suppressions = os.path.join(ROOT, "tools", "tsan_suppressions.txt")
    env.setdefault("TSAN_OPTIONS", "exitcode=66:second_deadlock_stack=1:allocator_may_return_null=1:"
                   f"suppressions={suppressions}")
    env["NESO_BUILD"] = os.path.join(ROOT, folder)
    return env


def run_programs(folder, options, tally):
    log = os.path.join(ROOT, folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--quiet"]
    for suite in options.suite:
        command += ["--suite", suite]
    if options.fixed_addresses and subprocess.run(["setarch", "-R", "true"], check=False,
                                                  capture_output=True).returncode == 0:
        # gcc 12's ThreadSanitizer cannot place its shadow under much address randomisation.
        command = ["setarch", "-R"] + command
    status = run(command, options.test_seconds, sanitizer_environment(folder), quiet=True)
    if status is None:
        tally.fail(f"the programs took more than {options.test_seconds} s")
    n_lines = 0
    if os.path.exists(log):
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                count_program(json.loads(line), tally)
                n_lines += 1
    if n_lines == 0:
        tally.fail("no test program ran")
    elif status not in (0, None) and tally.failed == 0:
        tally.fail(f"meson test ended with status {status}")


def run_end_to_end(folder, options, tally):
    tests = options.end_to_end.split()
    if not tests:
        return
    report = os.path.join(ROOT, folder, "e2e.xml")
    if os.path.exists(report):
        os.remove(report)
    status = run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=" + report,
                  *tests], options.test_seconds, sanitizer_environment(folder))
    if status is None:
        tally.fail(f"tests/e2e took more than {options.test_seconds} s")
    elif status not in (0, 1) or not os.path.exists(report):
        tally.fail(f"pytest ended with status {status}")
    if os.path.exists(report):
        count_report(report, tally)


def count_report(report, tally):
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        number = {key: int(suite.get(key, "0"))
                  for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        tally.add(number["tests"] - failed - number["skipped"], failed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="the build folder, relative to the tree")
    parser.add_argument("--end-to-end", default="tests/e2e",
                        help="files and folders for pytest; empty = none")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--build-seconds", type=float, default=1800)
    parser.add_argument("--test-seconds", type=float, default=2700)
    parser.add_argument("--fixed-addresses", action="store_true",
                        help="without address randomisation, as far as the machine allows")
    options = parser.parse_args()
    tally = Tally()

    if "tsan" in options.folder:
        options.fixed_addresses = True
    if not build(options.folder, options):
        tally.fail("the build")
    else:
        run_programs(options.folder, options, tally)
        run_end_to_end(options.folder, options, tally)
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    return 1 if tally.failed > 0 or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
