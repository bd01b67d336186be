# SPDX-License-Identifier: BSD-3-Clause
"""Models of the tests on stand-ins of GPUs (NESO_TESTS_ON_GPU=1).

The configuration of a model of the backends "identity" and "testing" gets instances on GPUs in the place of those on
the CPU, as many as before: a group with an even count has half of them on each of two GPUs, so that what requests,
sequences and steps leave on one GPU is also needed on the other one. A group with resources of the rate limiter, which
are counted for each GPU, stays on one, and so do all groups of a module that sets ONE_GPU = True: its tests change
counts, and a change of the GPUs would load the model anew.

The backend "gpu" (gpu_backend.c) does what "identity" does without parameters; "testing" is the library of the tests
that computes for GPUs (tests/gpu/testing_gpu_memory.c).
"""
import json
import os
import re

IDENTITY = re.compile(r'(backend"?:\s*)"identity"')
TESTING = re.compile(r'backend"?:\s*"testing"')
GROUP = re.compile(r"instance_group\s*(\[?)")
KIND = re.compile(r"\bkind:?\s*KIND_\w+")


def on_gpus(config):
    """Text of a configuration, in either form; other models are left as they are."""
    if not isinstance(config, str):
        return config
    is_identity = bool(IDENTITY.search(config)) and "parameters" not in config
    if not is_identity and not TESTING.search(config):
        return config
    if is_identity:
        config = IDENTITY.sub(r'\1"gpu"', config)
    return json_on_gpus(config) if config.lstrip().startswith("{") else text_on_gpus(config)


def place(count, has_resources=False):
    """(count of a group, its GPUs)"""
    spreads = count % 2 == 0 and not has_resources and os.environ.get("NESO_TESTS_ONE_GPU") != "1"
    return (count // 2, [0, 1]) if spreads else (count, [0])


def json_on_gpus(config):
    try:
        config = json.loads(config)
    except ValueError:
        return config  # a test of what is no JSON
    groups = config.setdefault("instance_group", [{}])
    for group in groups if isinstance(groups, list) else ():
        if group.get("kind", "KIND_CPU") == "KIND_CPU":
            group["count"], group["gpus"] = place(group.get("count", 1))
            group["kind"] = "KIND_GPU"
    return json.dumps(config)


def end_of_block(text, begin):
    """Behind the brace that closes the one at `begin`; -1 without one."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i + 1
    return -1


def group_on_gpus(body):
    kind = KIND.search(body)
    if kind and not kind.group().endswith("KIND_CPU"):
        return body
    body = KIND.sub("", body)
    count = re.search(r"\bcount:\s*(\d+)", body.split("rate_limiter")[0])
    n, gpus = place(int(count.group(1)) if count else 1, "rate_limiter" in body)
    if count:
        body = body[:count.start()] + f"count: {n}" + body[count.end():]
    return f"{{ kind: KIND_GPU gpus: {gpus} {body[1:]}"


def text_on_gpus(config):
    if not GROUP.search(config):
        if "batch_max" in config:  # makes the groups, and takes no others
            return config
        return config + "\ninstance_group { kind: KIND_GPU gpus: [ 0 ] }\n"
    done, at = "", 0
    while (found := GROUP.search(config, at)) is not None:
        done, at = done + config[at:found.end()], found.end()
        is_list = bool(found.group(1))
        while (begin := re.compile(r"[\s,]*(?=\{)").match(config, at)) is not None:
            end = end_of_block(config, begin.end())
            if end < 0:
                return config
            done += begin.group() + group_on_gpus(config[begin.end():end])
            at = end
            if not is_list:
                break
    return done + config[at:]
