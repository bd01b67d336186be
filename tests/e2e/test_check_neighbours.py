# SPDX-License-Identifier: BSD-3-Clause
"""`neso check` and models that need others: those beside a model that is checked by itself, stages of chains,
and models of other namespaces."""
import pytest

from chain_models import adding, ensemble, pipe
from conftest import write_repository
from test_check import check

MODELS = {"A": adding(1, "B", out="A_OUT"), "B": adding(10, out="B_OUT"), "pipe": pipe("B,B"),
          "line": ensemble(("A", "A_OUT"), ("B", "B_OUT")), "outer": ensemble(("line", "OUT"))}
FP32 = adding(10, out="B_OUT").replace("TYPE_INT32", "TYPE_FP32")


@pytest.mark.parametrize("model", MODELS)
def test_neighbours_that_fit(tmp_path, model):
    write_repository(tmp_path, MODELS)
    code, out, err = check(tmp_path / model)
    assert (code, err) == (0, "")
    # The neighbours are read, and not reported on.
    assert [line for line in out.splitlines() if ": ok" in line] == [f"{model}: ok, versions 1"]


def test_the_working_directory(tmp_path, monkeypatch):
    write_repository(tmp_path, {**MODELS, "B": FP32})
    monkeypatch.chdir(tmp_path / "line")
    code, _, err = check(".")
    assert code == 1 and err.startswith("./config.pbtxt:7:42: ") and "inconsistent data type" in err


@pytest.mark.parametrize("models, model, place, message", [
    ({"B": FP32}, "line", "7:42", "in ensemble line, ensemble tensor between_1: inconsistent data type: "
     "TYPE_INT32 is inferred from model A while TYPE_FP32 is inferred from model B"),
    ({"B": adding(10)}, "line", "7:85", "in ensemble line, ensemble tensor OUT is mapped from non-existing "
     "output B_OUT in model B"),
    ({"B": adding(10, out="B_OUT", batch=4)}, "outer", None,
     None),  # the mistake is the inner ensemble's
    ({"line": ensemble(("A", "A_OUT"), ("gone", "OUT"))}, "line", "7:8",
     "ensemble line contains models that are not available or ambiguous: gone"),
    ({"line": ensemble(("A", "A_OUT"), ("outer", "OUT"))}, "line", "5:1",
     "circular dependency between ensembles: line -> outer -> line"),
    ({"A": adding(1, "gone")}, "A", "6:1",
     "next model 'gone' of model 'A' is neither loaded nor in a model repository"),
    ({"A": adding(1, "B:7")}, "A", "6:1", "next model 'B' of model 'A' has no version 7 loaded"),
    ({"pipe": pipe("A,gone,B")}, "pipe", "2:1",
     "stage 'gone' of model 'pipe' is neither loaded nor in a model repository"),
    ({"B": adding(10, "A", out="B_OUT")}, "A", "6:1", "chain of model 'A' is circular: A -> B -> A"),
], ids=["type", "output", "of the inner one", "step", "cycle", "next", "version", "stage", "chain cycle"])
def test_neighbours_that_do_not_fit(tmp_path, models, model, place, message):
    write_repository(tmp_path, {**MODELS, **models})
    code, _, err = check("--quiet", tmp_path / model)
    if message is None:
        assert (code, err) == (0, "")
        assert check(tmp_path)[0] == 1
        return
    assert code == 1
    assert err.startswith(f"{tmp_path}/{model}/config.pbtxt:{place}: ") and err.endswith(f": {message}\n")


@pytest.mark.parametrize("models, message", [
    ({"A": adding(1, "gone")}, "next model 'gone' of model 'A' is neither loaded nor in a model repository"),
    ({"pipe": pipe("A,gone")}, "stage 'gone' of model 'pipe' is neither loaded nor in a model repository"),
], ids=["next", "stages"])
def test_stages_of_a_repository(tmp_path, models, message):
    write_repository(tmp_path, {**MODELS, **models})
    code, _, err = check("--quiet", tmp_path)
    assert code == 1 and err.endswith(f": {message}\n") and len(err.splitlines()) == 1


@pytest.mark.parametrize("what", ["repository", "model"])
@pytest.mark.parametrize("namespace, model, message", [
    # Its B is an ensemble there, whose step is a model of that repository.
    ("there", "B", None),
    ("there", "wrong", "between_1: inconsistent data type: TYPE_INT32 is inferred from model A while "
     "TYPE_FP32 is inferred from model {root}/there::wrong"),
    ("there", "gone", "ensemble line contains models that are not available or ambiguous: gone"),
    ("here", "B", "between_1: inconsistent data type: TYPE_INT32 is inferred from model A while "
     "TYPE_FP32 is inferred from model {root}/here::B"),
    # Of a server elsewhere: what is there cannot be seen.
    ("nowhere", "B", None),
], ids=["fits", "does not fit", "missing", "its own", "out of sight"])
def test_namespaces(tmp_path, what, namespace, model, message):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    line = MODELS["line"].replace('model_name: "B"',
                                  f'model_name: "{model}" model_namespace: "{tmp_path / namespace}"')
    write_repository(here, {**MODELS, "B": FP32, "line": line})
    write_repository(there, {"B": ensemble(("inner", "OUT"), out="B_OUT"), "inner": adding(5),
                             "wrong": FP32})
    code, _, err = check("--quiet", here if what == "repository" else here / "line")
    if message is None:
        assert (code, err) == (0, "")
    else:
        assert code == 1 and len(err.splitlines()) == 1 and err.endswith(
            message.format(root=tmp_path) + "\n")
        assert err.startswith(f"{here}/line/config.pbtxt:")
