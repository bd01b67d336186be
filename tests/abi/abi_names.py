# SPDX-License-Identifier: BSD-3-Clause
"""The functions of the C API as the public headers declare them, and the lists of this folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "tools"))

import api_functions  # noqa: E402 pylint: disable=wrong-import-position


def header_functions():
    return api_functions.functions_of_folder(os.path.join(ROOT, "include", "triton", "core"))


def exported_functions():
    """Those that libtritonserver.so has to define; plug-ins define the others."""
    return [function for function in header_functions() if not function.is_of_plugin]


def list_file(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read().split()
