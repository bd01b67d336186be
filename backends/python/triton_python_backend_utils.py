# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a model in Python: `import triton_python_backend_utils as pb_utils`.

Tensors, requests, responses and their senders are in the compiled c_python_backend_utils, the rest is
in this file. The module works only in the processes that the server starts for models.
"""
import asyncio
import base64
import contextvars
import enum
import faulthandler
import importlib
import inspect
import json
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import traceback
import weakref

import numpy as np

import c_python_backend_utils as _c
from c_python_backend_utils import (InferenceRequest, InferenceResponse, Tensor)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

_NO_HANDLE = 0xFFFFFFFF
_CALL_TEXT = 3


class TritonModelException(Exception):
    """The exception of this module's functions, for a mistake or a failure."""


class TritonError:
    """An error with a code, for a response."""

    class __ErrorCode(enum.IntEnum):
        UNKNOWN = 0
        INTERNAL = 1
        NOT_FOUND = 2
        INVALID_ARG = 3
        UNAVAILABLE = 4
        UNSUPPORTED = 5
        ALREADY_EXISTS = 6
        CANCELLED = 7

    _Code = __ErrorCode
    UNKNOWN = __ErrorCode.UNKNOWN
    INTERNAL = __ErrorCode.INTERNAL
    NOT_FOUND = __ErrorCode.NOT_FOUND
    INVALID_ARG = __ErrorCode.INVALID_ARG
    UNAVAILABLE = __ErrorCode.UNAVAILABLE
    UNSUPPORTED = __ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = __ErrorCode.ALREADY_EXISTS
    CANCELLED = __ErrorCode.CANCELLED

    __slots__ = ("_message", "_code")

    def __init__(self, message, code=INTERNAL):
        if not isinstance(code, TritonError._Code):
            raise TypeError("code must be one of TritonError's codes, not %r" % (code,))
        self._message = _text(message, "message")
        self._code = code

    def message(self):
        return self._message

    def code(self):
        return self._code


def _text(value, name):
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError("%s must be a str, not %s" % (name, type(value).__name__))
    return value


# ---- memory, traces --------------------------------------------------------------------------------


class _MemoryType(enum.IntEnum):
    TRITONSERVER_MEMORY_CPU = 0
    TRITONSERVER_MEMORY_GPU = 2


TRITONSERVER_MEMORY_CPU = _MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = _MemoryType.TRITONSERVER_MEMORY_GPU


class PreferredMemory:
    """The preferred memory of a called model's outputs."""

    __slots__ = ("_type", "_device_id")

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        if not isinstance(preferred_memory_type, _MemoryType):
            raise TypeError("preferred_memory_type must be TRITONSERVER_MEMORY_CPU or _GPU")
        if not isinstance(preferred_device_id, int):
            raise TypeError("preferred_device_id must be an int")
        self._type = preferred_memory_type
        self._device_id = preferred_device_id


_DEFAULT_MEMORY = PreferredMemory(TRITONSERVER_MEMORY_CPU)


class InferenceTrace:
    """The trace of a request. A request to another model may continue it."""

    __slots__ = ("_context", "_handle")

    def __init__(self):
        self._context = None
        self._handle = _NO_HANDLE

    def get_context(self):
        return self._context


def _make_trace(context, handle):
    trace = InferenceTrace()
    trace._context = context
    trace._handle = handle
    return trace


def _check_trace(trace):
    if trace is None:
        return InferenceTrace()
    if not isinstance(trace, InferenceTrace):
        raise TypeError("trace must be an InferenceTrace")
    return trace


def _check_memory(memory):
    if memory is None:
        return _DEFAULT_MEMORY
    if not isinstance(memory, PreferredMemory):
        raise TypeError("preferred_memory must be a PreferredMemory")
    return memory


def _preferred_gpu(memory):
    """The number of the GPU + 1; 0 for main memory."""
    if memory._type is not TRITONSERVER_MEMORY_GPU or not 0 <= memory._device_id < 2**31 - 1:
        return 0
    return memory._device_id + 1


def _check_error(error):
    if not isinstance(error, TritonError):
        raise TypeError("error must be a TritonError")
    return error


def _parameters(parameters):
    """The JSON of a request's or response's parameters."""
    if parameters is None:
        return "{}"
    if not isinstance(parameters, dict):
        raise TritonModelException("Expect <anything>, got %s" % (type(parameters),))
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(
                "Expect parameters keys to have type str, found type %s" % (type(key),))
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                "Expect parameters values to have type bool/int/str, found type %s"
                % (type(value),))
    return json.dumps(parameters)


# ---- children of a fork ------------------------------------------------------------------------------

_NO_CHANNEL = "a child process of the model cannot talk to the server"


