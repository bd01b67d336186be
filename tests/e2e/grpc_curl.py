# SPDX-License-Identifier: BSD-3-Clause
"""gRPC as curl speaks it: nothing between a test and headers, frames and trailers.

The fixture `curl` makes calls to the module's server: curl(path, body, *more arguments).
"""
import gzip
import shutil
import struct
import subprocess
import zlib

import pytest


def framed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


DECOMPRESS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


def unframed(body, encoding="identity"):
    """The messages of a body, each with whether it was compressed."""
    messages = []
    while body:
        flag, size = struct.unpack_from(">BI", body)
        message, body = body[5:5 + size], body[5 + size:]
        assert flag in (0, 1) and len(message) == size
        messages.append((DECOMPRESS[encoding](message) if flag else message, flag == 1))
    return messages


class Curl:
    """One call: the first line, headers and trailers, and the messages.

    Without a body (None) the headers end the call. What is refused for its headers has to be sent
    so: curl 7.88 takes an answer that comes before it has sent the body for a failure.
    """

    def __init__(self, server, folder, path, body, *more):
        sent = ["--request", "POST"]
        if body is not None:
            (folder / "sent").write_bytes(body)
            sent = ["--data-binary", f"@{folder / 'sent'}"]
        (folder / "body").unlink(missing_ok=True)
        subprocess.run(["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--max-time",
                        "20", "--header", "Content-Type: application/grpc", "--header",
                        "TE: trailers", *sent, "--output", folder / "body", "--dump-header",
                        folder / "head", *more,
                        f"http://127.0.0.1:{server.port('grpc')}{path}"], check=True)
        lines = (folder / "head").read_text().splitlines()
        self.first = lines[0].strip()
        self.fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        got = (folder / "body").read_bytes() if (folder / "body").exists() else b""
        messages = unframed(got, self.fields.get("grpc-encoding", "identity"))
        self.messages = [message for message, _ in messages]
        self.is_compressed = [flag for _, flag in messages]


@pytest.fixture
def curl(server, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not there")
    return lambda *arguments: Curl(server, tmp_path, *arguments)
