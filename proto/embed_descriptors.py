#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a C file with the descriptors of .proto files, for server reflection.

    embed_descriptors.py PROTOC OUTPUT.c DIRECTORY NAME.proto ...

Each file becomes one row of rpc_descriptors (src/grpc/rpc_descriptors.h) with its serialized
google.protobuf.FileDescriptorProto, after the files that it imports. reflection.proto is there a
second time under the package name of its older version.
"""
import pathlib
import subprocess
import sys
import tempfile

BYTES_PER_LINE = 16
NAME_OF_FILE = 1  # FileDescriptorProto.name


def fields(message):
    """(number, bytes) of the length-delimited fields; there are no others at these levels but for
    integers, which are passed over."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 == 2:
            length = varint()
            yield tag >> 3, message[at:at + length]
            at += length
        else:
            raise ValueError(f"wire type {tag & 7} in a descriptor")


def compile_files(protoc, directory, names):
    """The serialized FileDescriptorProto of each file and of what it imports."""
    with tempfile.TemporaryDirectory() as scratch:
        older = pathlib.Path(scratch, "reflection_v1alpha.proto")
        text = pathlib.Path(directory, "reflection.proto").read_text()
        older.write_text(text.replace("package grpc.reflection.v1;",
                                      "package grpc.reflection.v1alpha;"))
        output = pathlib.Path(scratch, "set")
        subprocess.run([protoc, f"--descriptor_set_out={output}", "--include_imports",
                        f"-I{directory}", f"-I{scratch}", *names, older.name], check=True)
        return [content for _, content in fields(output.read_bytes())]


def file_name(descriptor):
    return next(value.decode() for number, value in fields(descriptor) if number == NAME_OF_FILE)


def main():
    protoc, output, directory, *names = sys.argv[1:]
    descriptors = compile_files(protoc, directory, names)
    lines = ['/* Made by proto/embed_descriptors.py. */',
             '#include "grpc/rpc_descriptors.h"', '']
    for index, descriptor in enumerate(descriptors):
        lines.append(f"static const unsigned char file_{index}[] = {{")
        for at in range(0, len(descriptor), BYTES_PER_LINE):
            lines.append("        " + " ".join(f"{byte}," for byte in
                                               descriptor[at:at + BYTES_PER_LINE]))
        lines += ["};", ""]
    lines.append("const struct rpc_descriptor rpc_descriptors[] = {")
    for index, descriptor in enumerate(descriptors):
        lines.append(f'        {{ "{file_name(descriptor)}", file_{index}, '
                     f"sizeof(file_{index}) }},")
    lines += ["};", "",
              "const size_t rpc_n_descriptors = "
              "sizeof(rpc_descriptors) / sizeof(rpc_descriptors[0]);", ""]
    pathlib.Path(output).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