class _Children:
    """The calls of child processes that the model forks, as multiprocessing does.

    A child has no part in the memory that is shared with the server. Each of its threads sends one end
    of a pair of sockets over a socket that all children have, on its first call; a thread of the
    model's process makes the calls that come from there. What runs after exec() has no such socket.
    """

    def __init__(self):
        self._door = None  # of the model's process: (its end, the children's end)
        self._has_thread = False
        self._local = threading.local()
        self.functions = {}

    def before_fork(self):
        if self._door is None and os.getpid() == _state.pid:
            self._door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A SIGTERM for the child that comes before after_in_child() waits: the process ignores it, and
        # it would be lost.
        self._local.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def after_in_parent(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self._local.mask)
        if not self._has_thread and os.getpid() == _state.pid:
            self._has_thread = True
            threading.Thread(target=self._accept, name="children", daemon=True).start()

    def after_in_child(self):
        # The process ignores it, since the server ends it; a pool ends its workers by it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._local.mask)
        self._local = threading.local()  # the channel of the forking thread is its own

    def ask(self, what, *args):
        """Calls one of `functions` in the model's process."""
        if self._door is None:
            raise TritonModelException(_NO_CHANNEL)
        try:
            if not hasattr(self._local, "channel"):
                here, there = socket.socketpair()
                with here, there:
                    socket.send_fds(self._door[1], [b"1"], [there.fileno()])
                    self._local.channel = here.makefile("rwb")
            pickle.dump((what, args), self._local.channel)
            self._local.channel.flush()
            is_right, answer = pickle.load(self._local.channel)
        except (OSError, EOFError):
            raise TritonModelException(_NO_CHANNEL) from None
        if not is_right:
            raise answer
        return answer

    def _accept(self):
        while True:
            _, descriptors, _, _ = socket.recv_fds(self._door[0], 1, 1)
            for descriptor in descriptors:
                threading.Thread(target=self._serve, args=(descriptor,), name="child",
                                 daemon=True).start()

    def _serve(self, descriptor):
        with socket.socket(fileno=descriptor) as end, end.makefile("rwb") as channel:
            while True:
                try:
                    what, args = pickle.load(channel)
                except (OSError, EOFError):
                    return
                try:
                    answer = (True, self.functions[what](*args))
                except Exception as error:  # noqa: B902 - raised in the child
                    answer = (False, error)
                try:
                    pickle.dump(answer, channel)
                    channel.flush()
                except OSError:
                    return


_children = _Children()


def _is_child():
    return os.getpid() != _state.pid


def _for_children(name, function):
    """The function, which a child has called in the model's process."""
    _children.functions[name] = function

    def call(*args):
        return _children.ask(name, *args) if _is_child() else function(*args)

    return call


_ask_server = _for_children("ask", _c._ask)
_count = _for_children("count", _c._count)


def _write_log(*line):
    try:
        _log_line(*line)
    except TritonModelException:
        pass  # a failure to log is ignored


_log_line = _for_children("log", _c._log)


# ---- log -------------------------------------------------------------------------------------------


class _LogLevel(enum.IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


def _log(level, message, depth):
    caller = sys._getframe(depth)
    _write_log(int(level), caller.f_code.co_filename.encode("utf-8", "surrogateescape"),
            caller.f_lineno, _text(message, "message").encode("utf-8", "surrogateescape"))


class Logger:
    """Writes to the server's log."""

    LogLevel = _LogLevel
    INFO = _LogLevel.INFO
    WARNING = _LogLevel.WARNING
    ERROR = _LogLevel.ERROR
    VERBOSE = _LogLevel.VERBOSE

    @staticmethod
    def log(message, level=_LogLevel.INFO):
        if not isinstance(level, _LogLevel):
            raise TypeError("level must be one of Logger's levels, not %r" % (level,))
        _log(level, message, 2)

    @staticmethod
    def log_info(message):
        _log(_LogLevel.INFO, message, 2)

    @staticmethod
    def log_warn(message):
        _log(_LogLevel.WARNING, message, 2)

    @staticmethod
    def log_error(message):
        _log(_LogLevel.ERROR, message, 2)

    @staticmethod
    def log_verbose(message):
        _log(_LogLevel.VERBOSE, message, 2)


# ---- types -----------------------------------------------------------------------------------------

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

_TYPE_TO_NUMPY = {1: np.bool_, 2: np.uint8, 3: np.uint16, 4: np.uint32, 5: np.uint64, 6: np.int8,
                  7: np.int16, 8: np.int32, 9: np.int64, 10: np.float16, 11: np.float32,
                  12: np.float64, 13: np.object_}


def triton_string_to_numpy(triton_type_string):
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type):
    return _TYPE_TO_NUMPY.get(data_type)


def numpy_to_triton_type(data_type):
    for number, numpy_type in _TYPE_TO_NUMPY.items():
        if data_type == numpy_type:
            return number
    return 13 if data_type == np.bytes_ else None


def serialize_byte_tensor(input_tensor):
    """Serializes each element as its length in four bytes, little-endian, and its bytes."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type != np.bytes_:
        return None
    flat = input_tensor if input_tensor.dtype == np.object_ else input_tensor.astype(np.object_)
    return _c._serialize(np.ascontiguousarray(flat))


def deserialize_bytes_tensor(encoded_tensor):
    elements = _c._deserialize(bytes(encoded_tensor))
    return _strings(elements, [len(elements)])


def _strings(elements, shape):
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array.reshape(shape)


def _contiguous(array):
    if array.dtype.type == np.bytes_:
        array = array.astype(np.object_)
    return np.ascontiguousarray(array).reshape(array.shape)


# ---- services of the server --------------------------------------------------------------------------


def _ask(what, handle=_NO_HANDLE, **values):
    """Returns (code, text) of the server's reply; code 0 is success."""
    values["ask"] = what
    code, text = _ask_server(_CALL_TEXT, handle, json.dumps(values).encode("utf-8", "surrogatepass"))
    return code, text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _demand(prefix, what, **values):
    code, text = _ask(what, **values)
    if code != 0:
        raise TritonModelException(prefix + text)
    return text


