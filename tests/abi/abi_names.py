# SPDX-License-Identifier: BSD-3-Clause
"""Reads the names of the C API out of the headers, the export map and the lists of this folder."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADERS = ["tritonserver.h", "tritonbackend.h", "tritonrepoagent.h", "tritoncache.h", "neso.h"]

# "TRITONSERVER_DECLSPEC struct TRITONSERVER_Error *TRITONSERVER_ApiVersion(uint32_t *major, ...);"
PROTOTYPE = re.compile(
    r"^TRITON[A-Z]+_(?P<whose>DECLSPEC|ISPEC)\s+(?P<result>[\w\s]+?[\s*]+)"
    r"(?P<name>(?:TRITON[A-Z]+|NESO)_\w+)\((?P<parameters>[^)]*)\);",
    re.M)


class Function:
    def __init__(self, match):
        self.name = match["name"]
        self.is_of_plugin = match["whose"] == "ISPEC"
        self.result = " ".join(match["result"].split())
        parameters = match["parameters"].strip()
        self.n_parameters = 0 if parameters in ("", "void") else parameters.count(",") + 1

    def returns_error(self):
        return "TRITONSERVER_Error *" in self.result


def header_functions(root=ROOT):
    functions = []
    for header in HEADERS:
        with open(os.path.join(root, "include", "triton", "core", header)) as file:
            functions += [Function(m) for m in PROTOTYPE.finditer(file.read())]
    return functions


def list_file(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read().split()


def map_names(root=ROOT):
    with open(os.path.join(root, "src", "api", "exports.map")) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return re.findall(r"\b([A-Z]+_\w+);", text)
