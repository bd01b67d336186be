# SPDX-License-Identifier: BSD-3-Clause
"""Certificates made with the openssl program, for the tests of TLS."""
import pathlib
import subprocess

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def openssl(*arguments, **named):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True,
                          **named)


class Authority:
    """Signs certificates; each is a pair of files, <name>.pem and <name>.key."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        openssl("req", "-x509", *CURVE, "-keyout", self.key(name), "-out", self.cert(name),
                "-subj", f"/CN={name}", "-days", "2")

    def cert(self, name):
        return str(self.folder / f"{name}.pem")

    def key(self, name):
        return str(self.folder / f"{name}.key")

    @property
    def root(self):
        return self.cert(self.name)

    def issue(self, name, common_name="localhost", has_expired=False):
        request = self.folder / f"{name}.csr"
        openssl("req", *CURVE, "-keyout", self.key(name), "-out", request,
                "-subj", f"/CN={common_name}", "-addext", NAMES)
        openssl("x509", "-req", "-in", request, "-CA", self.root, "-CAkey", self.key(self.name),
                "-CAcreateserial", "-out", self.cert(name), "-copy_extensions", "copy",
                "-days", "-1" if has_expired else "1")
        return self.cert(name), self.key(name)


def serial(path):
    """As Python's ssl names it."""
    shown = openssl("x509", "-in", path, "-noout", "-serial").stdout.decode()
    return shown.strip().partition("=")[2]
