# SPDX-License-Identifier: BSD-3-Clause
"""`neso check` of models whose instance groups take certain batch sizes only."""
import json
import subprocess

from conftest import BUILD, write_repository

BACKENDS = ("identity",)
GROUPS = 'instance_group [ { name: "b1" }, { name: "b4" count: 2 }, { name: "b8" } ]\n'
GOOD = """\
backend: "identity"
max_batch_size: 8
input { name: "A" data_type: TYPE_FP32 dims: 1 }
output { name: "A" data_type: TYPE_FP32 dims: 1 }
"""


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def ranges(text):
    return GOOD + GROUPS + parameter("batch_ranges", text)


def check(folder, config, *options):
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    write_repository(folder, {"m": config})
    return subprocess.run([BUILD / "neso", "check", folder, *options], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False, text=True)


def test_the_plan_is_printed(tmp_path):
    ended = check(tmp_path, ranges("b1:1-1,b4:4-4,b8:8-8"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("executions for each number of rows:\n"
                                 "  1: 1\n  2: 1,1\n  3: 1,1,1\n  4: 4\n  5: 4,1\n  6: 4,1,1\n"
                                 "  7: 4,1,1,1\n  8: 8\n")
    ended = check(tmp_path, ranges("b1:1-1,b4:4-4,b8:8-8"), "--json")
    plan = json.loads(ended.stdout)["models"][0]["batch_plan"]
    assert plan == ["1", "1,1", "1,1,1", "4", "4,1", "4,1,1", "4,1,1,1", "8"]


def test_32_the_plan_has_each_number_of_rows_up_to_the_largest_batch(tmp_path):
    config = ranges("b1:1-1,b4:4-6,b8:9-16").replace("max_batch_size: 8", "max_batch_size: 16")
    ended = check(tmp_path, config, "--json")
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)["models"][0]["batch_plan"]
    assert plan == ["1", "1,1", "1,1,1", "4", "5", "6", "6,1", "4,4", *map(str, range(9, 17))]


def test_what_waits_is_printed(tmp_path):
    ended = check(tmp_path, ranges("b1:4-4,b4:4-4,b8:8-8") + parameter("partial", "wait"))
    assert ended.returncode == 0, ended.stderr
    assert "\n  3: 3 wait\n  4: 4\n  5: 4, 1 waits\n" in ended.stdout


def test_plain_models_have_no_plan(tmp_path):
    ended = check(tmp_path, GOOD)
    assert ended.returncode == 0, ended.stderr
    assert "executions for each number of rows" not in ended.stdout


def test_34_35_mistakes_name_their_group_and_line(tmp_path):
    for config, said in (
            (ranges("b1:1-1,b4:5-4"), "6:1: batch range 5-4 of instance group 'b4' of model m: "
                                      "its end is before its beginning"),
            (ranges("b4:0-4"), "6:1: batch range 0-4 of instance group 'b4' of model m: "
                               "it must begin at 1 or more"),
            (ranges("b9:1-1"), "6:1: parameter 'batch_ranges' names the instance group 'b9', which "
                               "model m does not have"),
            (ranges("b8:8-9"), "6:1: batch range 8-9 of instance group 'b8' of model m: "
                               "it is beyond max_batch_size"),
            (ranges("b1:4-8,b4:4-4,b8:8-8"), "6:1: cannot serve batch size 1 (smallest member "
                                             "minimum is 4): instance group 'b1' of model m"),
            (ranges("b1:1-1,b4:4-4,b8:8-8").replace("max_batch_size: 8", "max_batch_size: 16"),
             "6:1: batch range 8-8 of instance group 'b8' of model m reaches furthest, but "
             "max_batch_size is 16"),
            (ranges("b1:1-1,b4:4-4,b8:8-8").replace("max_batch_size: 8", "max_batch_size: 0"),
             "6:1: batch range 1-1 of instance group 'b1' of model m: the model does not batch "
             "(max_batch_size is 0)")):
        ended = check(tmp_path, config)
        assert ended.returncode == 1
        assert f"m/config.pbtxt:{said}\n" in ended.stderr


def test_36_torchpipe_spelling(tmp_path):
    ended = check(tmp_path, GOOD + parameter("batch_min", "1&8") + parameter("batch_max", "1&8")
                  + parameter("instance_num", "2"), "--json")
    model = json.loads(ended.stdout)["models"][0]
    assert [(g["name"], g["count"]) for g in model["config"]["instance_group"]] == [("m0", 2),
                                                                                    ("m1", 2)]
    assert model["batch_plan"] == ["1", *(",".join("1" * n) for n in range(2, 8)), "8"]
