#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds, runs every test and ends with one line: "N passed, N failed".

  run_checks.py build                       everything: programs of Meson, then tests/e2e
  run_checks.py --suite=unit --end-to-end="tests/e2e/test_http_infer.py" build-asan
                                            some suites of Meson, and some end-to-end tests

A test program of cmocka counts with each of its tests; any other program counts once, and so does
anything that keeps tests from running (a build that fails, a program that crashes, time over).
Before the last line come the ten slowest tests, the time that each phase took, and each failed test
with the end of what it printed (also in failures.txt of the build's folder).
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
TAKES_SECONDS = re.compile(r"^TAKES_SECONDS = (\d+)$", re.M)
ALONE = re.compile(r"^ALONE = True\b", re.M)
LONGEST_FAILURE = 6000  # characters of a failed test that are shown again at the end
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test", re.M)


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.seconds = {}  # of a test, by its name
        self.failures = []  # what each failed test printed, headed by its name

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def explain(self, name, text):
        self.failures.append(f"FAILED: {name}\n{text.strip()[-LONGEST_FAILURE:]}\n")

    def fail(self, what):
        print(f"FAILED: {what}", flush=True)
        self.failed += 1
        self.explain(what, "")

    def print_failures(self, path):
        text = "\n".join(self.failures)
        path.write_text(text, encoding="utf-8")
        print(text, end="")

    def print_slowest(self, n=10):
        slowest = sorted(self.seconds.items(), key=lambda row: -row[1])[:n]
        for name, seconds in slowest:
            print(f"{seconds:8.1f} s  {name}")


class Phases:
    """The time of each part of the checks: with phases("build"): ..."""

    def __init__(self):
        self.rows = []

    @contextlib.contextmanager
    def __call__(self, name):
        wall, cpu = time.monotonic(), cpu_seconds()
        yield
        self.rows.append((name, time.monotonic() - wall, cpu_seconds() - cpu))

    def print_rows(self):
        for name, wall, cpu in self.rows:
            print(f"{wall:8.1f} s, {cpu:.1f} s of CPU  {name}")


def cpu_seconds():
    """CPU time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start(command, env=None, output=None):
    print("+ " + " ".join(command[:12] + ["..."] * (len(command) > 12)), flush=True)
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output,
                            start_new_session=True)


def wait(process, deadline):
    """Returns the exit status, or None when the time was over and the process group was ended."""
    try:
        return process.wait(timeout=max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None


def run(command, timeout, env=None, quiet=False):
    return wait(start(command, env, subprocess.DEVNULL if quiet else None),
                time.monotonic() + timeout)


def build(folder, options):
    command = ["make", "--no-print-directory", f"{folder}/build.ninja", f"BUILD={folder}"]
    if folder in ("build-clang", "build-asan", "build-tsan", "build-arm64"):
        command.pop()  # the Makefile has a rule of its own for this folder
    # Since Meson 1.7 the target "all" leaves out what only tests depend on.
    targets = ["all", "meson-test-prereq"]
    if options.only_needed:
        targets[0:1] = ["installed", "test_targets"]
    return (run(command, options.build_seconds) == 0
            and run(["ninja", "-C", folder, *targets], options.build_seconds) == 0)


def count_program(entry, tally):
    """Reads one line of Meson's testlog.json."""
    text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    tally.seconds[entry["name"]] = entry["duration"]
    passed = sum(int(n) for n in CMOCKA_PASSED.findall(text))
    failed = sum(int(n) for n in CMOCKA_FAILED.findall(text))
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        tally.add(max(passed, 1), 0)
        return
    if entry["result"] == "SKIP":
        return
    tally.add(passed, max(failed, 1))
    tally.explain(entry["name"], text)
    print(f"\n==== {entry['name']}: {entry['result']} (status {entry.get('returncode')}) ====")
    print(text.strip()[-20000:], flush=True)


def sanitizer_environment(folder, time_factor=1):
    env = dict(os.environ)
    env.setdefault("NESO_TIME_FACTOR", str(time_factor))
    # intercept_tls_get_addr: libasan takes variables of a thread in a library that was loaded by dlopen() for those of
    # glibc 2.19 when its allocation begins at byte 16 of a page, and the search for leaks then reads an address that is
    # none, "Tracer caught signal 11". Without the interception it finds them from the thread's own memory.
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1:"
                   "intercept_tls_get_addr=0")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    # ONNX Runtime is not instrumented, so the sanitizer does not see its synchronisation.
    suppressions = os.path.join(ROOT, "tools", "tsan_suppressions.txt")
    env.setdefault("TSAN_OPTIONS", "exitcode=66:second_deadlock_stack=1:allocator_may_return_null=1:"
                   f"suppressions={suppressions}")
    env["NESO_BUILD"] = os.path.join(ROOT, folder)
    # What libuv closes by the bare system call is shown to ThreadSanitizer.
    see_close = os.path.join(ROOT, folder, "tests", "sanitizers", "see_close.so")
    if os.path.exists(see_close):
        env.setdefault("LD_PRELOAD", see_close)
    return env


