#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""infer.c in Python: the library through ctypes, no package needed.

    infer.py LIBRARY REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE < values > values

LIBRARY is the path of libtritonserver.so; values are raw FP32, SHAPE is as in 1x64.
"""
import ctypes
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

CPU, FP32 = 0, 11

ALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_size_t, c_int, c_int64, c_void_p,
                         POINTER(c_void_p), POINTER(c_void_p), POINTER(c_int), POINTER(c_int64))
FREE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int64)
TOLD = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p)


class Library:
    """Calls its functions by name, without their prefix; an error becomes an exception."""

    def __init__(self, path):
        self.native = ctypes.CDLL(path)
        self.native.TRITONSERVER_ErrorMessage.restype = c_char_p

    def __getattr__(self, name):
        function = getattr(self.native, "TRITONSERVER_" + name)
        function.restype = c_void_p

        def call(*arguments):
            error = c_void_p(function(*arguments))
            if error:
                text = self.native.TRITONSERVER_ErrorMessage(error).decode()
                self.native.TRITONSERVER_ErrorDelete(error)
                raise RuntimeError(f"{name}: {text}")
        return call


class Memory:
    """Outputs lie in buffers of Python's; the callbacks must live as long as the allocator."""

    def __init__(self):
        self.buffers = {}
        self.give, self.take_back = ALLOC(self._give), FREE(self._take_back)

    def _give(self, _allocator, _name, size, _type, _id, _userp, buffer, buffer_userp, type_, id_):
        memory = ctypes.create_string_buffer(max(size, 1))
        buffer[0] = ctypes.addressof(memory)
        self.buffers[buffer[0]] = memory
        buffer_userp[0], type_[0], id_[0] = None, CPU, 0

    def _take_back(self, _allocator, buffer, *_):
        del self.buffers[buffer]


def start(neso, repository, backends):
    options, server = c_void_p(), c_void_p()
    neso.ServerOptionsNew(byref(options))
    neso.ServerOptionsSetModelRepositoryPath(options, repository.encode())
    neso.ServerOptionsSetBackendDirectory(options, backends.encode())
    neso.ServerOptionsSetStrictModelConfig(options, False)
    neso.ServerOptionsSetLogInfo(options, False)
    neso.ServerNew(byref(server), options)
    neso.ServerOptionsDelete(options)
    return server


def first_output(neso, response):
    name, shape, base, userp = c_char_p(), POINTER(c_int64)(), c_void_p(), c_void_p()
    kind, n_dims, size, memory, id_ = c_int(), c_uint64(), c_size_t(), c_int(), c_int64()
    neso.InferenceResponseError(response)
    neso.InferenceResponseOutput(response, c_uint32(0), byref(name), byref(kind), byref(shape),
                                 byref(n_dims), byref(base), byref(size), byref(memory), byref(id_),
                                 byref(userp))
    return ctypes.string_at(base, size.value)


def infer(neso, server, model, input_name, output_name, shape, values):
    memory, answered, released, responses = Memory(), threading.Event(), threading.Event(), []

    def on_response(response, _flags, _userp):
        responses.append(c_void_p(response))
        answered.set()

    on_response, on_release = TOLD(on_response), TOLD(lambda *_: released.set())
    allocator, request = c_void_p(), c_void_p()
    neso.ResponseAllocatorNew(byref(allocator), memory.give, memory.take_back, None)
    neso.InferenceRequestNew(byref(request), server, model.encode(), c_int64(-1))
    neso.InferenceRequestSetReleaseCallback(request, on_release, None)
    neso.InferenceRequestSetResponseCallback(request, allocator, None, on_response, None)
    dims = (c_int64 * len(shape))(*shape)
    neso.InferenceRequestAddInput(request, input_name.encode(), FP32, dims, c_uint64(len(shape)))
    neso.InferenceRequestAppendInputData(request, input_name.encode(), values,
                                         c_size_t(len(values)), CPU, c_int64(0))
    neso.InferenceRequestAddRequestedOutput(request, output_name.encode())
    neso.ServerInferAsync(server, request, None)
    answered.wait()
    released.wait()
    output = first_output(neso, responses[0])
    neso.InferenceResponseDelete(responses[0])
    neso.InferenceRequestDelete(request)
    neso.ResponseAllocatorDelete(allocator)
    return output


def main():
    if len(sys.argv) != 8:
        sys.exit("infer.py LIBRARY REPOSITORY BACKENDS MODEL INPUT OUTPUT SHAPE")
    path, repository, backends, model, input_name, output_name, shape = sys.argv[1:]
    neso = Library(path)
    server = start(neso, repository, backends)
    dims = [int(size) for size in shape.split("x")]
    values = sys.stdin.buffer.read()
    sys.stdout.buffer.write(infer(neso, server, model, input_name, output_name, dims, values))
    neso.ServerDelete(server)


if __name__ == "__main__":
    main()
