#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes an archive of an image again, the same for the same image: tools/image_archive.py --tag=NAME:TAG FILE

FILE is what `buildah push ... docker-archive:FILE` wrote; the new one replaces it. The number and the host name of
Buildah's container and its number of the image below, which are others each time, are taken out of the configuration;
the files for Docker before 1.10 are left out. What remains is what podman load and docker load read: manifest.json, the configuration, the layers.
"""
import argparse
import hashlib
import io
import json
import os
import tarfile

OF_THE_BUILD = ("container", "container_config", "parent")


def add(tar, name, size, file):
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    tar.addfile(member, file)


def add_bytes(tar, name, content):
    add(tar, name, len(content), io.BytesIO(content))


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_again(source, target, tag):
    """Reads one archive and writes the other; the digest of the new configuration."""
    [manifest] = json.load(source.extractfile("manifest.json"))
    config = json.load(source.extractfile(manifest["Config"]))
    config["config"]["Hostname"] = ""
    config = as_json({key: value for key, value in config.items() if key not in OF_THE_BUILD})
    digest = hashlib.sha256(config).hexdigest()
    add_bytes(target, "manifest.json",
              as_json([{"Config": f"{digest}.json", "Layers": manifest["Layers"], "RepoTags": [tag]}]))
    add_bytes(target, f"{digest}.json", config)
    for layer in manifest["Layers"]:
        add(target, layer, source.getmember(layer).size, source.extractfile(layer))
    return digest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tag", required=True)
    parser.add_argument("file")
    options = parser.parse_args()
    again = options.file + ".new"
    with tarfile.open(options.file) as source, tarfile.open(again, "w", format=tarfile.USTAR_FORMAT) as target:
        digest = write_again(source, target, options.tag)
    os.replace(again, options.file)
    print(f"{options.tag} sha256:{digest}")


if __name__ == "__main__":
    main()