def run_programs(folder, options, tally):
    log = os.path.join(ROOT, folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--quiet"]
    if options.time_factor != 1:
        command += ["--timeout-multiplier", str(options.time_factor)]
    for suite in options.suite:
        command += ["--suite", suite]
    if options.fixed_addresses and subprocess.run(["setarch", "-R", "true"], check=False,
                                                  capture_output=True).returncode == 0:
        # gcc 12's ThreadSanitizer cannot map its shadow memory with full address randomisation.
        command = ["setarch", "-R"] + command
    status = run(command, options.test_seconds, sanitizer_environment(folder, options.time_factor),
                 quiet=True)
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


def files_of(tests):
    """Returns the test files of files and folders; None when a part of a file is requested."""
    files = []
    for test in tests:
        path = pathlib.Path(ROOT, test)
        if path.is_dir():
            files += sorted(path.rglob("test_*.py"))
        elif path.is_file():
            files.append(path)
        else:
            return None
    return files


def seconds_of(path):
    """Returns the approximate time of a test file, where it declares one."""
    found = TAKES_SECONDS.search(path.read_text(encoding="utf-8"))
    return int(found.group(1)) if found else 0


class EndToEnd:
    """The runs of pytest: some that share the files (share_tests.py), those that take long first,
    and after them one with the files that measure time and must have the machine for themselves."""

    def __init__(self, folder, options, tally):
        self._folder = pathlib.Path(ROOT, folder)
        self._deadline = time.monotonic() + options.test_seconds
        self._tally = tally
        self._n_runs = 0
        self._env = sanitizer_environment(options.end_to_end_build or folder,
                                          options.time_factor)
        self._env["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(pathlib.Path(ROOT, "tools")), self._env.get("PYTHONPATH")]))

    def run(self, tests, n_at_once=1, more=()):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more]
        runs = []
        for _ in range(n_at_once):
            self._n_runs += 1
            report, log = (self._folder / f"e2e-{self._n_runs}.{kind}" for kind in ("xml", "log"))
            report.unlink(missing_ok=True)
            with log.open("wb") as output:
                runs.append((start([*command, f"--junitxml={report}", *map(str, tests)], self._env,
                                   output), report, log))
        for process, report, log in runs:
            status = wait(process, self._deadline)
            print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
            if status is None:
                self._tally.fail("tests/e2e took too long")
            elif status not in (0, 1) or not report.exists():
                self._tally.fail(f"pytest ended with status {status}")
            if report.exists():
                count_report(report, self._tally)

    def run_shared(self, files, n_at_once):
        queue = self._folder / "e2e-queue"
        queue.write_text("".join(f"{path}\n" for path in files), encoding="utf-8")
        self.run(files, min(n_at_once, len(files)), ("-p", "share_tests", f"--queue={queue}"))
        if queue.read_text(encoding="utf-8"):
            self._tally.fail("some of tests/e2e was not run")


def run_end_to_end(folder, options, tally):
    tests = options.end_to_end.split()
    runs = EndToEnd(folder, options, tally)
    files = files_of(tests)
    if files is None:
        runs.run(tests)
        return
    files.sort(key=seconds_of, reverse=True)
    alone = [path for path in files if ALONE.search(path.read_text(encoding="utf-8"))]
    shared = [path for path in files if path not in alone]
    if shared:
        runs.run_shared(shared, options.end_to_end_runs)
    if alone:
        runs.run(alone)


def count_report(report, tally):
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        number = {key: int(suite.get(key, "0"))
                  for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        tally.add(number["tests"] - failed - number["skipped"], failed)
        for case in suite.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            tally.seconds[name] = float(case.get("time", "0"))
            for kind in ("failure", "error"):
                for what in case.findall(kind):
                    tally.explain(name, what.text or what.get("message", ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="the build folder, relative to the tree")
    parser.add_argument("--end-to-end", default="tests/e2e",
                        help="files and folders for pytest; empty = none")
    parser.add_argument("--end-to-end-build", default="",
                        help="folder that has the server of the end-to-end tests, if not the build's")
    parser.add_argument("--time-factor", type=int, default=1,
                        help="programs and end-to-end tests may take so many times longer than usual")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--only-needed", action="store_true",
                        help="build what is installed and the programs of the suites, and nothing "
                             "that only other end-to-end tests and the benchmarks use")
    parser.add_argument("--build-seconds", type=float, default=1800)
    parser.add_argument("--test-seconds", type=float, default=2700)
    parser.add_argument("--end-to-end-runs", type=int, default=(os.cpu_count() or 1) + 1,
                        help="runs of pytest that share the end-to-end tests")
    parser.add_argument("--fixed-addresses", action="store_true",
                        help="without address randomisation, as far as the machine allows")
    options = parser.parse_args()
    tally = Tally()

    if "tsan" in options.folder:
        options.fixed_addresses = True
    phases = Phases()
    with phases("build"):
        is_built = build(options.folder, options)
    if not is_built:
        tally.fail("the build")
    else:
        with phases("programs"):
            run_programs(options.folder, options, tally)
        with phases("end to end"):
            run_end_to_end(options.folder, options, tally)
    tally.print_slowest()
    phases.print_rows()
    tally.print_failures(pathlib.Path(ROOT, options.folder, "failures.txt"))
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    return 1 if tally.failed > 0 or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
