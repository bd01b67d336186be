# SPDX-License-Identifier: BSD-3-Clause
"""docs/model_configuration.md has every field, and `neso check` accepts each configuration on it and prints the
mistakes that it shows."""
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, patience, write_repository
from pages import read

PAGE = read("model_configuration.md")
BLOCKS = re.findall(r"^```pbtxt\n(.*?)^```$", PAGE, re.M | re.S)
IO = """input {{ name: "{}" data_type: {} dims: [ {} ] }}
output {{ name: "{}" data_type: {} dims: [ {} ] }}
"""
FIRST = BLOCKS[0]
STEPS = {"tokenize": 'backend: "python"\nmax_batch_size: 8\n' + IO.format(
             "text", "TYPE_STRING", 1, "ids", "TYPE_INT64", 128),
         "classify": 'backend: "python"\nmax_batch_size: 8\n' + IO.format(
             "ids", "TYPE_INT64", 128, "scores", "TYPE_FP32", 2)}
# What the mistakes of the page are in.
MISTAKES = {"a": FIRST.replace("data_type", "datatype", 1),
            "b": FIRST.replace("\n", "\nmax_batch_size: 4\n", 1).replace("TYPE_FP32", "FP32", 1),
            "c": FIRST.replace("\n", "\nmax_batch_size: 4\n", 1) + "dynamic_batching { preferred_batch_size: [ 8 ] }\n"}


def check(folder, models):
    files = {"labels.txt": "", "1/model.py": "", "1/sum.py": "", "1/model.onnx": ""}
    write_repository(folder / "models", {name: {"config.pbtxt": text, **files} for name, text in models.items()})
    return subprocess.run([BUILD / "neso", "check", "--quiet", f"--backend-directory={BUILD / 'backends'}", "models"], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience(20), check=False)


def test_every_field():
    """As a word in a configuration, or in the code of a sentence or table."""
    shown = set(re.findall(r"\w+", " ".join([*BLOCKS, *re.findall(r"`([^`]+)`", PAGE.replace("```", ""))])))
    fields = re.findall(r"^ +(?:repeated )?[\w.<>, ]+ (\w+) = \d+;", (ROOT / "proto/model_config.proto").read_text(), re.M)
    values = re.findall(r"^ +([A-Z]\w+) = \d+;", (ROOT / "proto/model_config.proto").read_text(), re.M)
    assert len(fields) > 100 and "max_batch_size" in fields
    assert sorted({name for name in fields if name not in shown}) == []
    left_out = {"TYPE_INVALID", "TYPE_UINT16", "TYPE_UINT32", "TYPE_INT16", "TYPE_INT32"}  # "TYPE_INT8 to TYPE_INT64"
    assert sorted({name for name in values if name not in shown} - left_out) == []


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_configurations(tmp_path, number):
    """A part of a configuration is checked as a part of the first one."""
    text = BLOCKS[number]
    is_whole = re.search("^(backend|platform):", text, re.M)
    ended = check(tmp_path, {**STEPS, "m": text if is_whole else FIRST + text})
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout


def test_mistakes(tmp_path):
    [shown] = re.findall(r"^\$ neso check models\n(.*?)^```$", PAGE, re.M | re.S)
    ended = check(tmp_path, MISTAKES)
    assert (ended.returncode, ended.stdout) == (1, shown)
