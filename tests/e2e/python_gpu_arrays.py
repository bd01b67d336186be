# SPDX-License-Identifier: BSD-3-Clause
"""What a library of arrays on GPUs would be to a model in Python, on CUDA's driver alone: tests copy this file into
the models that need it.

    a = Array([1.0, 2.0], device=0)     a new allocation; its values are written by work that may still run
    a.__dlpack__(), a.__dlpack_device__()
    values(tensor)                      those of any object with __dlpack__, or of a capsule
"""
import ctypes
import struct

cuda = ctypes.CDLL("libcuda.so.1")
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Of a capsule that is being deleted, which must not become an object of Python again.
is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))
pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", api))

CUDA, FLOAT = 2, 2
UNUSED, USED = b"dltensor", b"used_dltensor"  # DLPack keeps the addresses of neither


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("n_dims", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


def must(result):
    assert result == 0, f"CUDA's driver: error {result}"


class Device:
    """Its context is current on the calling thread while the block runs."""

    contexts = {}
    streams = {}

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        if self.number not in self.contexts:
            context, stream = ctypes.c_void_p(), ctypes.c_void_p()
            must(cuda.cuInit(0))
            must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.number))
            must(cuda.cuCtxSetCurrent(context))
            must(cuda.cuStreamCreate(ctypes.byref(stream), 1))
            self.contexts[self.number], self.streams[self.number] = context, stream
        must(cuda.cuCtxSetCurrent(self.contexts[self.number]))
        return self.streams[self.number]

    def __exit__(self, *_):
        must(cuda.cuCtxSetCurrent(None))


def end():
    """When nothing is on the devices any more."""
    for number, context in Device.contexts.items():
        must(cuda.cuCtxSetCurrent(context))
        must(cuda.cuStreamDestroy_v2(Device.streams[number]))
        must(cuda.cuCtxSetCurrent(None))
        must(cuda.cuDevicePrimaryCtxRelease_v2(number))


exported = {}  # address of a Managed -> what it needs
n_alive = 0


@Deleter
def delete(managed):
    del exported[ctypes.addressof(managed.contents)]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def delete_unused(capsule):
    if is_valid(capsule, UNUSED):
        del exported[pointer_of(capsule, UNUSED)]


def export(tensor, *needed):
    managed = Managed(tensor, None, delete)
    exported[ctypes.addressof(managed)] = (managed, *needed)
    return api.PyCapsule_New(ctypes.addressof(managed), UNUSED, delete_unused)


class Array:
    def __init__(self, values, device=0, strides=None):
        global n_alive
        self.device, self.n = device, len(values)
        self.address = ctypes.c_uint64()
        self.source = ctypes.create_string_buffer(struct.pack(f"<{self.n}f", *values), 4 * self.n)
        self.strides = strides
        with Device(device) as stream:
            must(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(4 * self.n)))
            must(cuda.cuMemcpyHtoDAsync_v2(self.address, self.source, ctypes.c_size_t(4 * self.n), stream))
        n_alive += 1

    def __del__(self):
        global n_alive
        with Device(self.device) as stream:
            must(cuda.cuStreamSynchronize(stream))
            must(cuda.cuMemFree_v2(self.address))
        n_alive -= 1

    def __dlpack_device__(self):
        return CUDA, self.device

    def __dlpack__(self, stream=None, first=0, n=None, kind=CUDA):
        """`first`, `n`: a part of it."""
        n = self.n - first if n is None else n
        shape = (ctypes.c_int64 * 1)(n)
        strides = (ctypes.c_int64 * 1)(self.strides) if self.strides else None
        return export(Tensor(self.address.value, kind, self.device, 1, FLOAT, 32, 1, shape, strides, 4 * first),
                      shape, strides, self)


class View:
    """Of a capsule, which it takes; another DLPack object over the same bytes."""

    def __init__(self, capsule):
        self.address = api.PyCapsule_GetPointer(capsule, UNUSED)
        self.managed = Managed.from_address(self.address)
        api.PyCapsule_SetName(capsule, USED)

    def __del__(self):
        self.managed.deleter(self.managed)

    def __dlpack_device__(self):
        return self.managed.tensor.device, self.managed.tensor.device_id

    def __dlpack__(self, stream=None, first=0, n=None):
        t = self.managed.tensor
        n = t.shape[0] - first if n is None else n
        shape = (ctypes.c_int64 * 1)(n)
        return export(Tensor(t.data, t.device, t.device_id, 1, t.code, t.bits, 1, shape, None, t.offset + 4 * first),
                      shape, self)

    def read(self):
        t = self.managed.tensor
        n = 1
        for i in range(t.n_dims):
            n *= t.shape[i]
        to = ctypes.create_string_buffer(4 * n)
        with Device(t.device_id) as stream:
            must(cuda.cuMemcpyDtoHAsync_v2(to, ctypes.c_uint64(t.data + t.offset), ctypes.c_size_t(4 * n), stream))
            must(cuda.cuStreamSynchronize(stream))
        return list(struct.unpack(f"<{n}f", to.raw))


def view(tensor):
    return View(tensor.__dlpack__() if hasattr(tensor, "__dlpack__") else tensor)


def values(tensor):
    return view(tensor).read()