# ---- metrics -----------------------------------------------------------------------------------------


class _MetricKind(enum.IntEnum):
    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


_FAMILY_DELETED = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The "
    "'MetricFamily' object should be deleted AFTER its corresponding 'Metric' objects have been "
    "deleted.")


class Metric:
    """A metric of a family, with its labels; made by MetricFamily.Metric()."""

    __slots__ = ("_id", "_kind", "_is_gone", "_pid", "__weakref__")

    def __init__(self):
        raise TypeError("a Metric is made by MetricFamily.Metric()")

    def _count(self, prefix, operation, value, kinds, is_refused=None):
        if self._is_gone:
            raise TritonModelException(_FAMILY_DELETED)
        value = float(value)
        if self._kind not in kinds:
            raise TritonModelException(
                prefix + "TRITONSERVER_METRIC_KIND_%s does not support %s"
                % (self._kind.name, ("Increment", "Set", "Observe")[operation]))
        if is_refused is not None and is_refused(value):
            raise TritonModelException(
                prefix + "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
                         "non-negative values.")
        code, text = _count(self._id, operation, value)
        if code != 0:
            raise TritonModelException(prefix + text)

    def increment(self, value):
        self._count("Failed to increment metric value: ", 0, value,
                    (_MetricKind.COUNTER, _MetricKind.GAUGE),
                    (lambda v: v < 0) if self._kind == _MetricKind.COUNTER else None)

    def set(self, value):
        self._count("Failed to set metric value: ", 1, value, (_MetricKind.GAUGE,))

    def observe(self, value):
        self._count("Failed to observe metric value: ", 2, value, (_MetricKind.HISTOGRAM,))

    def value(self):
        if self._is_gone:
            raise TritonModelException(_FAMILY_DELETED)
        return float(_demand("Failed to get metric value: ", "metric_value", id=self._id))

    def _drop(self):
        if not self._is_gone:
            self._is_gone = True
            if self._pid != os.getpid():
                return  # a copy in a child
            _ask("metric_delete", id=self._id)

    def __del__(self):
        try:
            self._drop()
        except Exception:  # noqa: B902 - the interpreter may be ending
            pass


class MetricFamily:
    """A metric's name, description and kind."""

    MetricKind = _MetricKind
    COUNTER = _MetricKind.COUNTER
    GAUGE = _MetricKind.GAUGE
    HISTOGRAM = _MetricKind.HISTOGRAM

    __slots__ = ("_id", "_kind", "_metrics", "_pid", "__weakref__")

    def __init__(self, name, description, kind):
        self._id = None
        if not isinstance(kind, _MetricKind):
            raise TypeError("kind must be one of MetricFamily's kinds, not %r" % (kind,))
        self._kind = kind
        self._metrics = weakref.WeakSet()
        self._pid = os.getpid()
        self._id = int(_demand("Error when creating MetricFamily: ", "family_new",
                               name=_text(name, "name"),
                               description=_text(description, "description"), kind=int(kind)))

    def Metric(self, labels=None, buckets=None):  # noqa: N802 - the name is the interface's
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if self._kind == _MetricKind.HISTOGRAM:
            if buckets is None:
                raise TritonModelException("Failed to create metric. Missing required buckets.")
            buckets = [float(bound) for bound in buckets]
        elif buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        labels = {_text(k, "a label"): _text(v, "a label's value")
                  for k, v in (labels or {}).items()}
        metric = Metric.__new__(Metric)
        metric._is_gone = True  # until the server has created it
        metric._kind = self._kind
        metric._pid = os.getpid()
        metric._id = int(_demand("Error when creating Metric: ", "metric_new", family=self._id,
                                 labels=labels, buckets=buckets))
        metric._is_gone = False
        self._metrics.add(metric)
        return metric

    def __del__(self):
        try:
            if self._id is None or self._pid != os.getpid():
                return
            for metric in list(self._metrics):
                metric._drop()
            _ask("family_delete", id=self._id)
        except Exception:  # noqa: B902 - the interpreter may be ending
            pass


# ---- models ------------------------------------------------------------------------------------------


def load_model(model_name, config="", files=None):
    name = _text(model_name, "model_name")
    if files is None:
        files = {}
    if not isinstance(files, dict):
        raise TritonModelException(
            "failed to load model '%s', files should be a dictionary of file paths and file contents"
            % name)
    encoded = {_text(path, "a file's path"): base64.b64encode(content).decode("ascii")
               for path, content in files.items()}
    _demand("Failed to load model: ", "load", model=name, config=_text(config, "config"),
            files=encoded)


def unload_model(model_name, unload_dependents=False):
    _demand("Failed to unload model: ", "unload", model=_text(model_name, "model_name"),
            dependents=bool(unload_dependents))


