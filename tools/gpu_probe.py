#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the first GPU of this machine can be used, by CUDA's driver alone, in less than a second.

Prints lines for a person: what is missing, and what to do about it; or what is there, and what tools/check_gpu.sh will
not be able to measure. Exit code: 0 the GPU can be used; 1 it cannot; 3 there is none.
"""
import ctypes
import sys

LIBRARY = "libcuda.so.1"
USABLE, UNUSABLE, NO_GPU = 0, 1, 3

NO_DEVICE = 100
# What cuInit() answers on machines that are not set up yet, besides its own name for it.
OF_INIT = {
    3: "the driver's library was loaded by a process that forked",
    34: f"{LIBRARY} is the stub of the CUDA toolkit, for linking alone: take its folder out of LD_LIBRARY_PATH",
    304: "the operating system refused: are /dev/nvidiactl and /dev/nvidia-uvm there, and may this user open them?",
    802: "the GPUs are not ready: machines with NVSwitch (HGX, DGX) need the service nvidia-fabricmanager, of the "
         "version of the driver",
    803: f"the kernel's module and {LIBRARY} are of different versions: load the module anew (reboot) after an update, "
         "and mount no other driver into a container",
    804: f"{LIBRARY} is a compatibility package that this GPU does not support: use the one of the installed driver",
    999: "often /dev/nvidia-uvm is missing: `nvidia-modprobe -u -c 0` makes it",
}
NO_LIBRARY = ("install the driver, or start the container with the GPUs (`docker run --gpus all`) and "
              "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
NO_DEVICE_HINT = ("look at `nvidia-smi -L`, /dev/nvidia0 and CUDA_VISIBLE_DEVICES; with MIG on, an instance must have "
                  "been made (`nvidia-smi mig -cgi ... -C`)")

COMPUTE_MODE, MAJOR, MINOR = 20, 75, 76  # CUdevice_attribute
PROHIBITED, EXCLUSIVE = 2, 3
SET_MODE = "`nvidia-smi -i 0 -c DEFAULT`, as root"
LEAST_CAPABILITY = (6, 0)
IN_USE = 46  # CUDA_ERROR_DEVICE_UNAVAILABLE
# The functions that came last, and the version of CUDA that has them; the server's list is cuda_driver_api.h.
NEWEST = (("cuDeviceGetUuid_v2", "11.4"),)
HANDLE_BYTES = 64
BYTES = 2 << 20


class Missing(Exception):
    def __init__(self, code, *lines):
        super().__init__(lines[0])
        self.code = code
        self.lines = lines


def call(cuda, name, *arguments):
    return getattr(cuda, name)(*arguments)


def text_of(cuda, result):
    name = ctypes.c_char_p()
    if call(cuda, "cuGetErrorName", result, ctypes.byref(name)) != 0 or not name.value:
        return f"CUDA error {result}"
    return f"{name.value.decode()} ({result})"


def start(cuda):
    """The number of devices."""
    n = ctypes.c_int()
    result = call(cuda, "cuInit", 0)
    if result == 0:
        result = call(cuda, "cuDeviceGetCount", ctypes.byref(n))
    if result == NO_DEVICE or (result == 0 and n.value == 0):
        raise Missing(NO_GPU, "no GPU: CUDA's driver has no device here", NO_DEVICE_HINT)
    if result != 0:
        hint = [OF_INIT[result]] if result in OF_INIT else []
        raise Missing(NO_GPU if result == 34 else UNUSABLE,
                      f"{'no GPU' if result == 34 else 'the GPU cannot be used'}: CUDA's driver cannot be started: "
                      f"{text_of(cuda, result)}", *hint)
    return n.value


def dotted(version):
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def attribute(cuda, number):
    value = ctypes.c_int()
    return value.value if call(cuda, "cuDeviceGetAttribute", ctypes.byref(value), number, 0) == 0 else 0


def check_functions(cuda):
    version = ctypes.c_int()
    for name, since in NEWEST:
        if not hasattr(cuda, name):
            call(cuda, "cuDriverGetVersion", ctypes.byref(version))
            raise Missing(UNUSABLE, "the GPU cannot be used: the driver is too old: it is of CUDA "
                          f"{dotted(version)}, and {name} came with {since}")


def check_device(cuda):
    """The modes and the age of the first device."""
    capability = attribute(cuda, MAJOR), attribute(cuda, MINOR)
    if capability < LEAST_CAPABILITY:
        raise Missing(UNUSABLE, f"GPU 0 cannot be used: its compute capability is {capability[0]}.{capability[1]}, the "
                      "least is 6.0", "CUDA_VISIBLE_DEVICES may put another GPU first")
    mode = attribute(cuda, COMPUTE_MODE)
    if mode == PROHIBITED:
        raise Missing(UNUSABLE, "GPU 0 cannot be used: its compute mode is PROHIBITED", SET_MODE)
    if mode == EXCLUSIVE:
        raise Missing(UNUSABLE, "GPU 0 cannot be used: its compute mode is EXCLUSIVE_PROCESS, and the tests need a "
                      "server and its clients on it at the same time", SET_MODE)


def check_memory(cuda):
    """A context, memory, and a handle of it for other processes."""
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    handle = ctypes.create_string_buffer(HANDLE_BYTES)
    result = call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    if result != 0:
        hint = ["another process has it for itself"] if result == IN_USE else []
        raise Missing(UNUSABLE, f"GPU 0 cannot be used: no context can be made: {text_of(cuda, result)}", *hint)
    try:
        call(cuda, "cuCtxSetCurrent", context)
        result = call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
        if result != 0:
            raise Missing(UNUSABLE, f"GPU 0 cannot be used: it has not {BYTES} bytes of memory: "
                          f"{text_of(cuda, result)}", "`nvidia-smi` shows who has them")
        result = call(cuda, "cuIpcGetMemHandle", handle, memory)
        call(cuda, "cuMemFree_v2", memory)
    finally:
        call(cuda, "cuDevicePrimaryCtxRelease_v2", 0)
    if result == 0:
        return []
    return [f"CUDA gives no handle of memory for other processes ({text_of(cuda, result)}), as under WSL 2: parts with "
            "CUDA shared memory will fail"]


def notes(cuda, n):
    """What is there, and what the check cannot show."""
    name, version = ctypes.create_string_buffer(128), ctypes.c_int()
    call(cuda, "cuDeviceGetName", name, 128, 0)
    call(cuda, "cuDriverGetVersion", ctypes.byref(version))
    shown = name.value.decode(errors="replace")
    yield (f"GPU 0 of {n}: {shown}, compute capability {attribute(cuda, MAJOR)}.{attribute(cuda, MINOR)}, driver of "
           f"CUDA {dotted(version)}")
    if "MIG " in shown:
        yield ("GPU 0 is a part of a GPU (MIG): NVML's figures are of the whole, and nvidia-smi may not find its UUID, "
               "so comparisons of metrics may fail")


def probe(cuda):
    """The lines to print."""
    n = start(cuda)
    check_functions(cuda)
    check_device(cuda)
    lines = list(notes(cuda, n))
    return lines + check_memory(cuda)


def main():
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError as error:
        print(f"no GPU: CUDA's driver is not installed: {error}\n    {NO_LIBRARY}")
        return NO_GPU
    try:
        print("\n".join(probe(cuda)))
        return USABLE
    except Missing as missing:
        print("\n    ".join(missing.lines))
        return missing.code


if __name__ == "__main__":
    sys.exit(main())
