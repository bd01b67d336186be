# SPDX-License-Identifier: BSD-3-Clause
"""llama.cpp's C library over ctypes: loading it, models, contexts, samplers.

The library has no stable structures: fields move between its minor versions without a new SONAME. So
this file has a table of the layouts that were checked, by llama_version(), and compares the defaults that
the library gives with what the layout says before it writes a field. Other versions are refused. The same
holds for functions: llama_sampler_init_penalties() got an argument more, so penalties are computed here.

Faults of use end the process inside the library (abort). Callers check what comes from clients: token ids,
positions, lengths.

Threads: `Library` and `Model` may be used by several threads, `Context` by one at a time; set_abort() by any.
"""
import ctypes
import glob
import os
import platform
import threading
import time

import numpy as np

BLOCK_BYTES = 1024  # more than any of the structures that are passed by value
NO_TOKEN = -1
BYTES_PER_TOKEN = 8  # more than texts have
CUT_TOKENS = 256  # by which a text that is cut may have more tokens there
GRAMMAR_SECONDS = 0.25  # of processor time that a grammar may take for a token

POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST = 0, 1, 2, 3
POOLING_NAMES = {"none": POOLING_NONE, "mean": POOLING_MEAN, "cls": POOLING_CLS, "last": POOLING_LAST}

# enum ggml_log_level
LOG_WARN, LOG_ERROR, LOG_CONTINUED = 3, 4, 5


class LibraryError(Exception):
    """The library is missing, unknown, or refused something."""


class _Block(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * BLOCK_BYTES)]


class _Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p),
                ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.c_void_p)]


class _Candidates(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("selected", ctypes.c_int64),
                ("sorted", ctypes.c_bool)]


class _Symbol(ctypes.Structure):
    """What dladdr() gives."""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Layout:
    """Where the fields of llama_context_params are. The first four are the same in all versions."""
    N_CTX, N_BATCH, N_UBATCH, N_SEQ_MAX = 0, 4, 8, 12

    def __init__(self, size, n_threads, pooling, embeddings):
        self.size = size
        self.n_threads = n_threads
        self.pooling = pooling
        self.embeddings = embeddings  # the first of six flags, the last of which is kv_unified
        self.kv_unified = embeddings + 5

    def expected(self):
        """Offsets and values of the defaults that tell this layout from others."""
        fields = [(self.N_CTX, 512), (self.N_BATCH, 2048), (self.N_UBATCH, 512), (self.N_SEQ_MAX, 1)]
        fields += [(self.pooling + 4 * i, -1) for i in range(-1, 3)]  # rope scaling to flash attention
        return fields

    def check(self, defaults):
        """Returns what differs as a text, or None. `defaults`: the bytes that the library wrote."""
        for offset, value in self.expected():
            found = int.from_bytes(defaults[offset:offset + 4], "little", signed=True)
            if found != value:
                return "at byte %d there is %d instead of %d" % (offset, found, value)
        threads = [int.from_bytes(defaults[at:at + 4], "little", signed=True)
                   for at in (self.n_threads, self.n_threads + 4)]
        if not all(0 < n <= 4096 for n in threads):
            return "the numbers of threads at byte %d are %s" % (self.n_threads, threads)
        flags = defaults[self.embeddings:self.kv_unified + 1]
        if flags[0] != 0 or flags[-1] != 0 or any(flag > 1 for flag in flags):
            return "the flags at byte %d are %s" % (self.embeddings, flags.hex())
        return None


# By the first two numbers of llama_version().
LAYOUTS = {
    "0.5": Layout(size=160, n_threads=28, pooling=44, embeddings=128),
    "0.7": Layout(size=168, n_threads=28, pooling=44, embeddings=136),
}

_P, _I, _U, _F, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_bool
_S, _Z = ctypes.c_char_p, ctypes.c_size_t

