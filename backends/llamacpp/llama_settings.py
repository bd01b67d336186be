# SPDX-License-Identifier: BSD-3-Clause
"""The settings of a model: parameters of its configuration, and what its file says."""
import glob
import os

from llama_gguf import GgufError, read_metadata
from llama_library import POOLING_NAMES, POOLING_NONE

DEFAULT_FILE = "model.gguf"
DEFAULT_N_CTX = 8192  # where the file allows more: memory grows with it
MAX_SLOTS = 256
MAX_AHEAD = 4096
AHEAD_OF_KEYS = 64  # when clients have API keys, and no parameter says otherwise
POOLING_KINDS = {number: name for name, number in POOLING_NAMES.items()}


class SettingsError(Exception):
    """A parameter of the model is wrong, or its file."""


def find_file(folder, config):
    """The GGUF file of a version."""
    name = config.get("default_model_filename") or ""
    if name:
        return os.path.join(folder, name)
    if os.path.exists(os.path.join(folder, DEFAULT_FILE)):
        return os.path.join(folder, DEFAULT_FILE)
    found = sorted(glob.glob(os.path.join(glob.escape(folder), "*.gguf")))
    first = [path for path in found if "-of-" not in os.path.basename(path) or "-00001-of-" in path]
    if len(first) != 1:
        raise SettingsError("the directory '%s' has %s, and no %s; default_model_filename names the file" % (
            folder, "several files *.gguf" if first else "no file *.gguf", DEFAULT_FILE))
    return first[0]


class Settings:
    def __init__(self, config, version_folder):
        self._name = config["name"]
        self._parameters = {key: value.get("string_value", "")
                            for key, value in (config.get("parameters") or {}).items()}
        self.file = find_file(version_folder, config)
        try:
            self.metadata = read_metadata(self.file)
        except GgufError as error:
            raise SettingsError("the file '%s' cannot be used: %s" % (self.file, error)) from None
        self.slots = self._integer("slots", 4, 1, MAX_SLOTS)
        self.n_ctx_train = self._of_file("context_length") or DEFAULT_N_CTX
        self.n_ctx = self._integer("n_ctx", min(self.n_ctx_train, DEFAULT_N_CTX), 8, 1 << 24)
        self.tokens_per_step = self._integer("tokens_per_step", 512, self.slots, 65536)
        self.prompt_share = self._fraction("prompt_share", 0.5)
        self.max_new_tokens = self._integer("max_new_tokens", None, 1, 1 << 24)
        self.prompt_cache = self._choice("prompt_cache", "key", ("slot", "key", "off"))
        self.threads = self._integer("threads", self._usual_threads(), 1, 512)
        self.n_ahead = self._integer("requests_ahead", 1, 1, MAX_AHEAD)
        self.n_ahead_of_keys = self._integer("requests_ahead", AHEAD_OF_KEYS, 1, MAX_AHEAD)
        self.chat_template = self._parameters.get("chat_template")
        self.pooling = self._pooling()

    def _wrong(self, key, expected):
        return SettingsError("the parameter '%s' of model '%s' is '%s', but must be %s" % (
            key, self._name, self._parameters[key], expected))

    def _integer(self, key, default, low, high):
        text = self._parameters.get(key)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or not low <= int(text[:19]) <= high:
            raise self._wrong(key, "an integer from %d to %d" % (low, high))
        return int(text)

    def _fraction(self, key, default):
        text = self._parameters.get(key)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 < value <= 1:
            raise self._wrong(key, "a number above 0, at most 1")
        return value

    def _choice(self, key, default, allowed):
        text = self._parameters.get(key, default)
        if text not in allowed:
            raise self._wrong(key, "one of %s" % ", ".join(allowed))
        return text

    def _of_file(self, key):
        value = self.metadata.get("%s.%s" % (self.metadata.get("general.architecture"), key))
        return value if isinstance(value, int) else None

    @staticmethod
    def _usual_threads():
        """All processors but one, which serves; more than 16 seldom help."""
        return max(1, min(16, len(os.sched_getaffinity(0)) - 1))

    def _pooling(self):
        """None: the model makes texts. Else how it makes a vector of the vectors of a text's tokens."""
        text = self._parameters.get("pooling")
        if text is not None:
            return POOLING_NAMES[self._choice("pooling", None, tuple(POOLING_NAMES))] or None
        kind = self._of_file("pooling_type")
        if kind is None or kind == POOLING_NONE:
            return None
        if kind not in POOLING_KINDS:
            raise SettingsError("the file '%s' has the pooling type %d, which is not supported: it makes no "
                                "embeddings" % (self.file, kind))
        return kind
