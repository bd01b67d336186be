# SPDX-License-Identifier: BSD-3-Clause
"""What a server holds at a moment, and whether it grew over a series of such readings.

A series has a reading before the load and one after each tenth of it. The first tenth fills what is kept for reuse
(pools, threads, tables), so growth counts from the reading after it to the last one.
"""
import collections
import os
import pathlib
import time

# What may come and go without a leak, and why; the greater of it and GROWTH_ALLOWED counts.
GROWTH_ALLOWED = 0.01
FLOORS = {
    "rss_kib": 256,          # 64 pages: thread caches of the allocator, stacks that a deeper call touches
    "anonymous_kib": 256,    # the same without pages of files, which the system takes and brings as it likes
    "python_pss_kib": 256,   # the same, of all Python processes together
    "heap_kib": 64,          # blocks in the caches of threads count as allocated
    "mappings": 2,           # an arena's heap that the allocator maps or splits
    "descriptors": 0,
    "threads": 0,
}
UNITS = {"rss_kib": "KiB", "anonymous_kib": "KiB", "python_pss_kib": "KiB", "heap_kib": "KiB",
         "mappings": "", "descriptors": "", "threads": ""}
TITLES = {"rss_kib": "resident memory", "anonymous_kib": "of it, not of files", "python_pss_kib": "Python processes",
          "heap_kib": "allocated heap", "mappings": "mappings", "descriptors": "descriptors", "threads": "threads"}

SETTLE_SECONDS = 25     # at most, until a server without load is at rest; pools halve every 10 s
REST_SECONDS = 1.5      # for which nothing changes then
LEAST_SECONDS = 2.5     # a loop without a connection returns its memory after 1.5 s
TRIMMED_SECONDS = 21    # a loop with connections does so every 10 s, when it was quiet in them
STEP_SECONDS = 0.25


class HeapReader:
    """The other side of heap_reader.c."""

    def __init__(self, folder):
        self.path = str(pathlib.Path(folder) / "heap")
        for suffix in ("ask", "answer"):
            os.mkfifo(f"{self.path}.{suffix}")
        self._ask = os.open(self.path + ".ask", os.O_RDWR)
        self._answer = os.open(self.path + ".answer", os.O_RDWR)

    def environment(self, library):
        return {"LD_PRELOAD": str(library), "HEAP_READER": self.path}

    def _question(self, kind):
        os.write(self._ask, kind)
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self._answer, 128)
        return [int(word) for word in line.split()]

    def read(self, trims=False):
        """(bytes that are allocated, bytes that the allocator keeps)"""
        in_use, free, _ = self._question(b"t" if trims else b"m")
        return in_use, free

    def arenas(self):
        """What malloc_info() tells of each, as XML: of a growth it says where."""
        self._question(b"i")
        return pathlib.Path(self.path + ".info").read_text(encoding="ascii")

    def close(self):
        os.close(self._ask)
        os.close(self._answer)


def rollup(pid):
    """/proc/PID/smaps_rollup, which is exact; VmRSS of "status" is up to some pages of each core off."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    return {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}


def pss_of(pid):
    """Without pages of files: how many processes share those changes with every other program of the machine."""
    try:
        memory = rollup(pid)
        return memory.get("Pss", 0) - memory.get("Pss_File", 0)
    except OSError:
        return 0  # it has ended meanwhile


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found += (task / "children").read_text().split()
        except OSError:
            pass  # a thread that has ended
    return [int(child) for child in found]


def read(pid, heap=None):
    """One reading, as a dict."""
    proc = pathlib.Path(f"/proc/{pid}")
    memory = rollup(pid)
    reading = {"rss_kib": memory["Rss"], "anonymous_kib": memory["Anonymous"],
               "python_pss_kib": sum(pss_of(child) for child in children_of(pid)),
               "descriptors": len(os.listdir(proc / "fd")),
               "threads": len(os.listdir(proc / "task")),
               "mappings": (proc / "maps").read_text(errors="replace").count("\n")}
    if heap is not None:
        in_use, free = heap.read()
        reading["heap_kib"], reading["heap_free_kib"] = in_use // 1024, free // 1024
    return reading


def is_more(reading, other):
    """Whether one of its measures is beyond what another reading allows."""
    return any(reading[what] > other[what] + max(floor, other[what] * GROWTH_ALLOWED)
               for what, floor in FLOORS.items() if what in other)


def is_equal(reading, other):
    return abs(reading["rss_kib"] - other["rss_kib"]) <= 16 and all(
        reading[what] == other[what] for what in ("descriptors", "threads", "mappings"))


def read_at_rest(pid, heap=None, first=None, least_seconds=LEAST_SECONDS):
    """The reading when nothing has changed for a while, at the earliest after `least_seconds`. When it is more than
    `first` allows, the server gets SETTLE_SECONDS to give back what it keeps for a time only."""
    begin = changed = time.monotonic()
    last = read(pid, heap)
    while time.monotonic() - begin < SETTLE_SECONDS:
        time.sleep(STEP_SECONDS)
        now = read(pid, heap)
        if not is_equal(now, last):
            last, changed = now, time.monotonic()
        is_settled = time.monotonic() - changed >= REST_SECONDS and time.monotonic() - begin >= least_seconds
        if is_settled and (first is None or not is_more(now, first)):
            return now
    return read(pid, heap)


Growth = collections.namedtuple("Growth", "what first last more allowed")


def growths(readings):
    """The Growth of each measure, from the reading after the first tenth to the last one."""
    found = []
    for what, floor in FLOORS.items():
        if what not in readings[1]:
            continue
        first, last = readings[1][what], readings[-1][what]
        found.append(Growth(what, first, last, last - first, max(floor, first * GROWTH_ALLOWED)))
    return found


def judge(readings):
    """The Growths that are too much."""
    return [growth for growth in growths(readings) if growth.more > growth.allowed]
