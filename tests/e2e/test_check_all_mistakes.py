# SPDX-License-Identifier: BSD-3-Clause
"""`neso check` goes on after a mistake: all of a file are reported, and nothing that only follows."""
import itertools

import pytest

from conftest import write_repository
from test_check import GOOD, MISTAKES, check

INPUT_END = "  dims: [ 2, 3 ]\n}\noutput"
OUTPUT_END = "  dims: [ 2, 3 ]\n}\ndynamic"
GROUP = "{ kind: KIND_CPU count: 1 }"

# Mistakes of the text itself: what is replaced, by what. Each is one.
SYNTAX = [(old, new) for _, old, new, _, _ in MISTAKES[:13]] + [
    ("max_batch_size: 8", "max_batch_size 8"),
    ("max_batch_size: 8", "max_batch_size = 8"),
    (INPUT_END, "  dims: [ 2, 3\n}\noutput"),
    (INPUT_END, "  dims: [ 2, 3 ]\noutput"),
    (OUTPUT_END, "  dims: [ 2, 3 ]\ndynamic"),
    (INPUT_END, "  dims: [ 2, 3 ]\n  max_batch_size: 3\n}\noutput"),
    ("[ 4, 8 ]", "[ 4 8 ]"),
    ("[ 4, 8 ]", "4, 8"),
    ("[ 4, 8 ]", "[ 4, 8, ]"),
    ("[ 4, 8 ]", "[ 4; 8 ]"),
    ("[ 4, 8 ]", "[ 4, 8 }"),
    ("[ 4, 8 ]\n}", "[ 4, 8 ]"),
    ("dynamic_batching {", "dynamic_batching"),
    ("dynamic_batching {", "// a comment for: others\ndynamic_batching {"),
    ("dynamic_batching {", "whatever { a: 5 b { c: [ 1, { } ] } }\ndynamic_batching {"),
    ("dynamic_batching {", "whatever {\n  a: 5\n  b { c: [ 1, { } ] }\ndynamic_batching {"),
    ("dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}", "dynamic_batching: true"),
    (GROUP, "{ kind: KIND_CPU count: 1"),
    (GROUP, "kind: KIND_CPU count: 1 }"),
    ("instance_group [\n", "instance_group \n"),
    ("count: 1 }\n]", "count: 1 }\n"),
    ("count: 1 }\n]", "count: 1 ]\n]"),
    ('"identity"', '"iden"tity"'),
    ('"m"', "my model"),
    ('"m"', "m"),
]

# Those that lie in the same brackets and leave open which of them is wrong.
AMBIGUOUS = {"{ kind: KIND_CPU count: 1", "instance_group \n", "count: 1 }\n", "count: 1 ]\n]",
             "[ 4, 8 }", "[ 4, 8 ]", "dynamic_batching", "}\n",
             "instance_group {\n  kind: KIND_CPU\n"}


def seed(mistakes):
    """The text; None when the mistakes are in each other's way."""
    text = GOOD
    for old, new in mistakes:
        if old is None:
            text += new
        elif old in text:
            text = text.replace(old, new, 1)
        else:
            return None
    # A string without an end hides what else is on its line.
    return None if '"iden"tity" parameters' in text else text


def reports(tmp_path, text):
    write_repository(tmp_path, {"m": text})
    code, out, err = check(tmp_path, "--quiet")
    assert (code, out) == (1, "")
    file = f"{tmp_path}/m/config.pbtxt:"
    lines = [line for line in err.splitlines() if ": warning: " not in line]
    assert all(line.startswith(file) for line in lines), err
    return [line.removeprefix(file) for line in lines]


def places(lines):
    return [tuple(map(int, line.split(":")[:2])) for line in lines]