# name: (result, arguments). Calls that compute give up Python's lock, the others keep it.
_COMPUTING = {
    "ggml_backend_load_all": (None, []),
    "ggml_backend_load_all_from_path": (None, [_S]),
    "llama_backend_init": (None, []),
    "llama_model_load_from_file": (_P, [_S, _Block]),
    "llama_model_free": (None, [_P]),
    "llama_init_from_model": (_P, [_P, _Block]),
    "llama_free": (None, [_P]),
    "llama_tokenize": (_I, [_P, _P, _I, _P, _I, _B, _B]),
    "llama_decode": (_I, [_P, _Batch]),
    "llama_get_logits": (_P, [_P]),
    "llama_sampler_sample": (_I, [_P, _P, _I]),
    "llama_sampler_apply": (None, [_P, _P]),
    "llama_sampler_init_grammar": (_P, [_P, _S, _S]),
}
_SHORT = {
    "ggml_backend_dev_count": (_Z, []),
    "llama_get_embeddings_seq": (_P, [_P, _I]),
    "llama_get_logits_ith": (_P, [_P, _I]),
    "llama_get_memory": (_P, [_P]),
    "llama_log_set": (None, [_P, _P]),
    "llama_memory_seq_cp": (None, [_P, _I, _I, _I, _I]),
    "llama_memory_seq_rm": (_B, [_P, _I, _I, _I]),
    "llama_model_get_vocab": (_P, [_P]),
    "llama_model_is_hybrid": (_B, [_P]),
    "llama_model_is_recurrent": (_B, [_P]),
    "llama_model_meta_val_str": (_I, [_P, _S, _P, _Z]),
    "llama_model_n_ctx_train": (_I, [_P]),
    "llama_model_n_embd": (_I, [_P]),
    "llama_n_ctx": (_U, [_P]),
    "llama_sampler_accept": (None, [_P, _I]),
    "llama_sampler_chain_add": (None, [_P, _P]),
    "llama_sampler_chain_init": (_P, [_B]),
    "llama_sampler_free": (None, [_P]),
    "llama_sampler_init_dist": (_P, [_U]),
    "llama_sampler_init_greedy": (_P, []),
    "llama_sampler_init_min_p": (_P, [_F, _Z]),
    "llama_sampler_init_temp": (_P, [_F]),
    "llama_sampler_init_top_k": (_P, [_I]),
    "llama_sampler_init_top_p": (_P, [_F, _Z]),
    "llama_set_abort_callback": (None, [_P, _P, _P]),
    "llama_set_embeddings": (None, [_P, _B]),
    "llama_token_to_piece": (_I, [_P, _I, _P, _I, _I, _B]),
    "llama_vocab_bos": (_I, [_P]),
    "llama_vocab_eos": (_I, [_P]),
    "llama_vocab_get_add_bos": (_B, [_P]),
    "llama_vocab_is_eog": (_B, [_P, _I]),
    "llama_vocab_n_tokens": (_I, [_P]),
}

_LOG_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Library:
    """The loaded library. A process has one; its messages go to `log(level, text)`."""

    def __init__(self, path, log):
        self.path = path
        self._log = log
        self._log_level = 0
        self._failures = []  # the last error messages, for the text of a failed load
        self.is_aborting = False  # the library reports a computation that is broken off as a failure
        self._lock = threading.Lock()
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # abort() without a debugger on the process
        try:
            plain, keeping = ctypes.CDLL(path), ctypes.PyDLL(path)
        except OSError as error:
            raise LibraryError("the library '%s' of llama.cpp cannot be loaded: %s; --backend-config="
                               "llamacpp,library=<path> names it" % (path, error)) from None
        self._bind(plain, _COMPUTING)
        self._bind(keeping, _SHORT)
        self.layout, self._context_defaults = self._check_layout(keeping)
        self._model_defaults = _Block()
        plain.llama_model_default_params.restype = _Block
        self._model_defaults = plain.llama_model_default_params()
        self._log_function = _LOG_FUNCTION(self._on_log)  # kept: the library has the pointer
        self.llama_log_set(ctypes.cast(self._log_function, _P), None)
        self._load_devices(plain)
        self.llama_backend_init()

    def _bind(self, library, functions):
        for name, (result, arguments) in functions.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise LibraryError("the library '%s' is no llama.cpp that this backend can use: it has no "
                                   "function '%s'" % (self.path, name)) from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def _check_layout(self, library):
        library.llama_version.restype = ctypes.c_char_p
        version = (library.llama_version() or b"").decode("utf-8", "replace")
        layout = LAYOUTS.get(".".join(version.split(".")[:2]))
        if layout is None:
            raise LibraryError(
                "the library '%s' is llama.cpp %s, whose structure llama_context_params is unknown: this "
                "backend knows it for the versions %s" % (self.path, version or "without a version",
                                                          ", ".join(v + ".x" for v in LAYOUTS)))
        library.llama_context_default_params.restype = _Block
        block = library.llama_context_default_params()
        fault = layout.check(bytes(block.bytes)) or self._check_size(library, layout)
        if fault is not None:
            raise LibraryError("the structure llama_context_params of the library '%s' (llama.cpp %s) is not "
                               "the one that this backend knows: %s" % (self.path, version, fault))
        self.version = version
        return layout, block

    @staticmethod
    def _check_size(library, layout):
        """The bytes that the library writes end where the structure ends. Only where the result's address
        is an ordinary first argument."""
        if platform.machine() != "x86_64":
            return None
        function = ctypes.CFUNCTYPE(_P, _P)(("llama_context_default_params", library))
        written = np.zeros(BLOCK_BYTES, bool)
        for pattern in (0x55, 0xAA):
            block = np.full(BLOCK_BYTES, pattern, np.uint8)
            function(block.ctypes.data)
            written |= block != pattern
        size = int(np.flatnonzero(written)[-1]) + 1
        if size > layout.size or size <= layout.size - 8:
            return "it has %d bytes instead of %d" % (size, layout.size)
        return None

    def _load_devices(self, library):
        """The CPU variants and GPU kinds are files beside libggml, or in a folder that Debian has for them."""
        symbol = _Symbol()
        address = ctypes.cast(library.ggml_backend_load_all_from_path, _P)
        if ctypes.CDLL(None).dladdr(address, ctypes.byref(symbol)) != 0 and symbol.file:
            beside = os.path.dirname(os.path.realpath(symbol.file))
            for folder in (beside, *sorted(glob.glob(os.path.join(glob.escape(beside), b"ggml/backends*")))):
                self.ggml_backend_load_all_from_path(folder)
        if self.ggml_backend_dev_count() == 0:
            self.ggml_backend_load_all()
        if self.ggml_backend_dev_count() == 0:
            raise LibraryError("the library '%s' finds no device to compute on, not even a CPU" % self.path)

    def _on_log(self, level, text, _):
        if level == LOG_CONTINUED:
            level = self._log_level
        self._log_level = level
        message = (text or b"").decode("utf-8", "replace").strip()
        if level < LOG_WARN or not message or self.is_aborting:
            return
        if level >= LOG_ERROR:
            with self._lock:
                self._failures = self._failures[-4:] + [message]
        self._log(level, message)

    def take_failures(self):
        """What the library has logged as errors since the last call, in one line."""
        with self._lock:
            found, self._failures = self._failures, []
        return "; ".join(found)


