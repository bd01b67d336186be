# SPDX-License-Identifier: BSD-3-Clause
"""Runs one instance of a Python model. Only the server starts this program.

An error before it is attached to the server's memory is written to the control socket, as a text for
the user.
"""
import os
import sys

CONTROL_FD = 3


def refuse(text):
    os.write(CONTROL_FD, text.encode("utf-8", "replace")[:1000])
    sys.exit(1)


def check_interpreter():
    where = sys.executable or "the interpreter"
    if sys.version_info < (3, 9):
        refuse("%s is Python %d.%d, and the python backend needs 3.9 or later"
               % (where, sys.version_info[0], sys.version_info[1]))
    import sysconfig
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        refuse("%s is a free-threaded build of Python, which the python backend cannot use: such "
               "builds do not load extensions of the stable ABI" % where)
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        refuse("%s cannot import numpy, which the python backend needs: %s" % (where, error))


def main():
    import signal
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    check_interpreter()
    sys.argv = [""]  # the arguments are ours; a model may parse its own
    try:
        import triton_python_backend_utils
    except ImportError as error:
        refuse("%s cannot load the python backend's modules: %s" % (sys.executable, error))
    try:
        start = triton_python_backend_utils._begin()
    except OSError as error:
        refuse("%s cannot map the memory that it shares with the server: %s" % (sys.executable, error))
    return triton_python_backend_utils._run(start)


if __name__ == "__main__":
    sys.exit(main())