def is_model_ready(model_name, model_version=""):
    name, version = _text(model_name, "model_name"), _text(model_version, "model_version")
    number = -1
    if version:
        if not (version.isascii() and version.isdigit()):
            raise TritonModelException(
                "Failed to check model readiness: failed to get model version from specified version "
                "string '%s', version should be an integral value > 0" % version)
        number = int(version)
    return _demand("Failed to check model readiness: ", "ready", model=name,
                   version=number) == "true"


# ---- calls of other models -----------------------------------------------------------------------------

class _Execution:
    """An execution that is a coroutine."""

    __slots__ = ("key", "task")

    def __init__(self, key):
        self.key = key  # for its calls: (depth of nested calls, slot, handles of its requests)
        self.task = asyncio.current_task()

    def holds_instance(self):
        return self.key[1] != _NO_HANDLE


# None: the execution on the main thread, or none.
_execution = contextvars.ContextVar("execution", default=None)


def _key():
    execution = _execution.get()
    return None if execution is None else execution.key


_NOT_EXECUTING = "BLS is only supported during the 'execute' function."

# Kinds of replies, and who waits for a call.
_MORE, _END, _LAST, _ASK = range(4)
_WAIT_MAYBE, _WAIT_EXECUTION, _WAIT_INSTANCE = 1, 2, 3


class _Call:
    """A call whose replies the dispatcher receives.

    When the server asks, the call says from then on when the execution waits for it: the server looks for
    calls that could never be served, since all who could serve them wait.
    """

    __slots__ = ("request", "block", "queue", "loop", "future", "execution", "has_ended", "is_asked",
                 "is_held")

    def __init__(self, request, loop=None):
        self.request = request  # its inputs stay in place until the last reply
        self.block = None
        self.queue = queue.SimpleQueue()
        self.loop = loop
        self.future = None if loop is None else _CallFuture(self)
        self.execution = _execution.get()
        self.has_ended = False
        self.is_asked = False
        self.is_held = False  # a thread that each execution needs waits for a response

    def take(self):
        """Waits for the next response; also whether it is the last one."""
        if not self.queue.empty() or not _c._holds():
            return self.queue.get()
        self.is_held = True
        if self.is_asked:
            self._tell(_WAIT_INSTANCE)
        try:
            return self.queue.get()
        finally:
            self.is_held = False
            if self.is_asked:
                self._tell(_WAIT_MAYBE)

    def put(self, response, kind):
        """The next response, on the dispatcher's thread. Returns the future that is to be completed."""
        if self.has_ended:
            return None  # it was answered early
        self.has_ended = kind != _MORE
        self.queue.put((response, self.has_ended))
        future, self.future = self.future, None
        if future is not None and self.is_asked and not self.has_ended:
            self._tell(_WAIT_MAYBE)
        return future

    def ask(self):
        """The server asks, on the dispatcher's thread."""
        self.is_asked = True
        if self.is_held:
            self._tell(_WAIT_INSTANCE)
        elif self.loop is not None and (self.execution is None or self.execution.holds_instance()):
            try:
                self.loop.call_soon_threadsafe(self._check)
            except RuntimeError:
                pass  # the loop is closed

    def _tell(self, kind):
        _dispatcher.tell(self, kind)

    def _check(self, _=None):
        """Looks, on the event loop's thread, whether the execution waits for the call; if not, again when it
        may have changed."""
        if self.has_ended:
            return
        tasks = asyncio.all_tasks() if self.execution is None else [self.execution.task]
        futures = set()
        for task in tasks:
            other = _find_other(task, futures)
            if task.done() or other is task:
                return
            if other is not None:
                _after(other, self._check)
                return
        calls = {future.call for future in futures}
        if self in calls:
            for call in calls:
                if call.is_asked:
                    call._tell(_WAIT_EXECUTION)
        elif futures:
            _after(next(iter(futures)), self._check)


class _CallFuture(asyncio.Future):
    """The first response to a call. Cancelling it cancels the call."""

    def __init__(self, call):
        super().__init__(loop=call.loop)
        self.call = call

    def cancel(self, *args, **kwargs):
        is_cancelled = super().cancel(*args, **kwargs)
        if is_cancelled:
            _dispatcher.cancel(self.call)
        return is_cancelled


def _find_other(future, futures):
    """None when the future ends only after one of those that are added to `futures`, which are calls. Else
    what may end it: another future; the future itself when it is a task that a timer may cancel; a done
    one, when a task is about to run."""
    if isinstance(future, _CallFuture) and not future.done():
        futures.add(future)
        return None
    children = getattr(future, "_children", None)  # of gather()
    if children and not future.done():
        others = [_find_other(child, futures) for child in children if not child.done()]
        return next((other for other in others if other is not None), None if others else future)
    if not isinstance(future, asyncio.Task) or future.done():
        return future
    if _has_timer(future):
        return future
    waited = getattr(future, "_fut_waiter", None)
    return _find_other(waited, futures) if waited is not None else _DONE


class _Done:
    """Stands for what has happened: the task that waited for it is about to run."""

    @staticmethod
    def done():
        return True


_DONE = _Done()