class Model:
    """A model's file, mapped into memory, and its vocabulary."""

    def __init__(self, library, path):
        self.library = library
        library.take_failures()
        self._handle = library.llama_model_load_from_file(os.fsencode(path), library._model_defaults)
        if not self._handle:
            raise LibraryError("llama.cpp %s does not load '%s': %s" % (
                library.version, path, library.take_failures() or "no reason given"))
        self._vocab = library.llama_model_get_vocab(self._handle)
        self.n_vocab = library.llama_vocab_n_tokens(self._vocab)
        self.n_ctx_train = library.llama_model_n_ctx_train(self._handle)
        self.n_embd = library.llama_model_n_embd(self._handle)
        self.adds_bos = library.llama_vocab_get_add_bos(self._vocab)
        # A part of what such a model has read cannot be taken back.
        self.has_partial_memory = not (library.llama_model_is_recurrent(self._handle)
                                       or library.llama_model_is_hybrid(self._handle))
        self._pieces = {}

    def close(self):
        if self._handle:
            self.library.llama_model_free(self._handle)
            self._handle = None

    def tokenize(self, text, add_special):
        """The token ids of `text` (bytes) as an array; control tokens are recognised."""
        size = len(text) + 8
        while True:
            tokens = np.empty(size, np.int32)
            n = self.library.llama_tokenize(self._vocab, text, len(text), tokens.ctypes.data, size,
                                            add_special, True)
            if n >= 0:
                return tokens[:n]
            if n == -2**31:
                raise LibraryError("the text is too long to be split into tokens")
            size = -n

    def tokenize_at_most(self, text, add_special, most):
        """The token ids of `text`; None when they are certainly more than `most`. The library's time grows with
        the square of the size for some texts, so of a long one the begin must be short enough first."""
        size = BYTES_PER_TOKEN * most + CUT_TOKENS
        while size < len(text):
            end = size
            while end > 0 and text[end] & 0xC0 == 0x80:  # within a character
                end -= 1
            if len(self.tokenize(text[:end], add_special)) > most + CUT_TOKENS:
                return None
            size *= 2
        return self.tokenize(text, add_special)

    def piece(self, token):
        """The bytes of a token; None when it ends the generation."""
        found = self._pieces.get(token, False)
        if found is False:
            found = self._pieces[token] = self._read_piece(token, False)
        return found

    def _read_piece(self, token, special):
        if not special and self.library.llama_vocab_is_eog(self._vocab, token):
            return None
        size = 64
        while True:
            text = ctypes.create_string_buffer(size)
            n = self.library.llama_token_to_piece(self._vocab, token, text, size, 0, special)
            if n >= 0:
                return text.raw[:n]
            size = -n

    def name_of(self, token):
        """The bytes of a token, control tokens with their names."""
        return self._read_piece(token, True)

    def special(self, which):
        """The text of the token that begins ("bos") or ends ("eos") a text, empty when there is none."""
        token = getattr(self.library, "llama_vocab_" + which)(self._vocab)
        return "" if token < 0 else self.name_of(token).decode("utf-8", "replace")


