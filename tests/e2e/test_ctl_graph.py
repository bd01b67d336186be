# SPDX-License-Identifier: BSD-3-Clause
"""`neso ctl graph`: the steps of ensembles and chains."""
import json
import subprocess

from chain_models import adding, ensemble, line_of_three, pipe, unload
from conftest import BUILD
from models import EXPLICIT

MODELS = line_of_three(
    line=ensemble(("A", "A_OUT"), ("B", "B_OUT"), ("A", "A_OUT")), pipe=pipe("A,C"),
    alone=adding(1))
OPTIONS = (*EXPLICIT, "--load-model=*")
BACKENDS = ("testing",)


def graph(server, *arguments):
    ended = subprocess.run([BUILD / "neso", "ctl", "graph", *arguments, f"--url={server.url}"],
                           capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def rows(text):
    return [line.split() for line in text.splitlines() if line]


def test_an_ensemble(server):
    code, out, err = graph(server, "line")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["ensemble", "line"], ["STEP", "MODEL", "VERSION"], ["1", "A", "latest"],
        ["2", "B", "latest"], ["3", "A", "latest"], ["FROM", "TO"], ["client.IN", "1:A.IN"],
        ["1:A.A_OUT", "2:B.IN"], ["2:B.B_OUT", "3:A.IN"], ["3:A.A_OUT", "client.OUT"]]


def test_a_chain(server):
    code, out, err = graph(server, "B")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["chain", "B"], ["STEP", "MODEL", "VERSION", "READY"], ["1", "B", "1", "yes"],
        ["2", "C", "1", "yes"], ["FROM", "TO"], ["client", "1:B"], ["1:B", "2:C"],
        ["2:C", "client"]]
    assert rows(graph(server, "pipe")[1])[2:4] == [["1", "A", "1", "yes"], ["2", "C", "1", "yes"]]


def test_graphviz(server):
    code, out, err = graph(server, "line", "--dot")
    assert (code, err) == (0, "")
    assert out == """digraph "line" {
  rankdir=LR;
  node [shape=box];
  request [shape=ellipse];
  response [shape=ellipse];
  step1 [label="A"];
  step2 [label="B"];
  step3 [label="A"];
  request -> step1 [label="IN"];
  step1 -> step2 [label="A_OUT : IN"];
  step2 -> step3 [label="B_OUT : IN"];
  step3 -> response [label="A_OUT : OUT"];
}
"""
    assert "step1 -> step2;" in graph(server, "A", "--dot")[1]


def test_json_and_refusals(server):
    assert [s["name"] for s in json.loads(graph(server, "A", "--json")[1])["stages"]] == list("ABC")
    assert graph(server, "alone") == (1, "", "neso ctl: no chain begins with model 'alone'\n")
    code, _, err = graph(server, "nobody")
    assert code == 1 and "nobody" in err


def test_a_stage_that_is_not_there(server):
    assert unload(server, "C") == (200, "")
    assert rows(graph(server, "A")[1])[4] == ["3", "C", "-", "no"]
    assert 'step3 [label="C", style=dashed];' in graph(server, "A", "--dot")[1]
