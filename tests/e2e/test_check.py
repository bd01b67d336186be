# SPDX-License-Identifier: BSD-3-Clause
"""`neso check`: each mistake is found where it is, and what is right is printed as it takes effect."""
import json
import os
import re
import subprocess

import pytest

from conftest import BUILD, Server, require_build, write_repository

BACKENDS = ("identity", "testing")
AGENTS = f"--repoagent-directory={BUILD / 'repoagents'}"

# A configuration that is right, in parts that the mistakes replace. Its lines count from 1.
GOOD = """\
name: "m"
backend: "identity"
max_batch_size: 8
input {
  name: "A"
  data_type: TYPE_FP32
  dims: [ 2, 3 ]
}
output {
  name: "A"
  data_type: TYPE_FP32
  dims: [ 2, 3 ]
}
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
}
instance_group [
  { kind: KIND_CPU count: 1 }
]
"""

# What it is called, what is replaced by what (nothing: appended), where, what is said.
BATCHING = "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}"

MISTAKES = [
    ("misspelt field", "max_batch_size: 8", "max_batchsize: 8", "3:1",
     "message 'ModelConfig' has no field named 'max_batchsize'; did you mean 'max_batch_size'?"),
    ("behind letters of several bytes", 'backend: "identity"',
     'backend: "identity" parameters { key: "äö€" valu: { } }', "2:45",
     "has no field named 'valu'; did you mean 'value'?"),
    ("misspelt field within", "  dims: [ 2, 3 ]\n}\noutput", "  dim: [ 2, 3 ]\n}\noutput", "7:3",
     "message 'ModelInput' has no field named 'dim'; did you mean 'dims'?"),
    ("text for a number", "max_batch_size: 8", 'max_batch_size: "8"', "3:17",
     "field 'max_batch_size'"),
    ("number for a text", 'name: "m"', "name: 5", "1:7", "a string in quotes"),
    ("number too large", "max_batch_size: 8", "max_batch_size: 8000000000", "3:17",
     "8000000000"),
    ("wrong enum name", "input {\n  name: \"A\"\n  data_type: TYPE_FP32",
     "input {\n  name: \"A\"\n  data_type: TYPE_FLOAT32", "6:14",
     "has no value 'TYPE_FLOAT32'"),
    ("misspelt enum name", "KIND_CPU", "KIND_CPV", "18:11", "did you mean 'KIND_CPU'?"),
    ("missing brace", "instance_group [\n  { kind: KIND_CPU count: 1 }\n]\n",
     "instance_group {\n  kind: KIND_CPU\n", "19:1",
     "a field name or '}' to end field 'instance_group' of line 17"),
    ("brace too many", None, "}\n", "20:1", "expected a field name"),
    ("string without end", 'name: "m"', 'name: "m', "1:7", "string is not terminated"),
    ("field given twice", None, "max_batch_size: 4\n", "20:1",
     'non-repeated field "max_batch_size" is specified multiple times'),
    ("batching and sequences", None, "sequence_batching { }\n", "20:1",
     'field "sequence_batching" is specified along with field "dynamic_batching"'),
    ("dimension of 0", "dims: [ 2, 3 ]\n}\noutput", "dims: [ 2, 0 ]\n}\noutput", "7:14",
     "model input 'A' dimension must be integer >= 1, or -1"),
    ("dimension below -1", "dims: [ 2, 3 ]\n}\ndynamic", "dims: [ 2, -2 ]\n}\ndynamic", "12:14",
     "model output 'A' dimension must be integer >= 1, or -1"),
    ("input twice", None, 'input { name: "A" data_type: TYPE_FP32 dims: 1 }\n', "20:9",
     "input 'A' is specified more than once for m"),
    ("output twice", None, 'output { name: "A" data_type: TYPE_FP32 dims: 1 }\n', "20:10",
     "output 'A' is specified more than once for m"),
    ("preferred size of 0", "[ 4, 8 ]", "[ 0, 8 ]", "15:27",
     "dynamic batching preferred size must be positive for m"),
    ("preferred size too large", "[ 4, 8 ]", "[ 4, 16 ]", "15:30",
     "dynamic batching preferred size must be <= max batch size for m"),
    ("negative batch size", "max_batch_size: 8", "max_batch_size: -1", "3:1",
     "'max_batch_size' must be non-negative value for m"),
    ("unknown backend", '"identity"', '"idendity"', "2:1",
     "unable to find backend library for backend 'idendity', try specifying runtime on the model "
     "configuration. Did you mean 'identity'?"),
    ("other platform", None, 'platform: "ensemble"\n', "2:1",
     "Ensemble model 'm' must have platform type 'ensemble' and empty backend type"),
    ("reshape of another size", "  dims: [ 2, 3 ]\n}\noutput",
     "  dims: [ 2, 3 ]\n  reshape { shape: [ 5 ] }\n}\noutput", "8:13",
     "model input 'A' has different size for dims and reshape for m"),
    ("reshape of other variables", "  dims: [ 2, 3 ]\n}\ndynamic",
     "  dims: [ -1, 3 ]\n  reshape {\n    shape: [ -1, -1 ]\n  }\n}\ndynamic", "14:5",
     "model output 'A' has different number of variable-size dimensions for dims and reshape"),
    ("versions that are not there", None, "version_policy { specific { versions: 7 } }\n", "20:1",
     "at least one version must be available under the version policy of model 'm'"),
    ("two version policies", None, "version_policy { all { } latest { num_versions: 1 } }\n",
     "20:26", 'field "latest" is specified along with field "all"'),
    ("GPU without one", "KIND_CPU", "KIND_GPU", "18:5",
     "instance group m_0 of model m has kind KIND_GPU but no GPUs are available"),
    ("GPUs of a CPU group", "count: 1", "count: 1 gpus: [ 0 ]", "18:29",
     "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"),
    ("missing label file", "  dims: [ 2, 3 ]\n}\ndynamic",
     '  dims: [ 2, 3 ]\n  label_filename: "labels.txt"\n}\ndynamic', "13:3",
     "labels.txt"),
    ("label file outside", "  dims: [ 2, 3 ]\n}\ndynamic",
     '  dims: [ 2, 3 ]\n  label_filename: "../labels.txt"\n}\ndynamic', "13:3",
     "label file path '../labels.txt' for output 'A' in model 'm' is outside model directory"),
    ("state that clients give as well", BATCHING,
     "sequence_batching {\n  state { input_name: \"A\" output_name: \"O\" data_type: TYPE_FP32 dims: 1 }\n}",
     "15:11", "model 'm': 'A' is an input and a state input of sequence_batching"),
    ("state that is not zeros at first, but a file that is not there", BATCHING,
     "sequence_batching {\n  state { input_name: \"I\" output_name: \"O\" data_type: TYPE_FP32 dims: 1\n"
     "    initial_state { name: \"i\" data_type: TYPE_FP32 dims: 1 data_file: \"none\" } }\n}",
     "16:60", "failed to open the initial state 'none' of state 'I'"),
    ("state that grows without a GPU", BATCHING,
     "sequence_batching {\n  state { input_name: \"I\" output_name: \"O\" data_type: TYPE_FP32 dims: -1\n"
     "    use_same_buffer_for_input_output: true\n    use_growable_memory: true }\n}",
     "17:5", "'use_growable_memory' can only work with KIND_GPU model instances right now. Please "
     "either change the instance type to KIND_GPU or set 'use_growable_memory' to false for state "
     "input 'I'."),
    ("inline execution of no such kind", None,
     'parameters { key: "a" value { string_value: "b" } }\n'
     'parameters { key: "inline_execution" value { string_value: "soon" } }\n', "21:1",
     "parameter 'inline_execution' of model 'm' must be 'auto', 'never' or 'always', got 'soon'"),
    ("batching library outside", None,
     'parameters {\n  key: "TRITON_BATCH_STRATEGY_PATH"\n  value { string_value: "../x.so" }\n}\n',
     "20:1", "Batching library path escapes model repository."),
    ("batching library that is not there", None,
     'parameters {\n  key: "TRITON_BATCH_STRATEGY_PATH"\n  value { string_value: "x.so" }\n}\n',
     "20:1", "Batching library path not found: "),
    ("warm-up of an unknown input", None,
     'model_warmup {\n  name: "w"\n  batch_size: 1\n  inputs {\n    key: "B"\n'
     '    value { data_type: TYPE_FP32 dims: [ 2, 3 ] zero_data: true }\n  }\n}\n', "23:3",
     "warmup sample 'w' has the input 'B', which the model 'm' does not have"),
    ("warm-up of another type", None,
     'model_warmup {\n  name: "w"\n  batch_size: 1\n  inputs {\n    key: "A"\n'
     '    value { data_type: TYPE_INT8 dims: [ 2, 3 ] zero_data: true }\n  }\n}\n', "23:3",
     "warmup sample 'w' has data type TYPE_INT8 for input 'A' of the model 'm', which has "
     "TYPE_FP32"),
    ("warm-up of any size", None,
     'model_warmup {\n  name: "w"\n  batch_size: 1\n  inputs {\n    key: "A"\n'
     '    value {\n      data_type: TYPE_FP32\n      dims: [ -1, 3 ]\n      zero_data: true\n'
     '    }\n  }\n}\n', "27:7",
     "warmup setting expects all variable-size dimensions are specified for input 'A'"),
    ("warm-up without an input", None, 'model_warmup { name: "w" batch_size: 1 }\n', "20:1",
     "warmup sample 'w' lacks the input 'A' of the model 'm'"),
    ("warm-up file that is not there", None,
     'model_warmup {\n  name: "w"\n  batch_size: 1\n  inputs {\n    key: "A"\n    value {\n'
     '      data_type: TYPE_FP32\n      dims: [ 2, 3 ]\n      input_data_file: "raw"\n    }\n'
     "  }\n}\n", "28:7", "failed to open warmup file 'raw'"),
    ("name of another directory", 'name: "m"', 'name: "n"', "1:1",
     "unexpected directory name 'm' for model 'n', directory name must equal model name"),
    ("batch input of nothing", None,
     'batch_input {\n  kind: BATCH_ELEMENT_COUNT\n  target_name: "C"\n'
     '  data_type: TYPE_FP32\n  source_input: "Z"\n}\n', "24:3",
     "unknown source input name 'Z' for m"),
    ("priority out of range", "preferred_batch_size: [ 4, 8 ]",
     "priority_levels: 2\n  default_priority_level: 3", "16:3",
     "default priority level must be in range [1, 2] for m"),
    ("delay that overtakes", "preferred_batch_size: [ 4, 8 ]",
     "preserve_ordering: true\n  priority_levels: 2\n  default_priority_level: 1", "15:3",
     "Only one priority level is allowed when 'preserve_ordering' is true for m"),
    ("cache of a decoupled model", None,
     "model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }\n", "21:1",
     "Response Cache does not currently support model m with 'decoupled' transaction policy"),
    ("unknown agent", None,
     'model_repository_agents {\n  agents { name: "checksum" }\n  agents { name: "checksun" }\n}\n',
     "22:12", "unable to find the library of repository agent 'checksun' for model 'm', searched: "),
    ("agent without a name", None,
     'model_repository_agents {\n  agents {\n    parameters { key: "MD5" value: "0" }\n  }\n}\n',
     "21:3", "model 'm' asks for a repository agent without a name"),
    ("agent that leads elsewhere", None,
     'model_repository_agents {\n  agents [ { name: "../checksum" } ]\n}\n', "21:14",
     "repository agent name '../checksum' of model 'm' leads out of the repository agent directory"),
    ("format of the OpenAI API that is not known", None,
     'parameters { key: "openai_format" value { string_value: "vlm" } }\n', "20:1",
     "the parameter 'openai_format' of model 'm' is 'vlm', but must be 'vllm', 'trtllm', "),
    ("format of the OpenAI API without its inputs", None,
     'parameters { key: "openai_format" value { string_value: "vllm" } }\n', "20:1",
     "the parameter 'openai_format' of model 'm' is 'vllm', but the model has no input 'text_input'"),
    ("sequence control without values", "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}",
     'sequence_batching {\n  control_input {\n    name: "START"\n'
     "    control { kind: CONTROL_SEQUENCE_START }\n  }\n}", "17:5",
     "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
     "'bool_false_true' for CONTROL_SEQUENCE_START for m"),
]