def _has_timer(task):
    """True when a timer of the task's event loop may cancel it, as that of asyncio.timeout() does."""
    for handle in list(getattr(task.get_loop(), "_scheduled", ())):
        owner = getattr(handle._callback, "__self__", None)
        if not handle.cancelled() and (owner is task or getattr(owner, "_task", None) is task
                                       or any(value is task for value in handle._args or ())):
            return True
    return False


def _after(future, function):
    """Calls the function when the future has ended and those that wait for it have run."""
    if future.done():
        asyncio.get_running_loop().call_soon(function)
    else:
        future.add_done_callback(function)


class _Dispatcher:
    """One thread that receives all replies to asynchronous calls, and completes the futures of each
    event loop together."""

    def __init__(self):
        self._lock = threading.Lock()
        self._calls = {}
        self._next_id = 0
        self._thread = None

    def start(self, call, is_decoupled):
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="replies", daemon=True)
                self._thread.start()
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
            while self._next_id in self._calls:
                self._next_id = (self._next_id + 1) & 0xFFFFFFFF
            number = self._next_id
            self._calls[number] = call
            try:
                call.block = _c._infer(call.request, number, is_decoupled, _key())
            except BaseException:
                del self._calls[number]
                raise

    def cancel(self, call):
        with self._lock:
            if call.block is not None:
                _c._cancel(call.block)

    def tell(self, call, kind):
        """Tells the server who waits for the call."""
        with self._lock:
            if call.block is not None:
                _c._wait(call.block, kind)

    def _take(self, number, response, kind, ready):
        with self._lock:
            call = self._calls[number]
            if kind == _LAST:
                del self._calls[number]
                _c._free_call(call.block)
                call.block = None
        if kind == _ASK:
            call.ask()
            return
        future = call.put(response, kind)
        if future is not None:
            ready.setdefault(call.loop, []).append((future, response))

    def _run(self):
        while True:
            ready = {}
            for number, response, kind in _c._wait_async():
                self._take(number, response, kind, ready)
            for loop, futures in ready.items():
                try:
                    loop.call_soon_threadsafe(_complete_futures, futures)
                except RuntimeError:
                    pass  # the loop is closed: the result is not needed


def _complete_futures(futures):
    for future, response in futures:
        if not future.done():
            future.set_result(response)


_dispatcher = _Dispatcher()


class ResponseIterator:
    """The responses of a model to one request, in the order of their arrival.

    After the end, next() ends again, and a new `for` starts over; one that was left goes on.
    """

    __slots__ = ("_call", "_seen", "_index", "_is_finished")

    def __init__(self, call):
        self._call = call
        self._seen = []
        self._index = 0  # of the next response in `_seen`
        self._is_finished = False

    def __iter__(self):
        if self._is_finished and self._index == len(self._seen):
            self._index = 0
        return self

    def __next__(self):
        if not self._is_finished:
            response, self._is_finished = self._call.take()
            self._seen.append(response)
        elif self._index == len(self._seen):
            raise StopIteration
        self._index += 1
        return self._seen[self._index - 1]

    def cancel(self):
        _dispatcher.cancel(self._call)

    def __del__(self):
        try:
            if not self._is_finished:
                self.cancel()
        except Exception:  # noqa: B902 - the interpreter may be ending
            pass


def _check_may_call():
    if not _state.may_call:
        raise TritonModelException(_NOT_EXECUTING)


def _exec(self, decoupled=False):
    """Runs the request, waits, and returns its response, or an iterator over its responses."""
    if _is_child():
        return _exec_in_child(self, bool(decoupled))
    _check_may_call()
    if not decoupled:
        return _c._exec(self, _key())
    call = _Call(self)
    _dispatcher.start(call, True)
    return ResponseIterator(call)


async def _wait_for_iterator(call, future):
    await future
    return ResponseIterator(call)


def _async_exec(self, decoupled=False):
    """The same as an awaitable of the running event loop."""
    if _is_child():
        return asyncio.get_running_loop().run_in_executor(None, _exec_in_child, self,
                                                          bool(decoupled))
    _check_may_call()
    call = _Call(self, asyncio.get_running_loop())
    future = call.future  # until the first response
    _dispatcher.start(call, bool(decoupled))
    return _wait_for_iterator(call, future) if decoupled else future


def _tensors(described):
    return [Tensor(name, array) for name, array in described]


def _describe(tensors):
    return [(tensor.name(), tensor.as_numpy()) for tensor in tensors]


def _exec_for_child(fields, inputs, trace, decoupled):
    """Runs a child's request and returns its responses."""
    request = InferenceRequest(inputs=_tensors(inputs), trace=_make_trace(*trace), **fields)
    responses = request.exec(decoupled)
    return [(None, int(r.error().code()), r.error().message()) if r.has_error()
            else (_describe(r.output_tensors()), json.loads(r.parameters() or "{}"), None)
            for r in (responses if decoupled else [responses])]


_children.functions["exec"] = _exec_for_child