class Context:
    """A model's memory (KV) for some sequences, and the batch of a step.

    A step: begin(), add() for each token, decode(), then rows() or Sampler.sample().
    """

    def __init__(self, model, n_ctx, n_batch, n_seq, n_threads, pooling=None):
        library = model.library
        layout = library.layout
        params = _Block.from_buffer_copy(library._context_defaults)
        fields = {layout.N_CTX: n_ctx, layout.N_BATCH: n_batch, layout.N_SEQ_MAX: n_seq,
                  layout.N_UBATCH: n_batch if pooling is not None else min(n_batch, 512),
                  layout.n_threads: n_threads, layout.n_threads + 4: n_threads}
        if pooling is not None:
            fields[layout.pooling] = pooling
        for offset, number in fields.items():
            ctypes.c_int32.from_buffer(params, offset).value = number
        ctypes.c_ubyte.from_buffer(params, layout.kv_unified).value = 1
        library.take_failures()
        self.model = model
        self.library = library
        self._handle = library.llama_init_from_model(model._handle, params)
        if not self._handle:
            raise LibraryError("llama.cpp %s makes no context of %d tokens: %s" % (
                library.version, n_ctx, library.take_failures() or "no reason given"))
        self._memory = library.llama_get_memory(self._handle)
        self._make_batch(n_batch, n_seq)
        self._make_abort()
        self._rows_at, self._rows = None, None
        if pooling is not None:
            library.llama_set_embeddings(self._handle, True)

    def _make_batch(self, n_batch, n_seq):
        self.token = np.zeros(n_batch, np.int32)
        self.pos = np.zeros(n_batch, np.int32)
        self.wants = np.zeros(n_batch, np.int8)  # 1 where logits are wanted
        self._n_seq_id = np.ones(n_batch, np.int32)
        self._ids = np.arange(n_seq, dtype=np.int32)
        self._id_places = self._ids.ctypes.data + 4 * np.arange(n_seq, dtype=np.uint64)
        self._seq_id = np.zeros(n_batch, np.uint64)
        self._batch = _Batch(0, self.token.ctypes.data, None, self.pos.ctypes.data,
                             self._n_seq_id.ctypes.data, self._seq_id.ctypes.data, self.wants.ctypes.data)

    def _make_abort(self):
        """A computation ends when the callback returns true. It is asked before each operation, by a thread
        of the library, and a function in Python would cost more than the operations of small models. So the
        callback is strlen() of C's library, over a text of no or one character."""
        self._abort_text = ctypes.create_string_buffer(2)
        strlen = ctypes.cast(ctypes.CDLL(None).strlen, _P)
        self.library.llama_set_abort_callback(self._handle, strlen,
                                              ctypes.cast(self._abort_text, _P))

    def set_abort(self, is_set):
        self.library.is_aborting = is_set
        self._abort_text[0] = b"x" if is_set else b"\0"

    def close(self):
        if self._handle:
            self.library.llama_free(self._handle)
            self._handle = None

    @property
    def n_ctx(self):
        return self.library.llama_n_ctx(self._handle)

    def fill(self, at, seq, tokens, pos):
        """Writes consecutive tokens of one sequence into the batch, from its row `at` on."""
        n = len(tokens)
        end = at + n
        self.token[at:end] = tokens
        self.pos[at:end] = range(pos, pos + n) if n < 16 else np.arange(pos, pos + n)
        self._seq_id[at:end] = self._id_places[seq]
        self.wants[at:end] = 0

    def fill_singles(self, seqs, tokens, positions):
        """Writes one token of each sequence into the first rows of the batch; logits are wanted."""
        n = len(seqs)
        self.token[:n] = tokens
        self.pos[:n] = positions
        self._seq_id[:n] = self._id_places[seqs]
        self.wants[:n] = 1

    def decode(self, n):
        """Computes the first n rows: 0; 1 no room; 2 aborted; below 0 a fault."""
        self._batch.n_tokens = n
        return self.library.llama_decode(self._handle, self._batch)

    def rows(self, n):
        """The logits of the first n rows that wanted them, in the order of the batch, until decode()."""
        at = self.library.llama_get_logits(self._handle)
        if not at:
            raise LibraryError("the library has no logits")
        if at != self._rows_at or n > len(self._rows):
            kind = ctypes.c_float * (n * self.model.n_vocab)
            self._rows = np.frombuffer(kind.from_address(at), np.float32).reshape(n, -1)
            self._rows_at = at
        return self._rows[:n]

    def embedding(self, seq):
        at = self.library.llama_get_embeddings_seq(self._handle, seq)
        if not at:
            raise LibraryError("the library has no embedding of a text")
        return np.frombuffer((ctypes.c_float * self.model.n_embd).from_address(at), np.float32).copy()

    def forget(self, seq, begin=0):
        """Removes the tokens of a sequence from position `begin` on. False when only all can be removed."""
        if self._memory is None:  # an encoder
            return True
        return self.library.llama_memory_seq_rm(self._memory, seq, begin if begin > 0 else -1, -1)

    def share(self, source, target, end):
        """Gives the sequence `target`, which is empty, the tokens of `source` below position `end`."""
        self.library.llama_memory_seq_cp(self._memory, source, target, 0, end)


