# SPDX-License-Identifier: BSD-3-Clause
"""The dashboard without a browser: its files and their headers, its data, who may read them, and
--allow-dashboard=false. tests/browser has the page itself."""
import gzip
import hashlib
import json
import pathlib
import re
import urllib.error
import urllib.request

import pytest

from conftest import Server, require_build, write_repository

IDENTITY = ('backend: "identity"\nmax_batch_size: 8\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] }\n')
BROKEN = 'backend: "there_is_none"\n' + IDENTITY.split("\n", 1)[1]
# The OpenAI endpoints speak to it: what comes in as text goes out as text.
ECHO = ('backend: "identity"\n'
        'input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }\n'
        'input { name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] optional: true }\n'
        'output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }\n')
MODELS = {"one": IDENTITY, "two": IDENTITY, "broken": BROKEN, "echo": ECHO}
BACKENDS = ("identity",)
OPTIONS = ("--model-control-mode=explicit", "--load-model=one", "--load-model=two",
           "--load-model=echo")

# The order of enum dashboard_number, of what the tests look at.
REQUESTS, EXECUTIONS, ROWS, INSTANCES, P50, TOTAL, MEANS, N_NUMBERS = 0, 5, 6, 11, 13, 28, 30, 35
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def fetch(server, path, headers=None, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


def infer(server, model, n=1):
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2],
                                   "data": [1, 2]}]}).encode()
    for _ in range(n):
        assert fetch(server, f"/v2/models/{model}/infer", body=body).status == 200


def look(server, since=0, log=0, headers=None):
    answer = fetch(server, f"/v2/dashboard?since={since}&log={log}", headers)
    assert answer.status == 200, answer.body
    return answer.json()


def rows_of(answer):
    return {row[0]: row[1:] for row in answer["rows"]}


def id_of(answer, name):
    return next(model[0] for model in answer["models"] if model[1] == name)


# ---- the page ------------------------------------------------------------------------------------


def files_of(page):
    return re.findall(r'(?:src|href)="(/dashboard/[^"]+)"', page)


def test_the_page_and_all_that_it_names_are_there_with_a_strict_policy(server):
    page = fetch(server, "/dashboard")
    names = files_of(page.body.decode())
    assert len(names) == 4
    scripts = [fetch(server, name).body.decode() for name in names if name.endswith("app.js")]
    modules = {"/dashboard/" + name for script in scripts
               for name in re.findall(r'from "\./(\w+\.js)"', script)}
    assert len(modules) == 8
    for path in ["/dashboard", *names, *modules, "/dashboard/infer.js", "/dashboard/graph.js"]:
        answer = fetch(server, path)
        assert answer.status == 200, path
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-cache"
        kind = {"js": "text/javascript", "css": "text/css"}.get(path.rsplit(".", 1)[-1], "text/html")
        assert answer.headers["Content-Type"] == kind + "; charset=utf-8"


def test_the_page_names_nothing_elsewhere_and_has_nothing_inline(server):
    page = fetch(server, "/dashboard").body.decode()
    assert "http://" not in page and "https://" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)