def _exec_in_child(request, decoupled):
    model, version = request._target()
    trace = request.trace()
    fields = {"request_id": request.request_id(), "correlation_id": request.correlation_id(),
              "requested_output_names": list(request.requested_output_names()),
              "model_name": model, "model_version": version, "flags": request.flags(),
              "timeout": request.timeout(), "parameters": json.loads(request.parameters())}
    responses = []
    for tensors, more, message in _children.ask("exec", fields, _describe(request.inputs()),
                                                (trace._context, trace._handle), decoupled):
        responses.append(InferenceResponse(_tensors(tensors), parameters=more) if message is None
                         else InferenceResponse(error=TritonError(message,
                                                                  TritonError._Code(more))))
    if not decoupled:
        return responses[0]
    call = _Call(request)
    for i, response in enumerate(responses, 1):
        call.queue.put((response, i == len(responses)))
    return ResponseIterator(call)


InferenceRequest.exec = _exec
InferenceRequest.async_exec = _async_exec


# ---- configurations ----------------------------------------------------------------------------------


def get_input_tensor_by_name(inference_request, name):
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response, name):
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def _config_by_name(model_config, key, name):
    for properties in model_config.get(key, ()):
        if properties["name"] == name:
            return properties
    return None


def get_input_config_by_name(model_config, name):
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _config_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def get_model_dir():
    """The directory of the model's version."""
    return _state.model_dir


def get_backend_config():
    """The settings of the model's backend, --backend-config=<backend>,<key>=<value>, as texts. Neso's own."""
    return dict(_state.start.get("backend_config", {}))


class ModelConfig:
    """A model's configuration, to be completed by auto_complete_config()."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    def _fail(self, text, *values):
        name = self._model_config.get("name", "")
        raise ValueError(text.replace("{F}", "auto-complete-config function for model '%s'" % name)
                         % values)

    def set_max_batch_size(self, max_batch_size):
        configured = self._model_config.get("max_batch_size", 0)
        if configured > max_batch_size:
            self._fail("configuration specified max_batch_size %s, but in {F} specified "
                       "max_batch_size %s", configured, max_batch_size)
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        for choice in ("sequence_batching", "ensemble_scheduling"):
            if choice in self._model_config:
                self._fail("Configuration specified scheduling_choice as '%s', but {F} tries to set "
                           "scheduling_choice as 'dynamic_batching'", choice)
        self._model_config.setdefault("dynamic_batching", {})

    def _check_properties(self, kind, tensor, allowed, allowed_text):
        name = tensor.get("name")
        for key in tensor:
            if key not in allowed:
                self._fail("%s '%s' in {F} contains property other than %s.", kind, name,
                           allowed_text)
        if "name" not in tensor:
            self._fail("%s in {F} is missing 'name' property.", kind)
        for key in ("data_type", "dims"):
            if key not in tensor:
                self._fail("%s '%s' in {F} is missing '%s' property.", kind, name, key)

    def _merge(self, kind, tensor):
        model = self._model_config.get("name", "")
        tensors = self._model_config.setdefault(kind, [])
        for present in tensors:
            if present.get("name") != tensor["name"]:
                continue
            configured = present.get("data_type", "TYPE_INVALID")
            if configured not in ("TYPE_INVALID", tensor["data_type"]):
                raise ValueError(
                    "unable to load model '%s', configuration expects datatype %s for %s '%s', model "
                    "provides %s" % (model, configured, kind, tensor["name"], tensor["data_type"]))
            for key in ("dims", "optional"):
                if key in tensor and present.get(key) and present[key] != tensor[key]:
                    raise ValueError(
                        "model '%s', tensor '%s': the model expects %s %s but the model "
                        "configuration specifies %s %s"
                        % (model, tensor["name"], key, tensor[key], key, present[key]))
            present.update(tensor)
            return
        tensors.append(dict(tensor))

    def add_input(self, input):  # noqa: A002 - the name is the interface's
        self._check_properties("input", input, ("name", "data_type", "dims", "optional"),
                               "'name', 'data_type', 'dims' and 'optional'")
        self._merge("input", input)

    def add_output(self, output):
        self._check_properties("output", output, ("name", "data_type", "dims"),
                               "'name', 'data_type' and 'dims'")
        self._merge("output", output)

    def set_model_transaction_policy(self, transaction_policy_dict):
        if any(key != "decoupled" for key in transaction_policy_dict):
            self._fail("model transaction property in {F} contains property other than 'decoupled'.")
        policy = self._model_config.get("model_transaction_policy")
        if policy and "decoupled" in policy and "decoupled" in transaction_policy_dict:
            if bool(policy["decoupled"]) != bool(transaction_policy_dict["decoupled"]):
                raise ValueError(
                    "trying to change decoupled property in auto-complete-config for model '%s', "
                    "which is already set to '%s'."
                    % (self._model_config.get("name", ""), policy["decoupled"]))
        self._model_config["model_transaction_policy"] = dict(transaction_policy_dict)


# ---- failures ----------------------------------------------------------------------------------------


def _exception_text(kind, value, trace):
    """Returns "<Type>: <text>" and the call stack, the innermost frame first."""
    text = "%s: %s" % (kind.__name__, str(value) or "<EMPTY MESSAGE>")
    frames = [frame for frame in (traceback.extract_tb(trace) if trace is not None else [])
              if frame.filename not in (__file__, importlib.__file__)
              and not frame.filename.startswith("<frozen importlib")]
    if frames:
        text += "\n\nAt:"
        for frame in reversed(frames):
            text += "\n  %s(%s): %s" % (frame.filename, frame.lineno, frame.name)
    return text + "\n" if frames else text


def _load_failure(error):
    """Returns why the model does not load. An error that may depend on the interpreter names it."""
    text = _exception_text(type(error), error, error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename and "\n\nAt:" not in text:
        text += "\n\nAt:\n  %s(%s): <module>\n" % (error.filename, error.lineno)
    if isinstance(error, (ImportError, SyntaxError)):
        text += "%sThe interpreter is %s, Python %s.\n" % (
            "" if text.endswith("\n") else "\n", sys.executable, sys.version.split()[0])
    return text


def _failure(text):
    text = "Failed to process the request(s) for model '%s', message: %s" % (_state.name, text)
    _write_log(2, b"triton_python_backend_utils.py", sys._getframe().f_lineno,
            text.encode("utf-8", "surrogateescape"))
    return text


def _decoupled_fault():
    return ("Python model '%s' is using the decoupled mode and the execute function must return "
            "None." % _state.name)


def _late_response():
    _write_log(2, b"triton_python_backend_utils.py", sys._getframe().f_lineno,
            ("model '%s' returned a response for a request that its response sender had answered"
             % _state.name).encode())


# ---- the process ---------------------------------------------------------------------------------------


class _State:
    """The state of this process."""

    def __init__(self):
        self.start = {}
        self.pid = os.getpid()
        self.name = ""  # of the instance
        self.model_name = ""
        self.model_dir = ""
        self.model = None
        self.may_call = False  # other models
        self.loop = None
        self.loop_lock = threading.Lock()


_state = _State()

_FUNCTIONS = {
    "parameters": _parameters,
    "check_trace": _check_trace,
    "check_memory": _check_memory,
    "preferred_gpu": _preferred_gpu,
    "check_error": _check_error,
    "make_error": lambda code, text: TritonError(text, TritonError._Code(code)),
    "make_trace": _make_trace,
    "own_name": lambda: _state.model_name,
    "contiguous": _contiguous,
    "strings": _strings,
    "exception_text": _exception_text,
    "failure": _failure,
    "decoupled_fault": _decoupled_fault,
    "late_response": _late_response,
}


def _import_model(start):
    """Returns the class of the model's program, loaded with the module search path that it expects."""
    folder, name = os.path.split(start["file"])
    stem = name[:-3]
    if start["library_directory"]:
        module, folders = stem, [folder, start["backend_directory"]]
    else:
        module = "%s.%s" % (os.path.basename(start["version_directory"]), stem)
        folders = [start["version_directory"], start["model_directory"], start["backend_directory"]]
    sys.path.extend(folders)
    program = importlib.import_module(module)
    _end_child()
    return program.TritonPythonModel