def check(*arguments):
    require_build(BACKENDS)
    ended = subprocess.run([BUILD / "neso", "check", *map(str, arguments)], timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def seeded(old, new):
    if old is None:
        return GOOD + new
    assert GOOD.count(old) >= 1, old
    return GOOD.replace(old, new, 1)


def test_good(tmp_path):
    write_repository(tmp_path, {"m": GOOD})
    code, out, err = check(tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith("m: ok, versions 1\n{\n")
    config = json.loads(out.split("\n", 1)[1])
    assert config["instance_group"] == [{
        "name": "m_0", "kind": "KIND_CPU", "count": 1, "gpus": [], "secondary_devices": [],
        "profile": [], "passive": False, "host_policy": ""}]
    assert config["version_policy"] == {"latest": {"num_versions": 1}}  # nobody wrote it
    assert check(tmp_path, "--quiet") == (0, "", "")


@pytest.mark.parametrize("old,new,place,text", [row[1:] for row in MISTAKES],
                         ids=[row[0].replace(" ", "-") for row in MISTAKES])
def test_mistake(tmp_path, old, new, place, text):
    write_repository(tmp_path, {"m": seeded(old, new)})
    code, out, err = check(tmp_path)
    assert (code, out) == (1, "")
    file = tmp_path / "m" / "config.pbtxt"
    lines = [line for line in err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, err
    assert lines[0].startswith(f"{file}:{place}: "), err
    assert text in lines[0], err
    # The directory of the model says the same.
    assert check(tmp_path / "m") == (code, out, err)


def test_libraries_that_are_there(tmp_path):
    agents = 'model_repository_agents { agents { name: "checksum" } agents { name: "other" } }\n'
    batching = ('parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { '
                'string_value: "1/mine.so" } }\n')
    write_repository(tmp_path / "models", {
        "agents": GOOD.replace('"m"', '"agents"') + agents,
        "batching": {"config.pbtxt": GOOD.replace('"m"', '"batching"') + batching,
                     "1/mine.so": "nobody opens it"},
        "unused": GOOD.replace('"m"', '"unused"').replace(
            "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}\n", "") + batching})
    code, _, err = check(tmp_path / "models", "--quiet")
    assert code == 1 and err.startswith(f"{tmp_path}/models/agents/config.pbtxt:20:")
    assert len(err.splitlines()) == 1 and "'other'" in err
    for name in ("checksum", "other"):
        library = tmp_path / "agents" / name / f"libtritonrepoagent_{name}.so"
        library.parent.mkdir(parents=True)
        library.write_text("nobody opens it")
    assert check(tmp_path / "models", "--quiet",
                 f"--repoagent-directory={tmp_path / 'agents'}") == (0, "", "")


def test_misspelt_agent_gets_a_suggestion(tmp_path):
    write_repository(tmp_path, {
        "m": GOOD + 'model_repository_agents { agents { name: "checksun" } }\n'})
    code, _, err = check(tmp_path, "--quiet")
    assert code == 1 and err.endswith(" Did you mean 'checksum'?\n")


def test_there_are_enough_mistakes():
    assert len(MISTAKES) >= 30 and len({row[0] for row in MISTAKES}) == len(MISTAKES)


def test_all_of_one_configuration(tmp_path):
    """Mistakes that do not hide each other are said at once, in the order of the file."""
    text = seeded("[ 4, 8 ]", "[ 4, 16 ]").replace("KIND_CPU", "KIND_GPU")
    text = text.replace('"identity"', '"idendity"').replace("dims: [ 2, 3 ]", "dims: [ 0 ]")
    write_repository(tmp_path, {"m": text})
    code, _, err = check(tmp_path)
    file = tmp_path / "m" / "config.pbtxt"
    assert code == 1
    assert [line.removeprefix(str(file)).split(": ")[0] for line in err.splitlines()] == [
        ":2:1", ":7:11", ":12:11", ":15:30", ":18:5"]


def test_repository_of_several(tmp_path):
    write_repository(tmp_path, {"bad": "backend: 5\n", "m": GOOD, ".hidden": "nonsense"})
    (tmp_path / "file").write_text("no model")
    code, out, err = check(tmp_path)
    assert code == 1
    assert err.startswith(f"{tmp_path}/bad/config.pbtxt:1:10: ") and err.count("\n") == 1
    assert out.startswith("m: ok, versions 1\n")


def test_json(tmp_path):
    write_repository(tmp_path, {"bad": seeded("KIND_CPU", "KIND_GPU").replace('"m"', '"bad"'),
                                "m": GOOD})
    code, out, err = check(tmp_path, "--json")
    assert (code, err) == (1, "")
    report = json.loads(out)
    assert report["path"] == str(tmp_path) and report["is_model"] is False
    bad, good = report["models"]
    assert bad == {
        "name": "bad", "directory": f"{tmp_path}/bad", "file": f"{tmp_path}/bad/config.pbtxt",
        "problems": [{
            "severity": "error", "file": f"{tmp_path}/bad/config.pbtxt", "line": 18, "column": 5,
            "field": "instance_group[0].kind",
            "message": "instance group bad_0 of model bad has kind KIND_GPU but no GPUs are "
                       "available"}]}
    assert good["problems"] == [] and good["versions"] == [1]
    assert good["config"]["backend"] == "identity"


def test_warnings_are_no_errors(tmp_path):
    write_repository(tmp_path, {"m": GOOD})
    (tmp_path / "m" / "007").mkdir()
    code, out, err = check(tmp_path)
    assert code == 0 and out.startswith("m: ok, versions 1\n")
    assert err == (f"{tmp_path}/m: warning: ignore version directory '007' which contains leading "
                   "zeros in its directory name\n")


def test_without_configuration(tmp_path):
    (tmp_path / "model.identity" / "1").mkdir(parents=True)
    code, out, err = check(tmp_path)
    assert (code, err) == (0, "") and out.startswith("model.identity: ok, versions 1\n")
    assert check(tmp_path, "--disable-auto-complete") == (
        1, "", f"{tmp_path}/model.identity: there is no config.pbtxt, and auto-completion is "
        "disabled\n")


def test_incomplete_tensors(tmp_path):
    """A backend may complete them, unless it is told not to."""
    write_repository(tmp_path, {"m": seeded("  dims: [ 2, 3 ]\n}\noutput", "}\noutput")})
    assert check(tmp_path, "--quiet") == (0, "", "")
    code, _, err = check(tmp_path, "--disable-auto-complete")
    assert code == 1
    assert err == (f"{tmp_path}/m/config.pbtxt:4:1: model input 'A' must specify 'dims' for m\n")


def test_named_configuration(tmp_path):
    write_repository(tmp_path, {"m": {"config.pbtxt": GOOD,
                                      "configs/small.pbtxt": seeded("[ 2, 3 ]", "[ 0 ]")}})
    assert check(tmp_path, "--quiet")[0] == 0
    code, _, err = check(tmp_path, "--model-config-name=small")
    assert code == 1 and err.startswith(f"{tmp_path}/m/configs/small.pbtxt:7:11: ")


def test_load(tmp_path):
    tensors = GOOD[GOOD.index("input {"):GOOD.index("dynamic_batching")]
    write_repository(tmp_path, {
        "good": GOOD.replace('"m"', '"good"'),
        "unlucky": 'backend: "testing"\n' + tensors
                   + 'parameters { key: "fail_load" value { string_value: "no luck" } }\n',
        "wrong": seeded("[ 2, 3 ]", "[ 0 ]").replace('"m"', '"wrong"'),
    })
    code, out, err = check(tmp_path, "--load")
    assert code == 1
    assert out.startswith("good: loads, versions 1\n")
    wrong, unlucky = sorted(err.splitlines(), reverse=True)
    assert unlucky.startswith(f"{tmp_path}/unlucky: load failed for model 'unlucky': version 1 is "
                              "at UNAVAILABLE state: "), err
    assert "no luck" in unlucky
    assert wrong.startswith(f"{tmp_path}/wrong/config.pbtxt:7:11: ")
    code, out, err = check(tmp_path / "unlucky", "--load", "--json")
    assert (code, err) == (1, "")
    model = json.loads(out)["models"][0]
    assert model["problems"] == [] and "no luck" in model["load_error"]
    assert json.loads(check(tmp_path / "good", "--load", "--json")[1])["models"][0]["loaded"] is True


def test_load_that_an_agent_refuses(tmp_path):
    """No version is begun, and the server tells clients no more than that; check says why."""
    write_repository(tmp_path, {"m": GOOD + """\
model_repository_agents {
  agents { name: "checksum" parameters { key: "MD5:config.pbtxt" value: "0123" } }
}
"""})
    assert check(tmp_path, AGENTS)[0] == 0
    code, _, err = check(tmp_path, "--load", AGENTS)
    assert code == 1
    assert err.startswith(f"{tmp_path}/m: failed to load 'm', failed to poll from model repository: "
                          "repository agent 'checksum' does not let model 'm' be loaded: "), err
    assert "config.pbtxt" in err[len(f"{tmp_path}/m"):] and "0123" in err


def ensemble_of(step):
    tensor = 'data_type: TYPE_FP32 dims: [ -1 ] }'
    return f"""platform: "ensemble"
input {{ name: "X" {tensor}
output {{ name: "Y" {tensor}
ensemble_scheduling {{
  step {{
    model_name: "{step}" model_version: -1
    input_map {{ key: "X" value: "X" }} output_map {{ key: "Y" value: "Y" }}
  }}
}}
"""


def test_ensembles_that_need_each_other(tmp_path):
    """Told with the model that closes the circle."""
    write_repository(tmp_path, {"a": ensemble_of("b"), "b": ensemble_of("c"),
                                "c": ensemble_of("a"), "d": ensemble_of("a")})
    code, _, err = check(tmp_path)
    assert code == 1
    circles = [line for line in err.splitlines() if "circular" in line]
    assert circles[0] == (f"{tmp_path}/c/config.pbtxt:4:1: circular dependency between ensembles: "
                          "c -> a -> b -> c")
    assert [line.split(": ", 2)[1] for line in circles[1:]] == [
        "circular dependency between ensembles"]  # d leads into it


def test_ensembles_as_the_server(tmp_path):
    """Right by themselves or not, check and the server agree."""
    write_repository(tmp_path, {"e": """\
platform: "ensemble"
input { name: "A" data_type: TYPE_FP32 dims: 1 }
output { name: "B" data_type: TYPE_FP32 dims: 1 }
ensemble_scheduling {
  step {
    model_name: "m"
    input_map { key: "A" value: "X" }
    output_map { key: "A" value: "B" }
  }
}
"""})
    code, _, err = check(tmp_path)
    assert code == 1
    assert err == (f"{tmp_path}/e/config.pbtxt:2:9: ensemble input 'A' for ensemble e' is not "
                   "used\n")


TENSORS = """\
input {{ name: "X" data_type: {type} dims: [ {dims} ] }}
output {{ name: "Y" data_type: {type} dims: [ {dims} ] }}
"""
STEP = 'backend: "identity"\n' + TENSORS.format(type="TYPE_FP32", dims="4")
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def ensemble(*steps, io=TENSORS.format(type="TYPE_FP32", dims="4")):
    """The steps are (model, input map, output map, what else), each on one line from line 5 on."""
    def entries(field, mapped):
        return "".join(f' {field} {{ key: "{key}" value: "{value}" }}'
                       for key, value in mapped.items())

    lines = [f'  step {{ model_name: "{model}"{entries("input_map", inputs)}'
             f'{entries("output_map", outputs)} {rest} }}'
             for model, inputs, outputs, rest in steps]
    return ('platform: "ensemble"\n' + io + "ensemble_scheduling {\n" + "\n".join(lines) + "\n}\n")


LATEST = "model_version: -1"
# What the ensemble e consists of besides the model m, which is right; where, what is said.
ENSEMBLE_MISTAKES = [
    ([("nosuch", {"X": "X"}, {"Y": "Y"}, LATEST)], {}, (5, "model_name"),
     "ensemble e contains models that are not available or ambiguous: nosuch"),
    ([("m", {"X": "X"}, {"Y": "T"}, LATEST), ("no", {"X": "T"}, {"Y": "U"}, LATEST),
      ("none", {"X": "U"}, {"Y": "Y"}, LATEST)], {}, (6, "model_name"),
     "ensemble e contains models that are not available or ambiguous: no, none"),
    ([("m", {"X": "X"}, {"Y": "Y"}, "model_version: 3")], {}, (5, "model_version"),
     "ensemble 'e' depends on 'm' whose required version 3 is not loaded."),
    ([("m", {"A": "X"}, {"Y": "Y"}, LATEST)], {}, (5, "input_map"),
     "in ensemble e, ensemble tensor X is mapping to non-existing input A in model m"),
    ([("m", {"X": "X"}, {"B": "Y"}, LATEST)], {}, (5, "output_map"),
     "in ensemble e, ensemble tensor Y is mapped from non-existing output B in model m"),
    ([("m", {"X": "X"}, {"Y": "T"}, LATEST), ("i", {"X": "T"}, {"Y": "Y"}, LATEST)],
     {"i": 'backend: "identity"\n' + TENSORS.format(type="TYPE_INT32", dims="4")}, (6, "input_map"),
     "in ensemble e, ensemble tensor T: inconsistent data type: TYPE_FP32 is inferred from model m "
     "while TYPE_INT32 is inferred from model i"),
    ([("m", {"X": "X"}, {"Y": "T"}, LATEST), ("i", {"X": "T"}, {"Y": "Y"}, LATEST)],
     {"i": 'backend: "identity"\n' + TENSORS.format(type="TYPE_FP32", dims="5")}, (6, "input_map"),
     "in ensemble e, ensemble tensor T: inconsistent shape: [4] is inferred from model m while [5] "
     "is inferred from model i"),
    ([("d", {"X": "X"}, {"Y": "T"}, LATEST),
      ("two", {"X": "X", "Z": "T"}, {"Y": "Y"}, LATEST)],
     {"d": STEP + DECOUPLED, "two": STEP + 'input { name: "Z" data_type: TYPE_FP32 dims: 4 }\n'},
     (6, 'input_map { key: "Z"'),
     "in ensemble e, step of model 'two' receives inputs originated from different decoupled models"),
]


@pytest.mark.parametrize("steps, models, place, message", ENSEMBLE_MISTAKES)
def test_ensemble_against_its_models(tmp_path, steps, models, place, message):
    write_repository(tmp_path, {"e": ensemble(*steps), "m": STEP, **models})
    number, text = place
    line = ensemble(*steps).splitlines()[number - 1]
    code, out, err = check(tmp_path)
    assert code == 1
    assert err == (f"{tmp_path}/e/config.pbtxt:{number}:{line.index(text) + 1}: {message}\n")
    assert "\nm: ok" in "\n" + out


def test_ensembles_that_double(tmp_path):
    """Each executes the one before it twice. Only the first that is too large has a mistake."""
    write_repository(tmp_path, {"e0": STEP, **{
        f"e{i}": ensemble((f"e{i - 1}", {"X": "X"}, {"Y": "T"}, LATEST),
                          (f"e{i - 1}", {"X": "T"}, {"Y": "Y"}, LATEST)) for i in range(1, 16)}})
    code, out, err = check(tmp_path)
    assert code == 1
    assert err == (f"{tmp_path}/e13/config.pbtxt:4:1: 'e13' executes 16382 models for a request, counting those of "
                   "its steps, at most 8192 are supported\n")
    assert "\ne12: ok" in out


def test_ensembles_that_fit(tmp_path):
    """Also over a model that its backend completes; whether an ensemble is decoupled follows from its
    steps."""
    line = ensemble(("m", {"X": "X"}, {"Y": "Y"}, LATEST))
    write_repository(tmp_path, {
        "e": line, "m": STEP, "d": STEP + DECOUPLED,
        "inner": ensemble(("d", {"X": "X"}, {"Y": "Y"}, LATEST)),
        "outer": ensemble(("inner", {"X": "X"}, {"Y": "T"}, LATEST),
                          ("m", {"X": "T"}, {"Y": "Y"}, "model_version: 1")),
        "bare": 'backend: "identity"\n',
        "over_bare": ensemble(("bare", {"X": "X"}, {"Y": "Y"}, LATEST)),
    })
    code, out, err = check(tmp_path, "--json")
    assert (code, err) == (0, "")
    decoupled = {m["name"]: m["config"].get("model_transaction_policy", {}).get("decoupled")
                 for m in json.loads(out)["models"]}
    assert decoupled == {"bare": None, "d": True, "e": False, "inner": True, "m": None,
                         "outer": True, "over_bare": False}


def test_paths(tmp_path):
    assert check(tmp_path) == (0, "", f"{tmp_path}: warning: there is no model in it\n")
    assert check(tmp_path / "nowhere") == (
        1, "", f"neso check: '{tmp_path}/nowhere' is not a directory\n")
    write_repository(tmp_path, {"1": GOOD.replace('"m"', '"1"')})  # a model may be called so
    assert check(tmp_path)[1].startswith("1: ok, versions 1\n")
    here = subprocess.run([BUILD / "neso", "check", "."], cwd=tmp_path / "1", timeout=60,
                          capture_output=True, check=False)
    assert here.returncode == 0 and here.stdout.startswith(b"1: ok, versions 1\n")


def test_control_characters_of_a_repository(tmp_path):
    """A terminal would obey them."""
    write_repository(tmp_path, {"m": GOOD + 'version_\x1b[2Jpolicy: 1\n', "n": 'backend: "\\033]0;a\\007"\n'})
    for more in (), ("--migrate",):
        code, out, err = check(tmp_path, *more)
        assert code == 1 and (more or "?]0;a?" in err)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", out + err), ascii(out + err)
    json.loads(check(tmp_path, "--json")[1])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    write_repository(tmp_path, {"m": GOOD})
    (tmp_path / "m" / "config.pbtxt").chmod(0)
    code, _, err = check(tmp_path)
    assert code == 1 and "config.pbtxt" in err and "Permission denied" in err


@pytest.mark.parametrize("arguments,text", [
    ((), "which repository, or which model? One directory is checked"),
    (("a", "b"), "which repository, or which model? One directory is checked"),
    (("a", "--lod"), "unknown option '--lod'; did you mean '--load'?"),
    (("a", "--json=1"), "--json takes no value"),
])
def test_usage(arguments, text):
    code, out, err = check(*arguments)
    assert (code, out) == (2, "")
    assert err == f"neso check: {text}\n`neso check --help` lists the options.\n"


def test_help():
    code, out, err = check("--help")
    assert (code, err) == (0, "")
    for option in ("--json", "--load", "--quiet", "--backend-directory", "--model-config-name",
                   "--disable-auto-complete"):
        assert f"  {option}" in out


def test_server_refuses_what_check_refuses(tmp_path):
    """Of the mistakes a load tells of, the text is the server's."""
    write_repository(tmp_path, {"m": seeded("[ 4, 8 ]", "[ 4, 16 ]")})
    text = check(tmp_path)[2].split(": ", 1)[1].strip()
    running = Server(tmp_path, ("--exit-on-error=false",))
    assert running.stop() == 0
    assert any(text in line for line in running.log), running.text()