def test_all_kinds_in_one_file(tmp_path):
    """An unknown field hides neither a bad enum value, nor a dimension of 0, nor a bracket."""
    assert reports(tmp_path, """\
name: "m"
backend: "identity"
max_batchsize: 8
input {
  name: "A"
  data_type: TYPE_FLOAT32
  dims: [ 2, 0 ]
}
output {
  name: "B"
  data_type: TYPE_FP32
  dims: [ 2, 3 ]
instance_group [
  { kind: KIND_GPU count: 1 }
]
""") == [
        "3:1: message 'ModelConfig' has no field named 'max_batchsize'; did you mean "
        "'max_batch_size'?",
        "6:14: enum 'DataType' of field 'data_type' has no value 'TYPE_FLOAT32'; did you mean "
        "'TYPE_FP32'?",
        "7:14: model input 'A' dimension must be integer >= 1, or -1 to indicate a variable-size "
        "dimension for m",
        "13:1: message 'ModelOutput' has no field named 'instance_group'; a '}' to end field "
        "'output' of line 9 may be missing",
        "14:5: instance group m_0 of model m has kind KIND_GPU but no GPUs are available"]


@pytest.mark.parametrize("index", range(len(SYNTAX)))
def test_two_mistakes(tmp_path, index):
    """A mistake, and each other one together with it: two reports, by line."""
    for k, other in enumerate(SYNTAX):
        text = seed((SYNTAX[index], other))
        if k <= index or text is None or (index + k) % 2:  # half of the pairs
            continue
        lines = reports(tmp_path / str(k), text)
        is_ambiguous = AMBIGUOUS.issuperset((SYNTAX[index][1], other[1]))
        assert len(lines) == 2 or (is_ambiguous and len(lines) == 1), (text, lines)
        assert places(lines) == sorted(places(lines))


def test_three_mistakes_are_no_more(tmp_path):
    """Of the text and of what validation finds."""
    rows = [(old, new) for _, old, new, _, _ in MISTAKES] + SYNTAX
    combinations = list(itertools.combinations(rows, 3))
    step = len(combinations) // 150
    n_checked = 0
    for i, mistakes in enumerate(combinations[::step]):
        text = seed(mistakes)
        if text is not None:
            lines = reports(tmp_path / str(i), text)
            assert 1 <= len(lines) <= 3, (text, lines)
            n_checked += 1
    assert n_checked > 75


@pytest.mark.parametrize("text,found", [
    # What depends on a value that was not read is not reported.
    (GOOD.replace("max_batch_size", "max_batchsize"), [(3, 1)]),
    (GOOD.replace('backend: "', 'bakend: "'), [(2, 1)]),
    (GOOD.replace('"m"', "5"), [(1, 7)]),
    (GOOD.replace("dims: [ 2, 3 ]", "dims: [ 2, x ]\n  reshape { shape: 7 }"),
     [(7, 14), (13, 14)]),
    (GOOD.replace("KIND_CPU count: 1", "KIND_CPX count: 1 gpus: 0"), [(18, 11)]),
    (GOOD.replace("input {", "inputs {"), [(4, 1)]),
    (GOOD.replace('"A"\n  data_type: TYPE_FP32', "5\n  data_type: TYPE_FP32", 1)
     + 'model_warmup { name: "w" batch_size: 1 inputs { key: "A" value { data_type: TYPE_FP32 '
       'dims: [ 2, 3 ] zero_data: true } } }\n', [(5, 9)]),
    # What does not is.
    (GOOD.replace("max_batch_size", "max_batchsize").replace("[ 2, 3 ]", "[ 2, 0 ]"),
     [(3, 1), (7, 14), (12, 14)]),
    (GOOD.replace("KIND_CPU", "KIND_GPU").replace('"m"', "5"), [(1, 7), (18, 5)]),
    (GOOD.replace("TYPE_FP32", "TYPE_FP33").replace('"identity"', '"idendity"'),
     [(2, 1), (6, 14), (11, 14)]),
])
def test_what_follows_is_left_out(tmp_path, text, found):
    assert places(reports(tmp_path, text)) == found


def test_many_mistakes_are_bounded(tmp_path):
    lines = []
    write_repository(tmp_path, {"m": GOOD + "foo: 1\n" * 1000})
    code, _, err = check(tmp_path, "--quiet")
    lines = err.splitlines()
    assert code == 1 and len(lines) == 21
    assert lines[0].startswith(f"{tmp_path}/m/config.pbtxt:20:1: ")
    assert lines[19].startswith(f"{tmp_path}/m/config.pbtxt:39:1: ")
    assert lines[20] == (f"{tmp_path}/m/config.pbtxt: there may be more mistakes: the check ended "
                          "early")