def _end_child():
    """Ends a child process that the model has forked and that returned from the model's code."""
    if _state.pid != os.getpid():
        os._exit(0)


def _loop():
    """The event loop of coroutines, on a thread of its own."""
    with _state.loop_lock:
        if _state.loop is None:
            _state.loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(_state.loop,), name="event loop",
                             daemon=True).start()
        return _state.loop


def _run_loop(loop):
    _c._use_loop()
    loop.run_forever()


def _log_task(task):
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _failure(_exception_text(type(error), error, error.__traceback__))


def _make_concurrent(execute):
    """execute() as a function that only begins an execution, whose end the event loop reports."""
    loop = _loop()

    async def run(requests, token, key):
        try:
            result = await execute(requests, key)
        except BaseException as error:  # noqa: B902 - a cancelled task is answered, too
            _c._end(token, None, error)
        else:
            _c._end(token, result, None)

    def begin(requests, token, key):
        asyncio.run_coroutine_threadsafe(run(requests, token, key), loop)

    return begin


def _is_concurrent(model, start):
    """True when executions of the model may overlap."""
    if start["async_concurrency"] == 1:
        return False
    if inspect.iscoroutinefunction(model.execute) and not start["is_decoupled"]:
        return True
    Logger.log_warn("ASYNC_CONCURRENCY of model '%s' has no effect: %s" % (
        _state.model_name, "executions of decoupled models overlap as it is"
        if start["is_decoupled"] else "execute() is not a coroutine"))
    return False


def _make_execute(model, is_decoupled, is_concurrent):
    if not inspect.iscoroutinefunction(model.execute):
        return model.execute

    async def execute(requests, key):
        _execution.set(_Execution(key))
        try:
            return await model.execute(requests)
        finally:
            _end_child()  # which would run the event loop of its parent

    if is_concurrent:
        return _make_concurrent(execute)
    loop = _loop()

    def run_decoupled(requests):
        asyncio.run_coroutine_threadsafe(
            execute(requests, _c._execution()), loop).add_done_callback(_log_task)

    def run(requests):
        return asyncio.run_coroutine_threadsafe(execute(requests, _c._execution()), loop).result()

    return run_decoupled if is_decoupled else run


