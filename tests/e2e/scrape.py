# SPDX-License-Identifier: BSD-3-Clause
"""The metrics page, read strictly."""
import collections
import re
import time

import requests

from conftest import ON_GPU

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN"
GPU_LABEL = re.compile(r',gpu_uuid="[^"]*"|(?<={)gpu_uuid="[^"]*",?')
SAMPLE = re.compile(rf"({NAME})((?:{{{LABEL}(?:,{LABEL})*}})?) ({NUMBER})")


class Family:
    def __init__(self, name, help_text, kind):
        self.name = name
        self.help = help_text
        self.kind = kind
        self.samples = {}  # text of name and labels -> number, in the order of the page


def parse(text):
    """Families by name, in the order of the page."""
    families = {}
    family = None
    lines = text.split("\n")
    assert lines.pop() == "", "the last line has no end"
    for line in lines:
        if line.startswith("# HELP "):
            name, help_text = line[len("# HELP "):].split(" ", 1)
            assert name not in families, f"{name} comes twice"
            family = families[name] = Family(name, help_text, None)
        elif line.startswith("# TYPE "):
            name, kind = line[len("# TYPE "):].split(" ")
            assert family.name == name and family.kind is None
            family.kind = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"not a sample: {line}"
            name, labels, number = match.groups()
            ends = ("", "_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
            assert name in [family.name + end for end in ends]
            assert name + labels not in family.samples
            family.samples[name + labels] = float(number)
    assert all(family.kind and family.samples for family in families.values())
    return families


def page(server, path="/metrics", method="GET"):
    return requests.request(method, f"http://127.0.0.1:{server.port('metrics')}{path}", timeout=20)


def metrics(server):
    """{text of name and labels: number} of everything. On stand-ins of GPUs (NESO_TESTS_ON_GPU=1) a model's number is
    the sum over its GPUs, without their label."""
    found = collections.Counter() if ON_GPU else {}
    for family in parse(page(server).text).values():
        for sample, number in family.samples.items():
            if ON_GPU:
                found[GPU_LABEL.sub("", sample)] += number
            else:
                found[sample] = number
    return dict(found)


def metric(server, name, model, **labels):
    labels = sorted({"model": model, "version": "1", **labels}.items())
    text = ",".join(f'{key}="{value}"' for key, value in labels)
    return metrics(server)[f"{name}{{{text}}}"]


def wait_for_metric(server, value, name, model, seconds=20, **labels):
    """Metrics are all that tells of what happens inside while requests wait."""
    deadline = time.monotonic() + seconds
    while (now := metric(server, name, model, **labels)) != value:
        assert time.monotonic() < deadline, f"{name} of {model} is {now}, not {value}"


def wait_for_any(server, samples, seconds=20):
    """Until the page has one of them."""
    deadline = time.monotonic() + seconds
    while not samples & metrics(server).keys():
        assert time.monotonic() < deadline, f"none of {samples} is there"


def wait_for_pending(server, model, n):
    wait_for_metric(server, n, "nv_inference_pending_request_count", model)
