# SPDX-License-Identifier: BSD-3-Clause
"""The images of `make image`: what the archive says, and its files."""
import hashlib
import io
import json
import os
import pathlib
import re
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NESO_BUILD", ROOT / "build"))
NAMES = ("neso", "neso-python")


class Image:
    """An archive for podman load and docker load; `config` is the configuration, `layers` are tar files."""

    def __init__(self, name, folder="image"):
        self.name = name
        self.path = BUILD / folder / f"{name}.tar"
        self.sbom_path = BUILD / folder / f"{name}.spdx.json"
        with tarfile.open(self.path) as archive:
            [self.manifest] = json.load(archive.extractfile("manifest.json"))
            self.config_bytes = archive.extractfile(self.manifest["Config"]).read()
            self.layers = [archive.extractfile(layer).read() for layer in self.manifest["Layers"]]
        self.config = json.loads(self.config_bytes)

    @property
    def tag(self):
        [tag] = self.manifest["RepoTags"]
        return tag

    def members(self):
        """{path: member} of all layers; the upper one wins."""
        rows = {}
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                rows.update((member.name.strip("/") or ".", member) for member in tar.getmembers())
        return rows

    def read_all(self, pattern, layer):
        """{path: text} of the files of a layer whose path begins with the pattern."""
        with tarfile.open(fileobj=io.BytesIO(self.layers[layer])) as tar:
            return {member.name: tar.extractfile(member).read().decode() for member in tar.getmembers()
                    if member.isreg() and re.match(pattern, member.name)}

    def read_bytes(self, path):
        with tarfile.open(fileobj=io.BytesIO(self.layers[0])) as tar:
            return tar.extractfile(path).read()

    def n_bytes(self):
        return sum(member.size for member in self.members().values() if member.isreg())

    def digests(self):
        return [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in self.layers]

    def unpack(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(folder, numeric_owner=True)  # needs root, as the whole check does
        return folder

    def sbom(self):
        return json.loads(self.sbom_path.read_text("utf-8"))