def test_a_file_comes_packed_and_is_not_sent_again(server):
    plain = fetch(server, "/dashboard/app.js")
    packed = fetch(server, "/dashboard/app.js", {"Accept-Encoding": "br;q=1, gzip;q=0.5"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert plain.headers["Content-Encoding"] is None
    assert "Content-Encoding" not in fetch(server, "/dashboard/app.js", {"Accept-Encoding": "gzip;q=0"}).headers

    tag = plain.headers["ETag"]
    for known in (tag, "W/" + tag, f'"other", {tag}'):
        again = fetch(server, "/dashboard/app.js", {"If-None-Match": known})
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == tag
    assert fetch(server, "/dashboard/app.js", {"If-None-Match": '"other"'}).body == plain.body


def test_our_scripts_are_small(server):
    names = ["api", "app", "detail", "dom", "graph", "infer", "model", "plot", "table"]
    assert sum(len(fetch(server, f"/dashboard/{name}.js").body) for name in names) < 60 << 10


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/none.js", "/dashboard/../src"])
def test_other_paths_are_unknown(server, path):
    assert fetch(server, path).status == 404


def test_the_page_is_read_and_not_written(server):
    answer = fetch(server, "/dashboard", body=b"{}")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")


# ---- its data ------------------------------------------------------------------------------------


def test_all_models_are_there_then_what_changed(server):
    first = look(server)
    assert first["full"] is True
    states = {model[1]: model[2:4] for model in first["models"]}
    assert states["one"] == ["1", "READY"] and states["two"] == ["1", "READY"]
    assert states["broken"] == ["", ""]
    row = rows_of(first)[id_of(first, "one")]
    assert len(row) == N_NUMBERS and row[INSTANCES] == 1

    infer(server, "one", 5)
    changed, seq = [], first["seq"]
    # A reading is shared for 0.9 s: the next one is a question of when.
    while not changed:
        answer = look(server, seq)
        assert answer["full"] is False and answer["boot"] == first["boot"]
        changed = [(key, row) for key, row in rows_of(answer).items() if row[REQUESTS] > 0]
        seq = answer["seq"]
    [(key, row)] = changed
    assert key == id_of(first, "one")
    assert row[REQUESTS] == row[EXECUTIONS] == row[ROWS] == 5
    assert row[TOTAL] >= 5 and row[P50] > 0
    assert row[MEANS] > 0 and row[MEANS] >= row[MEANS + 3]  # a request lasts no shorter than its inference


def test_the_server_is_there(server):
    ports = {name: (connections, loops) for name, connections, loops in look(server)["server"]["ports"]}
    assert set(ports) == {"http", "grpc", "metrics"}
    assert ports["http"][0] >= 1 and ports["http"][1] >= 1
    state = look(server)["server"]
    assert state["rss_bytes"] > 1 << 20 and state["cpu_us"] > 0
    assert 0 <= state["budget_used"] < state["budget_max"]


def test_a_failed_load_leaves_its_reason_and_a_line_of_the_log(server):
    before = look(server)
    assert fetch(server, "/v2/repository/models/broken/load", body=b"{}").status >= 400
    reasons = []
    seq = before["seq"]
    while not reasons:
        answer = look(server, seq, before["log"][-1][0] if before["log"] else 0)
        reasons = [model[4] for model in answer["models"] if model[1] == "broken" and model[3]]
        seq = answer["seq"]
    assert "there_is_none" in reasons[0]
    assert any("there_is_none" in line[4] and line[2] == "error" for line in look(server)["log"])


def test_the_history_begins_with_the_server(server):
    infer(server, "two", 3)
    for path in ("/v2/dashboard?history=", "/v2/dashboard?history=two&version=1"):
        history = fetch(server, path).json()
        assert history["period_s"] == 5 and len(history["samples"]) <= 180
    answer = fetch(server, "/v2/dashboard?history=none&version=1")
    assert (answer.status, answer.json()["error"]) == (
        404, "the dashboard knows no version '1' of 'none'")


@pytest.mark.parametrize("query, text", [
    ("since=x", "'since' takes a number, got 'x'"),
    ("log=-1", "'log' takes a number, got '-1'"),
    ("sinse=1", "'sinse' is not a parameter of the dashboard"),
    ("history=%ff", "'history' is not percent-encoded UTF-8"),
])
def test_a_wrong_question_is_refused_with_its_mistake(server, query, text):
    answer = fetch(server, "/v2/dashboard?" + query)
    assert (answer.status, answer.json()["error"]) == (400, text)


def language_models(server, headers=None):
    answer = fetch(server, "/v2/dashboard?language_models=", headers)
    assert answer.status == 200, answer.body
    return answer.json()


def complete(server, n, headers=None):
    body = json.dumps({"model": "echo", "prompt": "hello"}).encode()
    for _ in range(n):
        answer = fetch(server, "/v1/completions", headers, body)
        assert (answer.status, answer.json()["choices"][0]["text"]) == (200, "hello")


def test_language_models_report_what_they_counted(server):
    before = language_models(server)
    assert before["models"] == []
    assert before["bounds_s"][0] == 0.001 and before["bounds_s"][-1] == 60
    complete(server, 2)
    body = json.dumps({"model": "echo", "prompt": "hello", "stream": True}).encode()
    assert b"hello" in fetch(server, "/v1/completions", body=body).body
    after = language_models(server)
    assert after["now_ms"] > before["now_ms"]
    [[name, version, first, between, whole, *counts]] = after["models"]
    assert (name, version) == ("echo", 1)
    for times in (first, between, whole):
        assert len(times) == 1 + len(after["bounds_s"]) + 1
    assert (sum(first[1:]), sum(between[1:]), sum(whole[1:])) == (1, 0, 3)
    assert 0 < first[0] <= whole[0] < 60
    # Prompt and generated tokens, of which this model reports none; ends by stop, length, tool calls, other, error.
    assert counts == [0, 0, 3, 0, 0, 0, 0]


# ---- who may -------------------------------------------------------------------------------------


def line(name, groups, models=""):
    return f"{name} {hashlib.sha256(f'key of {name}'.encode()).hexdigest()} {groups} {models}\n"


def key(name):
    return {"X-Api-Key": f"key of {name}"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    require_build(BACKENDS)
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "models").mkdir()
    write_repository(folder / "models", {"one": IDENTITY, "two": IDENTITY, "echo": ECHO})
    keys = folder / "keys"
    keys.write_text(line("all", "*") + line("metadata", "metadata") + line("infer", "inference")
                    + line("one", "*", "one"))
    keys.chmod(0o600)
    server = Server(folder / "models", [f"--api-key-file={keys}"])
    yield server
    assert server.stop() == 0


def test_the_files_need_no_key(keyed):
    for path in ("/dashboard", "/dashboard/app.js", "/dashboard/uPlot.min.css"):
        assert fetch(keyed, path).status == 200
    assert fetch(keyed, "/dashboard/none").status == 404


def test_the_data_needs_a_key_that_grants_metadata(keyed):
    answer = fetch(keyed, "/v2/dashboard")
    assert (answer.status, answer.json()["error"]) == (
        401, "an API key that grants 'metadata' is required")
    answer = fetch(keyed, "/v2/dashboard", key("infer"))
    assert (answer.status, answer.json()["error"]) == (
        403, "the API key does not grant 'metadata'")
    assert "log" not in look(keyed, headers=key("metadata"))
    assert look(keyed, headers=key("all"))["log"] is not None


def test_a_key_of_one_model_sees_one_model_and_no_log(keyed):
    answer = look(keyed, headers=key("one"))
    assert [model[1] for model in answer["models"]] == ["one"]
    assert set(rows_of(answer)) == {id_of(answer, "one")}
    assert "log" not in answer
    assert fetch(keyed, "/v2/dashboard?history=one&version=1", key("one")).status == 200
    answer = fetch(keyed, "/v2/dashboard?history=two&version=1", key("one"))
    assert (answer.status, answer.json()["error"]) == (
        404, "the dashboard knows no version '1' of 'two'")


def test_a_key_of_one_model_sees_no_other_language_model(keyed):
    complete(keyed, 1, {"Authorization": "Bearer key of all"})
    assert [model[0] for model in language_models(keyed, key("all"))["models"]] == ["echo"]
    assert language_models(keyed, key("one"))["models"] == []
    assert fetch(keyed, "/v2/dashboard?language_models=").status == 401


def test_a_restricted_group_hides_the_log(tmp_path):
    write_repository(tmp_path, {"one": IDENTITY})
    server = Server(tmp_path, ["--http-restricted-api=logging:x=y"])
    try:
        assert "log" not in look(server)
    finally:
        assert server.stop() == 0


# ---- without it ----------------------------------------------------------------------------------


def test_without_it_its_paths_are_unknown(tmp_path):
    write_repository(tmp_path, {"one": IDENTITY})
    server = Server(tmp_path, ["--allow-dashboard=false"])
    try:
        unknown = fetch(server, "/none")
        assert unknown.status == 404
        for path in ("/dashboard", "/dashboard/app.js", "/v2/dashboard", "/v2/dashboard?since=1"):
            for body in (None, b"{}"):
                answer = fetch(server, path, body=body)
                assert (answer.status, answer.body) == (404, unknown.body)
        threads = [(path / "comm").read_text().strip()
                   for path in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()]
        assert not [name for name in threads if "dashboard" in name]
    finally:
        assert server.stop() == 0
