# SPDX-License-Identifier: BSD-3-Clause
"""Chat templates: where they come from, and the process that renders them.

Threads: a ChatTemplate is used by one thread at a time.
"""
import json
import os
import signal
import struct
import subprocess
import sys

TEXT, REFUSED = 0, 1  # kinds of answers of chat_renderer.py

SECONDS = 1.0  # of processor time for a text
SECONDS_IN_ALL = 10.0  # on a machine that is busy with other things
MAX_BYTES = 16 << 20  # of a text
MEMORY_BYTES = 1 << 30  # of the process
MAX_TEMPLATE_FILE_BYTES = 16 << 20  # of a template, or of tokenizer_config.json

_FRAME = struct.Struct("<IB")
_RENDERER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_renderer.py")


class TemplateError(Exception):
    """The template, or its process, fails."""


class TemplateRefusal(Exception):
    """The template refuses the messages."""


class ChatTemplate:
    """A template and its process, which starts at the first text and again after it ended."""

    def __init__(self, source, bos_token="", eos_token=""):
        self.source = source
        self._settings = json.dumps({
            "template": source, "bos_token": bos_token, "eos_token": eos_token, "seconds": SECONDS,
            "seconds_in_all": SECONDS_IN_ALL, "max_bytes": MAX_BYTES, "memory_bytes": MEMORY_BYTES}).encode()
        self._process = None

    def start(self):
        """Starts the process; raises TemplateError when the template has no valid syntax."""
        if self._process is not None:
            return
        self._process = subprocess.Popen([sys.executable, _RENDERER], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)
        kind, text = self._ask(self._settings)
        if kind != TEXT:
            self.close()
            raise TemplateError("the chat template cannot be used: %s" % text)

    def render(self, body):
        """The prompt for the body of a request, JSON as bytes."""
        self.start()
        kind, text = self._ask(body)
        if kind == TEXT:
            return text
        if kind == REFUSED:
            raise TemplateRefusal(text)
        raise TemplateError("the chat template failed: %s" % text)

    def close(self):
        process, self._process = self._process, None
        if process is not None:
            process.stdin.close()
            process.kill()
            process.wait()
            process.stdout.close()

    def _ask(self, frame):
        process = self._process
        try:
            process.stdin.write(_FRAME.pack(len(frame), 0) + frame)
            process.stdin.flush()
        except OSError:  # it ended; the answer says why
            pass
        head = process.stdout.read(_FRAME.size)
        if len(head) == _FRAME.size:
            n_bytes, kind = _FRAME.unpack(head)
            text = process.stdout.read(n_bytes)
            if len(text) == n_bytes:
                return kind, text.decode("utf-8", "replace")
        raise TemplateError(self._end())

    def _end(self):
        status = self._process.wait()
        self._process.stdout.close()
        self._process = None
        if status == -signal.SIGPROF:
            return "the chat template took longer than %g s" % SECONDS
        if status == -signal.SIGALRM:
            return "the chat template took longer than %g s, most of which it waited" % SECONDS_IN_ALL
        return "the process of the chat template ended with %s" % (
            "signal %d" % -status if status < 0 else "status %d" % status)


# ---- where templates come from ------------------------------------------------------------------------


def read_file(folder, name):
    """The text of a file of a model's directory, which the path must not leave."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.commonpath([root, path]) != root:
        raise TemplateError("the file '%s' of the chat template must be in the model's directory" % name)
    try:
        if os.path.getsize(path) > MAX_TEMPLATE_FILE_BYTES:
            raise TemplateError("the file '%s' has more than %d bytes" % (name, MAX_TEMPLATE_FILE_BYTES))
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError("the file '%s' of the chat template cannot be read: %s" % (
            name, getattr(error, "strerror", None) or error)) from None


def _token(value):
    """A token of tokenizer_config.json: a text, or an object with its content."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _template(value, name):
    """A template of tokenizer_config.json: a text, or a list of templates with names."""
    if isinstance(value, str):
        return value
    named = {one.get("name"): one.get("template") for one in value or [] if isinstance(one, dict)}
    source = named.get("default") or (next(iter(named.values())) if len(named) == 1 else None)
    if not isinstance(source, str):
        raise TemplateError("the file '%s' has no chat template%s" % (
            name, "" if not named else " with the name 'default'"))
    return source


def read_tokenizer_config(folder, name):
    """(template or None, begin token, end token) of a file like tokenizer_config.json."""
    try:
        config = json.loads(read_file(folder, name))
    except ValueError as error:
        raise TemplateError("the file '%s' is no JSON: %s" % (name, error)) from None
    if not isinstance(config, dict):
        raise TemplateError("the file '%s' is no JSON object" % name)
    template = config.get("chat_template")
    return (None if template is None else _template(template, name),
            _token(config.get("bos_token")), _token(config.get("eos_token")))
