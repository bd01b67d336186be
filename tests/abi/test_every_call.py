#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls every function of tritonserver.h, neso.h and tritonbackend.h with real objects, those of
backends within an execution: first with NULL in the place
of each pointer in turn, then with nothing missing. The functions and the types of their parameters
are read out of the headers, so a new function is called without anybody thinking of it, or fails
here because its parameters are of a new kind.

  test_every_call.py <path of libtritonserver.so> <directory of backends> <libtriton_probe.so>

A NULL must be refused with INVALID_ARG, or be one of OPTIONAL; the whole call must succeed, or fail
as FAILS says. Each function has a process of its own, so that a crash is a result like any other.
"""
import ctypes
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import threading
from ctypes import c_char_p, c_double, c_uint64, c_void_p

import abi_names

INVALID_ARG = 3
SECONDS = 60  # for one function

# NULL is a value: function -> its parameters.
OPTIONAL = {
    "TRITONSERVER_InferenceRequestSetResponseCallback": {"response_allocator_userp",
                                                         "response_userp"},
    "TRITONSERVER_InferenceRequestSetReleaseCallback": {"request_release_userp"},
    "TRITONSERVER_InferenceRequestSetId": {"id"},
    "TRITONSERVER_InferenceTraceSetContext": {"trace_context"},
    "TRITONSERVER_InferenceTraceNew": {"trace_userp", "activity_fn"},
    "TRITONSERVER_InferenceTraceTensorNew": {"trace_userp", "activity_fn", "tensor_activity_fn"},
    "TRITONSERVER_MetricNew": {"labels"},
    "TRITONSERVER_MetricNewWithArgs": {"labels", "args"},
    "TRITONSERVER_ResponseAllocatorNew": {"start_fn"},
    "TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction": {"buffer_attributes_fn"},
    "TRITONSERVER_ResponseAllocatorSetQueryFunction": {"query_fn"},
    "TRITONSERVER_ServerInferAsync": {"trace"},
    "TRITONSERVER_ServerLoadModelWithParameters": {"parameters"},
    "TRITONSERVER_ServerModelBatchProperties": {"voidp"},
    "TRITONSERVER_ServerModelStatistics": {"model_name"},
    "TRITONSERVER_ServerModelTransactionProperties": {"voidp"},
    "TRITONSERVER_ServerRegisterModelRepository": {"name_mapping"},
    "TRITONSERVER_ErrorNew": {"msg"},
    "TRITONSERVER_BufferAttributesSetCudaIpcHandle": {"cuda_ipc_handle"},
    "NESO_ModelInstanceSharedSet": {"destroy"},
    "NESO_CancelWatchNew": {"userp"},
    "NESO_LogRecent": {"userp"},
    "NESO_ReadyWatchNew": {"userp"},
    "NESO_ServerModelActivity": {"userp"},
    "NESO_ServerReadiness": {"model_name"},
    "NESO_ServerLoadPermittedModel": {"parameters", "userp"},
    "NESO_ServerOptionsSetMemoryBudget": {"used_bytes"},
    "NESO_ServerOptionsSetStartFunction": {"start", "userp"},
    "NESO_ServerUnloadPermittedModels": {"userp"},
    "NESO_ResponseFactoryWhenRoom": {"userp"},
    "NESO_ThreadAfterResponses": {"userp"},
    "NESO_ThreadLoadsFor": {"model_name"},
    "NESO_InferenceRequestModelSteps": {"userp"},
    "TRITONBACKEND_BackendSetState": {"state"},
    "TRITONBACKEND_ModelSetState": {"state"},
    "TRITONBACKEND_ModelInstanceSetState": {"state"},
    "TRITONBACKEND_ResponseSend": {"error"},
    "TRITONBACKEND_InputBufferForHostPolicy": {"host_policy_name"},
    "TRITONBACKEND_InputPropertiesForHostPolicy": {"host_policy_name"},
    "TRITONBACKEND_MemoryManagerFree": {"buffer"},
    "TRITONBACKEND_ModelInstanceResponseStatisticsSetError": {"error"},
}
# Where only what is wanted is asked for.
OPTIONAL_RESULTS = re.compile(r"TRITONBACKEND_(InputProperties|RequestOutputBufferProperties)")
# The log is the process's: its options may be NULL.
LOG_SETTER = re.compile(r"TRITONSERVER_ServerOptionsSetLog")

# What cannot succeed with the objects that there are here -> a part of the error.
FAILS = {
    "TRITONSERVER_ErrorNew": "",
    "TRITONBACKEND_ModelInstanceProfileName": "instance has 0 profiles",
    "TRITONBACKEND_ModelInstanceSecondaryDeviceProperties": "instance has 0 secondary devices",
    "TRITONBACKEND_RequestCorrelationIdString": "correlation ID in request is not a string",
    "TRITONBACKEND_RequestOutputBufferProperties": "Output properties are not available",
    "TRITONBACKEND_RequestParameter": "out of bounds index 0: request has 0 parameters",
    "TRITONBACKEND_ModelSetConfig": "is allowed only while TRITONBACKEND_ModelInitialize",
    **dict.fromkeys(("NESO_DeviceMemoryShare", "NESO_DeviceMemoryOpen", "NESO_DeviceMemoryClose"),
                    "GPUs not supported"),
    "NESO_ServerLoadChain": "stage 1 of the chain has no name",
    "NESO_ModelInstanceSharedSet": "has a shared object 'text' already",  # since destroy was NULL
    "NESO_ServerModelChain": "no chain begins with model 'id'",
    "NESO_ServerModelSequences": "model 'id' has no sequence_batching",
    "NESO_ServerModelStacks": "the instances of model 'id' are not processes of their own",
    "NESO_ServerStartPoll": "polling is disabled",
    "TRITONSERVER_ServerPollModelRepository": "polling is disabled",
    "TRITONSERVER_ServerUnregisterModelRepository": "repository not found",
    "TRITONSERVER_InferenceResponseParameter": "out of bounds index 0: response has 0 parameters",
}

# Of the model whose backend makes the calls.
PROBE = ('sequence_batching { state { input_name: "STATE" output_name: "INPUT0" '
         'data_type: TYPE_FP32 dims: -1 } }\n')

TEXTS = {"model_name": b"id", "name": b"INPUT0", "host_policy_name": b"cpu", "setting": b"numa-node",
         "value": b"1", "config_json": b"{}", "base": b"{}", "dtype": b"FP32", "file": b"",
         "log_file": b"", "cache_name": b"none",
         "option_name": b"exit-timeout-secs"}
NUMBERS = {"n_counts": 3, "dim_count": 1, "shape": 3, "model_version": -1, "byte_size": 2, "fraction": 1,
           "kind": 0, "thread_count": 2, "label_count": 0, "parameter_count": 0, "format": 0,
           "mapping_count": 0, "config_version": 1, "device_id": 0, "max_responses": 1,
           "max_bytes": 1, "level": 0, "index": 0, "class_index": 0,
           "memory_type": 0, "memory_type_id": 0,
           "send_flags": 0}

CONFIG = ('backend: "identity"\n'
          'input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }\n'
          'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }\n'
          'instance_group { count: 1 kind: KIND_CPU }\n')


class Api:
    """Functions by their names; those that return an error raise it."""

    def __init__(self, path):
        self.native = ctypes.CDLL(path)
        self.native.TRITONSERVER_ErrorMessage.restype = c_char_p

    def call(self, name, *arguments):
        function = getattr(self.native, name)
        function.restype = c_void_p
        return function(*arguments)

    def error(self, result):
        """(code, text) of an error that a function returned; None without one."""
        if not result:
            return None
        error = c_void_p(result)
        reported = (self.native.TRITONSERVER_ErrorCode(error),
                self.native.TRITONSERVER_ErrorMessage(error).decode())
        self.native.TRITONSERVER_ErrorDelete(error)
        return reported

    def make(self, name, *arguments):
        """The object that a function puts into its first parameter."""
        ret = c_void_p()
        error = self.error(self.call("TRITONSERVER_" + name, ctypes.byref(ret), *arguments))
        assert error is None, (name, error)
        return ret

    def do(self, name, *arguments):
        error = self.error(self.call("TRITONSERVER_" + name, *arguments))
        assert error is None, (name, error)


ALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p, ctypes.c_size_t, ctypes.c_int,
                         ctypes.c_int64, c_void_p, ctypes.POINTER(c_void_p),
                         ctypes.POINTER(c_void_p), ctypes.POINTER(ctypes.c_int),
                         ctypes.POINTER(ctypes.c_int64))
FREE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, ctypes.c_size_t, ctypes.c_int,
                        ctypes.c_int64)
TOLD = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_uint32, c_void_p)
NOTHING = ctypes.CFUNCTYPE(None)


class Objects:
    """One of each, made when it is asked for. What callbacks use stays until the process ends."""

    def __init__(self, api, folder, backends):
        self.api, self.folder, self.backends = api, folder, backends
        self.made, self.kept = {}, []
        self.values = (ctypes.c_float * 4)(1, 2, 3, 4)
        self.answered = threading.Event()
        self.responses = []
        self.model = b"id"
        self.instance = self.request = None  # there while a backend executes

        api.do("ServerOptionsSetLogInfo", None, False)

    def get(self, name, function):
        if name not in self.made:
            self.made[name] = getattr(self, "make_" + name)(function)
        return self.made[name]

    def make_ServerOptions(self, _function):
        return self.api.make("ServerOptionsNew")

    def make_Server(self, _function):
        options = self.api.make("ServerOptionsNew")
        for name, value in (("ModelRepositoryPath", self.folder), ("StartupModel", "id"),
                            ("BackendDirectory", self.backends)):
            self.api.do("ServerOptionsSet" + name, options, c_char_p(value.encode()))
        self.api.do("ServerOptionsSetModelControlMode", options, 2)
        self.api.do("ServerOptionsSetLogInfo", options, False)
        server = self.api.make("ServerNew", options)
        self.api.do("ServerOptionsDelete", options)
        return server

    def make_InferenceRequest(self, function):
        request = self.api.make("InferenceRequestNew", self.get("Server", function),
                                c_char_p(self.model), ctypes.c_int64(-1))
        if function in ("ServerInferAsync", "InferenceResponse", "InferenceRequestRemoveInput") or \
                re.search("InputData|RemoveAllInputs", function):
            self.add_input(request)
        if "RemoveRequestedOutput" in function:
            self.api.do("InferenceRequestAddRequestedOutput", request, c_char_p(b"INPUT0"))
        if function == "InferenceRequestCorrelationIdString":
            self.api.do("InferenceRequestSetCorrelationIdString", request, c_char_p(b"c"))
        if function in ("ServerInferAsync", "InferenceResponse"):
            self.set_callbacks(request)
        if self.model == b"probe":
            self.api.do("InferenceRequestSetCorrelationId", request, c_uint64(1))
            self.api.do("InferenceRequestSetFlags", request, 1)  # SEQUENCE_START
        return request

    def add_input(self, request):
        dims = (ctypes.c_int64 * 1)(4)
        self.api.do("InferenceRequestAddInput", request, c_char_p(b"INPUT0"), 11, dims, c_uint64(1))
        self.api.do("InferenceRequestAppendInputData", request, c_char_p(b"INPUT0"), self.values,
                    ctypes.c_size_t(16), 0, ctypes.c_int64(0))

    def set_callbacks(self, request):
        def give(_a, _name, size, _type, _id, _userp, buffer, buffer_userp, type_, id_):
            memory = ctypes.create_string_buffer(size + 1)
            self.kept.append(memory)
            buffer[0], buffer_userp[0] = ctypes.addressof(memory), None
            type_[0], id_[0] = 0, 0

        def respond(response, _flags, _userp):
            self.responses.append(c_void_p(response))
            self.answered.set()

        fns = ALLOC(give), FREE(lambda *_: None), TOLD(respond), TOLD(lambda *_: None)
        self.kept += fns
        allocator = self.api.make("ResponseAllocatorNew", fns[0], fns[1], None)
        self.api.do("InferenceRequestSetResponseCallback", request, allocator, None, fns[2], None)
        self.api.do("InferenceRequestSetReleaseCallback", request, fns[3], None)

    def make_InferenceResponse(self, _function):
        request = self.make_InferenceRequest("InferenceResponse")
        self.api.do("ServerInferAsync", self.get("Server", ""), request, None)
        assert self.answered.wait(SECONDS)
        return self.responses[0]

    def make_InferenceTrace(self, _function):
        return self.api.make("InferenceTraceNew", 4, c_uint64(0), self.callback(), self.callback(),
                             None)

    def make_Message(self, _function):
        return self.api.make("MessageNewFromSerializedJson", c_char_p(b"{}"), ctypes.c_size_t(2))

    def make_MetricFamily(self, function):
        kind = {"MetricSet": 1, "MetricObserve": 2, "MetricHistogram": 2, "MetricNewWithArgs": 2}.get(function, 0)
        return self.api.make("MetricFamilyNew", kind, c_char_p(b"family"), c_char_p(b"about it"))

    def make_Metric(self, function):
        family = self.get("MetricFamily", function)
        args = self.make_MetricArgs("") if function in ("MetricObserve", "MetricHistogram") else None
        return self.api.make("MetricNewWithArgs", family, None, c_uint64(0), args)

    def make_MetricArgs(self, _function):
        args = self.api.make("MetricArgsNew")
        self.api.do("MetricArgsSetHistogram", args, (c_double * 2)(1, 2), c_uint64(2))
        return args

    def make_Metrics(self, function):
        ret = c_void_p()
        self.api.do("ServerMetrics", self.get("Server", function), ctypes.byref(ret))
        return ret

    def make_Parameter(self, _function):
        return c_void_p(self.api.call("TRITONSERVER_ParameterNew", c_char_p(b"p"), 0,
                                      c_char_p(b"v")))

    def make_BufferAttributes(self, _function):
        attributes = self.api.make("BufferAttributesNew")
        self.api.do("BufferAttributesSetByteSize", attributes, ctypes.c_size_t(4))
        return attributes

    def make_ResponseAllocator(self, _function):
        return self.api.make("ResponseAllocatorNew", self.callback(), self.callback(), None)

    def make_Error(self, _function):
        return c_void_p(self.api.call("TRITONSERVER_ErrorNew", 1, c_char_p(b"text")))

    def make_ReadyWatch(self, function):
        ret = c_void_p()
        error = self.api.call("NESO_ReadyWatchNew", ctypes.byref(ret), self.get("Server", function),
                              self.callback(), None)
        assert not error
        return ret

    # ---- of backends ----

    def make_CancelWatch(self, function):
        ret = c_void_p()
        assert not self.api.call("NESO_CancelWatchNew", ctypes.byref(ret),
                                 self.get("Request", function), self.callback(), None)
        return ret

    def out(self, name, *arguments):
        """The object that a function puts into its last parameter."""
        ret = c_void_p()
        error = self.api.error(self.api.call("TRITONBACKEND_" + name, *arguments,
                                             ctypes.byref(ret)))
        assert error is None, (name, error)
        return ret

    def first(self, name, *arguments):
        """The same for the first one."""
        ret = c_void_p()
        error = self.api.error(self.api.call("TRITONBACKEND_" + name, ctypes.byref(ret), *arguments))
        assert error is None, (name, error)
        return ret

    def make_ModelInstance(self, _function):
        return self.instance

    def make_Request(self, _function):
        return self.request

    def make_Model(self, function):
        return self.out("ModelInstanceModel", self.get("ModelInstance", function))

    def make_Backend(self, function):
        return self.out("ModelBackend", self.get("Model", function))

    def make_MemoryManager(self, function):
        return self.out("BackendMemoryManager", self.get("Backend", function))

    def first_of_manager(self):
        ret = c_void_p()
        assert not self.api.call("TRITONBACKEND_MemoryManagerAllocate",
                                 self.get("MemoryManager", ""), ctypes.byref(ret), 0,
                                 ctypes.c_int64(0), c_uint64(8))
        return ret

    def make_Input(self, function):
        return self.out("RequestInput", self.get("Request", function), c_char_p(b"INPUT0"))

    def make_Response(self, function):
        response = self.first("ResponseNew", self.get("Request", function))
        if function.startswith("InferenceResponseOutput"):
            self.add_output(response)
        return response

    def add_output(self, response):
        dims = (ctypes.c_int64 * 1)(4)
        return self.first_after(response, dims)

    def first_after(self, response, dims):
        ret = c_void_p()
        error = self.api.call("TRITONBACKEND_ResponseOutput", response, ctypes.byref(ret),
                              c_char_p(b"INPUT0"), 11, dims, 1)
        assert not error
        return ret

    def make_Output(self, function):
        output = self.add_output(self.get("Response", function))
        if function == "OutputBufferAttributes":
            where, number = ctypes.c_int(0), ctypes.c_int64(0)
            error = self.api.call("TRITONBACKEND_OutputBuffer", output, ctypes.byref(c_void_p()),
                                  c_uint64(16), ctypes.byref(where), ctypes.byref(number))
            assert not error
        return output

    def make_State(self, function):
        dims = (ctypes.c_int64 * 1)(4)
        ret = c_void_p()
        assert not self.api.call("TRITONBACKEND_StateNew", ctypes.byref(ret),
                                 self.get("Request", function), c_char_p(b"INPUT0"), 11, dims, 1)
        if function == "StateUpdate":
            where, number = ctypes.c_int(0), ctypes.c_int64(0)
            assert not self.api.call("TRITONBACKEND_StateBuffer", ret, ctypes.byref(c_void_p()),
                                     c_uint64(16), ctypes.byref(where), ctypes.byref(number))
        return ret

    def make_ResponseFactory(self, function):
        return self.first("ResponseFactoryNew", self.get("Request", function))

    def make_ModelInstanceResponseStatistics(self, function):
        statistics = self.first("ModelInstanceResponseStatisticsNew")
        if function == "ModelInstanceReportResponseStatistics":
            for name, value in (("ModelInstance", self.instance),
                                ("ResponseFactory", self.get("ResponseFactory", function))):
                assert not self.api.call("TRITONBACKEND_ModelInstanceResponseStatisticsSet" + name,
                                         statistics, value)
        return statistics

    def make_BackendAttribute(self, _function):
        return ctypes.create_string_buffer(64)  # what GetBackendAttribute() gets: all zeros

    def callback(self):
        fn = NOTHING(lambda: None)
        self.kept.append(fn)
        return fn

    def argument(self, function, kind, name):
        """A real value for a parameter of this type and name."""
        opaque = re.fullmatch(r"(?:struct )?(?:TRITONSERVER|TRITONBACKEND|NESO)_(\w+) \*", kind)
        if opaque and not hasattr(self, "make_" + opaque[1]):
            opaque = None  # an enum that is written
        short = function.partition("_")[2]
        if opaque:
            return None if name == "trace" and short == "ServerInferAsync" else self.get(opaque[1],
                                                                                         short)
        if kind.endswith("Fn_t "):
            return self.callback()
        if kind == "char *":
            if short.startswith("InferenceTrace") or "RequestedOutput" in short:
                return c_char_p(b"INPUT0")
            if name in ("repository_path", "model_repository_path", "path"):
                return c_char_p(self.folder.encode() + b"/more")
            if short.startswith("MetricFamily"):
                return c_char_p(b"another_family")
            return c_char_p(TEXTS.get(name, b"text"))
        if kind.endswith("BufferAttributes **") and name == "usage":
            return (c_void_p * 1)(self.get("BufferAttributes", short))
        if short == "MemoryManagerFree" and name == "buffer":
            return self.first_of_manager()
        if kind == "int64_t *" and name == "shape":
            return (ctypes.c_int64 * 1)(4)
        if kind == "double *" and name == "buckets":
            return (c_double * 4)(1, 2, 3, 4)
        if kind.endswith("*"):
            memory = ctypes.create_string_buffer(64)
            self.kept.append(memory)
            return memory
        if kind == "double ":
            return c_double(0.5)
        if short == "ServerOptionsSetModelLoadDeviceLimit" and name == "kind":
            return 2
        if re.fullmatch(r"(enum )?[A-Z]+_\w+ |bool |int |unsigned int |u?int(32|64)_t |size_t ",
                        kind):
            return c_uint64(NUMBERS.get(name, 1) % 2**64)
        raise AssertionError(f"{function}: what is a {kind}{name}?")


def check(api, objects, name, result, kinds):
    """What is wrong, as texts."""
    returns_error = "TRITONSERVER_Error *" in result
    arguments = [objects.argument(name, kind, parameter) for kind, parameter in kinds]
    wrong = []
    is_end = name.endswith("Delete")
    for i, (kind, parameter) in enumerate(kinds):
        if not (kind.endswith("*") or kind.endswith("Fn_t ")) or arguments[i] is None:
            continue
        holed = [*arguments[:i], None, *arguments[i + 1:]]
        error = api.call(name, *holed)
        error = api.error(error) if returns_error else None
        may = parameter in OPTIONAL.get(name, ()) or is_end or not returns_error or \
            (LOG_SETTER.match(name) and parameter == "options") or \
            (OPTIONAL_RESULTS.match(name) and i > 0)
        if error is None and not may:
            wrong.append(f"{parameter} NULL is accepted")
        elif error is not None and (error[0] != INVALID_ARG or not error[1]) and \
                name not in FAILS:
            wrong.append(f"{parameter} NULL: {error}")
        if parameter in OPTIONAL.get(name, ()) and error is None:
            objects.made.clear()  # the call went through: what it took is used up
            arguments = [objects.argument(name, kind, p) for kind, p in kinds]
    error = api.call(name, *arguments)
    error = api.error(error) if returns_error else None
    if name in FAILS:
        if error is None or FAILS[name] not in error[1]:
            wrong.append(f"{error}; wanted an error with '{FAILS[name]}'")
    elif error is not None:
        wrong.append(f"with everything there: {error}")
    if name == "TRITONSERVER_ServerInferAsync" and not objects.answered.wait(SECONDS):
        wrong.append("no answer")
    return wrong


def check_in_child(api, prepare, function):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        signal.alarm(2 * SECONDS)
        try:
            text = "; ".join(check(api, prepare(), *function)) or "ok"
        except Exception as failure:  # pylint: disable=broad-except
            text = f"{type(failure).__name__}: {failure}"
        os.write(write_end, text.encode()[:4000])
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return text or f"ended with status {os.WEXITSTATUS(status)}"


def functions_of(headers):
    for function in abi_names.exported_functions():
        if function.header in headers:
            yield function.name, function.result, function.parameters


def is_of_backends(function):
    return any("TRITONBACKEND_" in kind or "NESO_CancelWatch" in kind for kind, _ in function[2])


def check_all(headers, check_one, for_backends=False):
    """How many functions there are, and how many of them failed. Those that are about a model's instance
    are for backends, whatever their header."""
    n_called = n_failed = 0
    for function in functions_of(headers):
        if is_of_backends(function) != for_backends and function[0].startswith("NESO_"):
            continue
        outcome = check_one(function)
        n_called += 1
        if outcome != "ok":
            n_failed += 1
            print(f"FAILED: {function[0]}: {outcome}")
    return n_called, n_failed


def check_backend_calls(library, folder, backends, probe):
    """Within an execution of the probe, each function in a child of its own."""
    api = Api(library)
    outcome = []

    def execute(instance, requests, _n):
        def prepare():
            objects = Objects(api, folder, backends)
            objects.instance = c_void_p(instance)
            objects.request = c_void_p(requests[0])
            return objects

        outcome.append(check_all(("tritonbackend.h", "neso.h"),
                                 lambda function: check_in_child(api, prepare, function), True))
        return api.call("TRITONSERVER_ErrorNew", 1, c_char_p(b"enough"))

    execute = ctypes.CFUNCTYPE(c_void_p, c_void_p, ctypes.POINTER(c_void_p),
                               ctypes.c_uint32)(execute)
    objects = Objects(api, folder, backends)
    server = objects.get("Server", "")
    api.do("ServerLoadModel", server, c_char_p(b"probe"))
    c_void_p.in_dll(ctypes.CDLL(probe), "probe_execute").value = ctypes.cast(execute,
                                                                             c_void_p).value
    objects.model = b"probe"
    objects.make_InferenceResponse("")
    return outcome[0]


def main():
    library, backends, probe = map(os.path.abspath, sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="neso_every_call_")
    os.makedirs(os.path.join(folder, "id", "1"))
    os.makedirs(os.path.join(folder, "more"))
    with open(os.path.join(folder, "id", "config.pbtxt"), "w", encoding="ascii") as file:
        file.write(CONFIG)
    os.makedirs(os.path.join(folder, "probe", "1"))
    with open(os.path.join(folder, "probe", "config.pbtxt"), "w", encoding="ascii") as file:
        file.write(CONFIG.replace("identity", "probe") + PROBE)
    # In the model's directory, where this process finds the very same file.
    probe_link = os.path.join(folder, "probe", "libtriton_probe.so")
    os.symlink(probe, probe_link)

    api = Api(library)
    counts = [check_all(("tritonserver.h", "neso.h"), lambda function: check_in_child(
        api, lambda: Objects(api, folder, backends), function))]
    counts.append(check_backend_calls(library, folder, backends, probe_link))
    n_called, n_failed = map(sum, zip(*counts))
    shutil.rmtree(folder)
    n_declared = len(list(functions_of(("tritonserver.h", "neso.h", "tritonbackend.h"))))
    print(f"{n_called} of {n_declared} functions called, {n_failed} failed")
    sys.exit(1 if n_failed or n_called != n_declared else 0)


if __name__ == "__main__":
    main()
