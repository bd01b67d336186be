# SPDX-License-Identifier: BSD-3-Clause
"""deploy/envoy/envoy.yaml against Envoy's API, as far as that says what a configuration may contain.

Debian has no package of Envoy, so nothing runs the file. Its API is protobuf: the file is read as a message of it, and
each member that is unknown, or has a value of another type, is an error; also in the parts whose type "@type" names.
"""
import pathlib
import subprocess

import grpc_tools
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
API = ROOT / ".deps" / "envoy"
BOOTSTRAP = "envoy.config.bootstrap.v3.Bootstrap"
FILES = ["envoy/config/bootstrap/v3/bootstrap.proto", *(f"envoy/extensions/{name}.proto" for name in (
    "filters/http/router/v3/router",
    "filters/http/stateful_session/v3/stateful_session",
    "filters/network/http_connection_manager/v3/http_connection_manager",
    "http/stateful_session/header/v3/header",
    "retry/host/previous_hosts/v3/previous_hosts",
    "upstreams/http/v3/http_protocol_options"))]
# This file sets an option that the file of options in the package, which is older, does not have.
NEWER = "envoy/config/core/v3/protocol.proto"

MISTAKES = [
    ("lb_policy: LEAST_REQUEST", "lb_policy: LEAST_REQUESTS"),
    ("present_match: true", "present: true"),
    ("healthy_panic_threshold: {value: 0}", "healthy_panic_threshold: 0"),
    ("path: /v2/health/ready", "url: /v2/health/ready"),
    ("name: neso-server", "header_name: neso-server"),
    ("retry_on: connect-failure,refused-stream,reset", "retry: connect-failure"),
]


def read_api(folder):
    """Returns the class of Bootstrap and the pool with all types."""
    changed = folder / NEWER
    changed.parent.mkdir(parents=True)
    changed.write_text((API / "envoy-api" / NEWER).read_text("utf-8").replace("ignore_empty: true", ""))
    places = [folder, *(API / name for name in ("envoy-api", "googleapis", "protoc-gen-validate", "xds")),
              pathlib.Path(grpc_tools.__file__).parent / "_proto"]
    output = folder / "envoy.pb"
    subprocess.run(["protoc", *(f"-I{place}" for place in places), "--include_imports",
                    f"--descriptor_set_out={output}", *FILES], check=True, capture_output=True, timeout=120)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
        pool.Add(file)
    found = pool.FindMessageTypeByName(BOOTSTRAP)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found), pool
    return message_factory.MessageFactory(pool).GetPrototype(found), pool


def problem(text, bootstrap, pool):
    try:
        json_format.ParseDict(yaml.safe_load(text), bootstrap(), descriptor_pool=pool)
    except json_format.ParseError as error:
        return str(error)
    return None


def check_envoy(folder):
    """Returns a list of problems."""
    bootstrap, pool = read_api(folder)
    text = (ROOT / "deploy/envoy/envoy.yaml").read_text("utf-8")
    found = problem(text, bootstrap, pool)
    if found:
        return [f"envoy.yaml: {found}"]
    return [f"envoy.yaml: the mistake '{after}' is not found" for before, after in MISTAKES
            if before not in text or problem(text.replace(before, after, 1), bootstrap, pool) is None]
