# SPDX-License-Identifier: BSD-3-Clause
"""A plug-in of pytest: several runs of the same tests share them, a file at a time.

  PYTHONPATH=tools python3 -m pytest -p share_tests --queue=FILE tests...

FILE lists the test files, one line each, in the order in which they are begun. Each run takes the
next line that no other one has taken, until none is left. What has the scope of a module is made
once, as without this plug-in, since one run takes a whole file.
"""
import fcntl
import pathlib


def pytest_addoption(parser):
    parser.addoption("--queue", type=pathlib.Path, help="the file that lists what is shared")


def take(queue):
    """Takes the next file off the front of the list and returns its path, or None."""
    with queue.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        first, _, rest = file.read().partition("\n")
        file.seek(0)
        file.truncate()
        file.write(rest)
    return first or None


def run_items(session, items, other):
    """Runs a test with `other`, of another file, as the next one: the module's fixtures end and the
    session's stay."""
    for item, following in zip(items, [*items[1:], other]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def pytest_runtestloop(session):
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors while collecting tests")
    files = {}
    for item in session.items:
        files.setdefault(str(item.path), []).append(item)
    while (path := take(session.config.option.queue)) is not None:
        items = files.get(path, [])
        other = next((others[0] for name, others in files.items() if name != path), None)
        run_items(session, items, other)
    return True