def _complete(start):
    """Returns the configuration completed by auto_complete_config(); empty when it changes nothing."""
    function = getattr(_import_model(start), "auto_complete_config", None)
    if function is None:
        return b""
    config = function(ModelConfig(start["args"]["model_config"]))
    if not isinstance(config, ModelConfig):
        raise TritonModelException(
            "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object."
            % _state.model_name)
    return json.dumps(config.as_dict()).encode("utf-8", "surrogateescape")


def _load(start):
    kind = _import_model(start)
    if not hasattr(kind, "execute"):
        raise TritonModelException(
            "Python model %s does not implement `execute` method." % start["file"])
    model = kind()
    if hasattr(model, "initialize"):
        model.initialize(dict(start["args"]))
    _end_child()
    return model


# Properties of a model, by bits.
_HAS_READY_CHECK, _IS_CONCURRENT, _HAS_OWN_QUEUE = 1, 2, 4

# Answers of is_ready().
_READY_NO, _READY_YES, _READY_ERROR, _READY_NOT_BOOL = range(4)


def _ask_ready(model):
    try:
        value = model.is_ready()
        if inspect.isawaitable(value):
            value = asyncio.run_coroutine_threadsafe(_await(value), _loop()).result()
    except Exception as error:  # noqa: B902 - whatever a user's program raises
        _write_log(2, b"triton_python_backend_utils.py", sys._getframe().f_lineno,
                ("Model '%s' is not ready: %s" % (
                    _state.name, _exception_text(type(error), error, error.__traceback__))).encode(
                        "utf-8", "surrogateescape"))
        return _READY_ERROR
    if not isinstance(value, bool):
        return _READY_NOT_BOOL
    return _READY_YES if value else _READY_NO


async def _await(value):
    return await value


def _answer_ready_questions(model):
    question = 0
    while True:
        question = _c._wait_ready(question)
        _c._answer_ready(question, _ask_ready(model))


# The signal at which faulthandler writes the stacks; models do not use it.
_STACKS_SIGNAL = signal.SIGRTMAX - 3


def _read_stacks():
    """Returns the stacks of all threads; the interpreter lock is held."""
    file = _c._stacks_file()
    try:
        faulthandler.dump_traceback(file, all_threads=True)
        return os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)


def _answer_stack_questions():
    question = 0
    while True:
        question = _c._stacks_wait(question)
        try:
            text = _read_stacks()
        except OSError as error:
            text = ("The stacks cannot be written: %s\n" % error).encode()
        _c._stacks_answer(question, text)


def _watch_stacks():
    """Answers the server's questions for the call stacks of this process, even while it hangs."""
    file = _c._stacks_file()
    faulthandler.register(_STACKS_SIGNAL, file=file, all_threads=True)
    _c._stacks_begin(file, _STACKS_SIGNAL)
    threading.Thread(target=_answer_stack_questions, name="stacks", daemon=True).start()


def _finalize(model):
    if not hasattr(model, "finalize"):
        return
    try:
        model.finalize()
    except Exception as error:  # noqa: B902 - whatever a user's program raises
        _write_log(0, b"triton_python_backend_utils.py", sys._getframe().f_lineno,
                _exception_text(type(error), error, error.__traceback__).encode(
                    "utf-8", "surrogateescape"))


for _name in ("TritonError", "TritonModelException", "PreferredMemory", "InferenceTrace", "Logger",
              "Metric", "MetricFamily", "ModelConfig", "ResponseIterator", "load_model",
              "unload_model", "is_model_ready"):
    setattr(_c, _name, globals()[_name])


def _begin():
    _state.start = start = json.loads(_c._attach())
    os.register_at_fork(before=_children.before_fork, after_in_parent=_children.after_in_parent,
                        after_in_child=_children.after_in_child)
    _state.name = start["args"]["model_instance_name"]
    _state.model_name = start["args"]["model_name"]
    _state.model_dir = start["version_directory"]
    _c._setup(tuple(map(sys.intern, start["inputs"])), tuple(map(sys.intern, start["outputs"])),
              start["is_decoupled"], _FUNCTIONS, TritonModelException)
    return start


def _run(start):
    """The life of the process."""
    try:
        if start["mode"] == "complete":
            _c._started(0, False, _complete(start))
            return 0
        _watch_stacks()
        _state.model = model = _load(start)
        is_concurrent = _is_concurrent(model, start)
        execute = _make_execute(model, start["is_decoupled"], is_concurrent)
    except BaseException as error:  # noqa: B902 - sys.exit() in a model is a failure, too
        _end_child()
        _c._started(1, True, _load_failure(error).encode("utf-8", "surrogateescape"))
        return 1
    _state.may_call = True
    has_ready_check = hasattr(model, "is_ready")
    if has_ready_check:
        threading.Thread(target=_answer_ready_questions, args=(model,), name="is_ready",
                         daemon=True).start()
    has_own_queue = getattr(model, "has_own_queue", False) is True
    _c._started(_HAS_READY_CHECK * has_ready_check + _IS_CONCURRENT * is_concurrent
                + _HAS_OWN_QUEUE * has_own_queue, False, b"")
    _c._serve(execute, is_concurrent)
    _state.may_call = False
    _finalize(model)
    _c._end_devices()
    return 0
