# SPDX-License-Identifier: BSD-3-Clause
"""A client with memory on a GPU, through the stand-in of CUDA's driver (tests/gpu), for tests of CUDA shared
memory: the tests' process is the other process, to which the memory belongs.

As a program it is a client that can be killed:

    cuda_client.py <device> <bytes in hexadecimal>

allocates, prints the handle in hexadecimal, and waits until its standard input ends.
"""
import contextlib
import ctypes
import functools
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("NESO_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
FOLDER = BUILD / "tests" / "gpu"


@functools.cache
def driver():
    is_real = os.environ.get("NESO_TESTS_REAL_GPU") == "1"  # see gpus.py
    library = ctypes.CDLL("libcuda.so.1" if is_real else str(FOLDER / "libcuda.so.1"))
    must(library.cuInit(0))
    return library


def must(result):
    assert result == 0, f"CUDA's driver: error {result}"


class Device:
    """Its context is current on the calling thread while the block runs."""

    def __init__(self, number):
        self.number = number
        self.context = ctypes.c_void_p()

    def __enter__(self):
        must(driver().cuDevicePrimaryCtxRetain(ctypes.byref(self.context), self.number))
        must(driver().cuCtxSetCurrent(self.context))
        return self

    def __exit__(self, *_):
        must(driver().cuCtxSetCurrent(None))
        must(driver().cuDevicePrimaryCtxRelease_v2(self.number))


class Memory:
    """An allocation with that content."""

    def __init__(self, content, device=0):
        self.device = device
        self.n = len(content)
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(Device(device))
        self.address = ctypes.c_ulonglong()
        must(driver().cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(self.n)))
        self.stream = ctypes.c_void_p()
        must(driver().cuStreamCreate(ctypes.byref(self.stream), 1))
        self.write(content)

    def write(self, content, offset=0):
        self._enter()
        must(driver().cuMemcpyHtoDAsync_v2(ctypes.c_ulonglong(self.address.value + offset), content,
                                           ctypes.c_size_t(len(content)), self.stream))
        must(driver().cuStreamSynchronize(self.stream))

    def read(self, offset, n):
        self._enter()
        to = ctypes.create_string_buffer(n)
        must(driver().cuMemcpyDtoHAsync_v2(to, ctypes.c_ulonglong(self.address.value + offset),
                                           ctypes.c_size_t(n), self.stream))
        must(driver().cuStreamSynchronize(self.stream))
        return to.raw

    def handle(self):
        self._enter()
        handle = ctypes.create_string_buffer(64)
        must(driver().cuIpcGetMemHandle(handle, self.address))
        return handle.raw

    def _enter(self):
        context = ctypes.c_void_p()
        must(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device))
        must(driver().cuDevicePrimaryCtxRelease_v2(self.device))
        must(driver().cuCtxSetCurrent(context))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The driver ends this process when another one still has the memory open."""
        self._enter()
        must(driver().cuStreamDestroy_v2(self.stream))
        must(driver().cuMemFree_v2(self.address))
        self._stack.close()


def files_of(pid):
    """The numbers of the files that are the memory of that process's devices."""
    folder = f"/proc/{pid}/fd"
    found = set()
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            if "memfd:fake gpu" in os.readlink(f"{folder}/{fd}"):
                found.add(os.stat(f"{folder}/{fd}").st_ino)
    return found


def mapped_files(pid):
    """The same of all files that the process has mapped, one entry for each mapping."""
    with open(f"/proc/{pid}/maps") as maps:
        return [int(line.split()[4]) for line in maps if "memfd:fake gpu" in line]


class Other:
    """A client in a process of its own."""

    def __init__(self, content, device=0):
        self.process = subprocess.Popen([sys.executable, __file__, str(device), content.hex()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.handle = bytes.fromhex(self.process.stdout.readline().decode())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def main():
    with Memory(bytes.fromhex(sys.argv[2]), int(sys.argv[1])) as memory:
        print(memory.handle().hex(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
