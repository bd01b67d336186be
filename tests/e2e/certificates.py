# SPDX-License-Identifier: BSD-3-Clause
"""Certificates made with the openssl program, for the tests of TLS."""
import pathlib
import subprocess

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"
# What an authority must say of its key, for those who look closely (Python since 3.13).
SIGNS = "keyUsage=critical,keyCertSign,cRLSign"

# For "openssl ca", which all releases let name the times of a certificate: "openssl x509" takes no
# negative number of days any more (3.5), and times only in new ones (3.4).
CA_CONFIG = """
[ca]
default_ca = authority
[authority]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""
LONG_AGO = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"]


def openssl(*arguments, **named):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True,
                          **named)


class Authority:
    """Signs certificates; each is a pair of files, <name>.pem and <name>.key."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        openssl("req", "-x509", *CURVE, "-keyout", self.key(name), "-out", self.cert(name),
                "-subj", f"/CN={name}", "-addext", SIGNS, "-days", "2")

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
        places = ["-in", request, "-out", self.cert(name)]
        if has_expired:
            openssl("ca", "-batch", "-notext", "-config", self.config(), *LONG_AGO, *places,
                    "-cert", self.root, "-keyfile", self.key(self.name))
        else:
            openssl("x509", "-req", *places, "-CA", self.root, "-CAkey", self.key(self.name),
                    "-CAcreateserial", "-copy_extensions", "copy", "-days", "1")
        return self.cert(name), self.key(name)

    def config(self):
        folder = self.folder / f"{self.name}.issued"
        folder.mkdir(exist_ok=True)
        (folder / "index.txt").touch()
        path = folder / "ca.cnf"
        path.write_text(CA_CONFIG.format(folder=folder), encoding="utf-8")
        return path


def serial(path):
    """As Python's ssl names it."""
    shown = openssl("x509", "-in", path, "-noout", "-serial").stdout.decode()
    return shown.strip().partition("=")[2]