class Sampler:
    """Chooses tokens: a chain of the library's samplers."""

    def __init__(self, context, grammar=None, **settings):
        self._context = context
        self._library = context.library
        self._grammar = None
        self.is_too_slow = False  # the grammar took too long for the last token
        self._chain = self._library.llama_sampler_chain_init(True)
        try:
            if grammar is not None:
                self._make_grammar(grammar)
            self._add_all(**settings)
        except BaseException:
            self.close()
            raise

    def _make_grammar(self, text):
        self._library.take_failures()
        self._grammar = self._library.llama_sampler_init_grammar(
            self._context.model._vocab, text.encode(), b"root")
        if not self._grammar:
            raise LibraryError("the library refuses the grammar: %s"
                               % (self._library.take_failures() or "no reason given"))

    def _add(self, sampler):
        self._library.llama_sampler_chain_add(self._chain, sampler)

    def _add_all(self, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0):
        library = self._library
        if temperature == 0:
            self._add(library.llama_sampler_init_greedy())
            return
        if top_k > 0:
            self._add(library.llama_sampler_init_top_k(top_k))
        if top_p < 1:
            self._add(library.llama_sampler_init_top_p(top_p, 1))
        if min_p > 0:
            self._add(library.llama_sampler_init_min_p(min_p, 1))
        if temperature != 1:
            self._add(library.llama_sampler_init_temp(temperature))
        self._add(library.llama_sampler_init_dist(seed))

    def close(self):
        for name in ("_grammar", "_chain"):
            if getattr(self, name, None):
                self._library.llama_sampler_free(getattr(self, name))
                setattr(self, name, None)

    def sample(self, row):
        """The token that follows row `row` of the batch; NO_TOKEN when the grammar allows none."""
        if self._grammar is None:
            return self._library.llama_sampler_sample(self._chain, self._context._handle, row)
        began = time.thread_time()
        token = self._sample_within_grammar(row)
        self.is_too_slow = time.thread_time() - began > GRAMMAR_SECONDS
        return token

    def _sample_within_grammar(self, row):
        """The library ends the process when a grammar is given a token that it does not allow, so a token
        is checked before it is accepted."""
        library = self._library
        at = library.llama_get_logits_ith(self._context._handle, row)
        if not at:
            raise LibraryError("the library has no logits of row %d" % row)
        n = self._context.model.n_vocab
        candidates = np.zeros(n, _CANDIDATE)
        candidates["id"] = np.arange(n)
        candidates["logit"] = np.frombuffer((ctypes.c_float * n).from_address(at), np.float32)
        array = _Candidates(candidates.ctypes.data, n, -1, False)
        library.llama_sampler_apply(self._grammar, ctypes.byref(array))
        if not np.isfinite(candidates["logit"]).any():
            return NO_TOKEN
        library.llama_sampler_apply(self._chain, ctypes.byref(array))
        if not 0 <= array.selected < array.size:
            return NO_TOKEN
        chosen = candidates[array.selected]
        if not np.isfinite(chosen["logit"]):
            return NO_TOKEN
        token = int(chosen["id"])
        library.llama_sampler_accept(self._grammar, token)
        library.llama_sampler_accept(self._chain, token)
        return token
