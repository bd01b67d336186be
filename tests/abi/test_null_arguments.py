#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls every exported function with zeros and NULLs only: each that returns an error must give a
clear one, none may crash.

  test_null_arguments.py <path of libtritonserver.so>

Each call runs in a process of its own, so that a crash is a result like any other.
"""
import ctypes
import os
import sys

import abi_names

INVALID_ARG = 3

# NULL is what they are there for, or what they have no use for.
SUCCEED = {"TRITONSERVER_ServerOptionsSetLogInfo", "TRITONSERVER_ServerOptionsSetLogWarn",
           "TRITONSERVER_ServerOptionsSetLogError", "TRITONSERVER_ServerOptionsSetLogFormat",
           "TRITONSERVER_ServerOptionsSetLogVerbose", "NESO_LogLine", "NESO_ReportCrashes", "NESO_LogKeepRecent",
           "NESO_ThreadAllowInlineExecution", "NESO_ThreadBeginResponses",
           "NESO_ThreadEndResponses", "NESO_ThreadLoadsFor", "NESO_ThreadWakeInstances"}
MAY_SUCCEED_SUFFIX = "Delete"
NOT_AN_OUTCOME = {"TRITONSERVER_ErrorNew"}


def call(library, function):
    """In a child: "ok", "code N: text", or how it ended."""
    if not hasattr(library, function.name):
        return "not exported"
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        native = getattr(library, function.name)
        native.restype = ctypes.c_void_p
        # 64-bit zeros: NULL, 0 and false in every integer register.
        result = native(*[ctypes.c_uint64(0)] * len(function.parameters))
        text = "ok"
        if function.returns_error() and result:
            library.TRITONSERVER_ErrorMessage.restype = ctypes.c_char_p
            error = ctypes.c_void_p(result)
            message = library.TRITONSERVER_ErrorMessage(error).decode()
            text = f"code {library.TRITONSERVER_ErrorCode(error)}: {message}"
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return text or f"ended with status {os.WEXITSTATUS(status)}"


def wanted(function):
    """What is right, as a predicate of the outcome, and in words."""
    if not function.returns_error() or function.name in NOT_AN_OUTCOME:
        return (lambda o: o == "ok" or o.startswith("code")), "no crash"
    if function.name in SUCCEED:
        return (lambda o: o == "ok"), "success"
    start = f"code {INVALID_ARG}: "
    if function.name.endswith(MAY_SUCCEED_SUFFIX):
        return (lambda o: o == "ok" or o.startswith(start)), "success or INVALID_ARG"
    return (lambda o: o.startswith(start) and len(o) > len(start)), "INVALID_ARG with a text"


def main():
    library = ctypes.CDLL(os.path.abspath(sys.argv[1]))
    functions = abi_names.exported_functions()
    n_failed = 0

    for function in functions:
        is_right, words = wanted(function)
        outcome = call(library, function)
        if not is_right(outcome):
            n_failed += 1
            print(f"FAILED: {function.name}(NULL...): {outcome}; wanted: {words}")
    print(f"{len(functions)} functions called, {n_failed} failed")
    sys.exit(1 if n_failed or not functions else 0)


if __name__ == "__main__":
    main()
