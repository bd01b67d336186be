# SPDX-License-Identifier: BSD-3-Clause
"""Renders the messages of a chat with a template in Jinja. A program: chat_template.py starts it.

A template comes with a model, so it may be hostile, or wrong. It runs in Jinja's immutable sandbox, in this
process, which has a limit of memory and, for each text, limits of time: timers of the system end the process,
whatever it does.

Frames on standard input and output: length (4 bytes, little endian), kind (1 byte), bytes. The first one that
comes is the settings, the others are bodies of requests; each is answered by one frame.
"""
import json
import resource
import signal
import struct
import sys
import time

TEXT, REFUSED, FAILED = 0, 1, 2  # kinds of answers

FRAME = struct.Struct("<IB")
MAX_ERROR_BYTES = 1000  # of the text of an error, which a template may make of a whole request


class Refusal(Exception):
    """The messages cannot be rendered, or the template itself refuses them."""


# ---- what a template sees -------------------------------------------------------------------------------


def _text_of(content):
    """A content as a text: parts of the type text are joined by line breaks."""
    if content is None or isinstance(content, str):
        return content
    if not _is_list_of_objects(content):
        raise Refusal("the 'content' of a message must be a string or a list of parts, which are objects")
    texts = ["" if part.get("text") is None else part["text"] for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise Refusal("the 'text' of a part of a message must be a string")
    return "\n".join(texts)


def _is_list_of_objects(value):
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _with_objects(call):
    """A call of a tool whose arguments are an object; clients send them as a text with JSON."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _message(message, knows_developer):
    if not isinstance(message.get("role", ""), str):
        raise Refusal("the 'role' of a message must be a string")
    made = {**message, "content": _text_of(message.get("content"))}
    if made.get("role") == "developer" and not knows_developer:
        made["role"] = "system"
    calls = made.get("tool_calls")
    if calls is not None and not _is_list_of_objects(calls):
        raise Refusal("the 'tool_calls' of a message must be a list of objects")
    if calls is not None:
        made["tool_calls"] = [_with_objects(call) for call in calls]
    elif made["content"] is None:
        made["content"] = ""
    return made


def variables_of(body, settings):
    """The variables of the template for a request."""
    knows_developer = "developer" in settings["template"]
    tools = body.get("tools") or None
    if tools is not None and not _is_list_of_objects(tools):
        raise Refusal("'tools' must be a list of objects")
    if body.get("tool_choice") == "none":
        tools = None
    more = body.get("chat_template_kwargs") or {}
    if not isinstance(more, dict):
        raise Refusal("'chat_template_kwargs' must be an object")
    variables = {"bos_token": settings["bos_token"], "eos_token": settings["eos_token"],
                 "add_generation_prompt": body.get("add_generation_prompt", True)}
    for key in ("documents", "reasoning_effort"):
        if body.get(key) is not None:
            variables[key] = body[key]
    messages = body.get("messages")
    if not _is_list_of_objects(messages):
        raise Refusal("'messages' must be a list of objects")
    variables.update(more)
    variables.update(messages=[_message(m, knows_developer) for m in messages], tools=tools)
    return variables


# ---- the template ---------------------------------------------------------------------------------------


def _raise_exception(text):
    raise Refusal(text)


def _strftime_now(form):
    return time.strftime(form)


def _to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def make_environment():
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """{% generation %}: marks the assistant's text for training; here it only gives its content."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
        def unsafe_undefined(self, obj, attribute):
            raise jinja2.sandbox.SecurityError("access to attribute '%s' of '%s' object is unsafe" % (
                attribute, type(obj).__name__))

    environment = Environment(trim_blocks=True, lstrip_blocks=True,
                              extensions=[jinja2.ext.loopcontrols, Generation])
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


def render(template, variables, max_bytes):
    parts, n_bytes = [], 0
    for part in template.generate(variables):
        parts.append(part)
        n_bytes += len(part.encode("utf-8", "surrogatepass"))
        if n_bytes > max_bytes:
            raise ValueError("its text has more than %d bytes" % max_bytes)
    return "".join(parts)


def describe(error):
    """An error of a template with its line."""
    import traceback
    text = "%s: %s" % (type(error).__name__, error)
    line = getattr(error, "lineno", None)
    if line is None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == "<template>"]
        line = lines[-1] if lines else None
    return text if line is None else "%s (line %d of the template)" % (text, line)


# ---- the program ----------------------------------------------------------------------------------------


def read_frame(file):
    head = file.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    return file.read(FRAME.unpack(head)[0])


def write_frame(file, kind, text):
    body = text.encode("utf-8", "replace")
    if kind != TEXT and len(body) > MAX_ERROR_BYTES:
        body = body[:MAX_ERROR_BYTES - 3].decode("utf-8", "ignore").encode() + b"..."  # cuts no character
    file.write(FRAME.pack(len(body), kind) + body)
    file.flush()


def read_body(text):
    """The server's reader of JSON takes more than Python's, such as numbers of any length."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("the request is no JSON: %s" % error) from None
    if not isinstance(body, dict):
        raise Refusal("the request must be a JSON object")
    return body


def answer(template, settings, body):
    try:
        return TEXT, render(template, variables_of(read_body(body), settings), settings["max_bytes"])
    except Refusal as error:
        return REFUSED, str(error)
    except MemoryError:
        return FAILED, "MemoryError: it needs more than %d bytes of memory" % settings["memory_bytes"]
    except Exception as error:  # noqa: B902 - whatever a template raises
        return FAILED, describe(error)


def main():
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(read_frame(commands))
    try:
        template = make_environment().from_string(settings["template"])
    except Exception as error:  # noqa: B902 - a syntax error, or Jinja is missing
        write_frame(answers, FAILED, describe(error))
        return
    limit = settings["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    write_frame(answers, TEXT, "")
    while (body := read_frame(commands)) is not None:
        signal.setitimer(signal.ITIMER_PROF, settings["seconds"])  # of processor time
        signal.setitimer(signal.ITIMER_REAL, settings["seconds_in_all"])
        kind, text = answer(template, settings, body)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(answers, kind, text)


if __name__ == "__main__":
    main()
