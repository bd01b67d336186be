# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages, and the completion of bash: both are made from the tables of options."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, require_build

PAGES = {"neso": [], "neso-serve": ["serve"], "neso-check": ["check"], "neso-ctl": ["ctl"],
         "neso-bench": ["bench"], "neso-tune": ["tune"]}
MACROS = {".TH", ".SH", ".SS", ".TP", '.\\"'}


def neso(*arguments):
    require_build(())
    ended = subprocess.run([BUILD / "neso", *arguments], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=20, check=False)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def manual(page):
    code, text, err = neso("manual", *PAGES[page])
    assert (code, err) == (0, "")
    return text


def entries(text):
    """Names of options -> their paragraphs, as a reader sees them."""
    found = {}
    for head, paragraph in re.findall(r"^\.TP\n(.*)\n(.*)$", text, re.M):
        plain = re.sub(r"\\f[BIR]", "", head).replace("\\-", "-")
        if plain.startswith("--"):
            name = re.split("[ =]", plain)[0]
            assert name not in found
            found[name] = (plain, paragraph.replace("\\-", "-").replace("\\e", "\\"))
    return found


# ---- manual pages -------------------------------------------------------------------------------


def test_every_option_of_serve():
    rows = re.findall(r"^\| `(--\S+)(.*?)` \| (.*?) \| (.*) \|$", neso("options")[1].replace(r"\|", "!"),
                      re.M)
    assert len(rows) > 120
    found = entries(manual("neso-serve"))
    assert list(found) == [name for name, *_ in rows]
    for name, argument, default, reported in rows:
        head, paragraph = found[name]
        assert head == (name + argument).replace("!", "|")
        reported = reported.replace(" *Not supported yet.*", "").replace("!", "|")
        assert paragraph.startswith(reported), name
        assert (f" Default: {default}." in paragraph) == (default != ""), name


@pytest.mark.parametrize("command", ["check", "ctl", "bench", "tune"])
def test_every_option_of_the_others(command):
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+\S*)", neso(command, "--help")[1], re.M)
    assert len(listed) > 7
    assert [head for head, _ in entries(manual(f"neso-{command}")).values()] == listed


def test_every_command():
    text = manual("neso")
    for command in re.findall(r"^  (\w+) ", neso("help")[1], re.M):
        assert f"\n.TP\n\\fB{command}\\fR\n" in text
    for page in ("serve", "check", "ctl", "bench", "tune"):
        assert f"\\fBneso\\-{page}\\fR(1)" in text
    words = re.findall(r"^  (\w+) +(?:MODEL|\[MODEL\]|[a-z])", neso("ctl", "--help")[1], re.M)
    assert "index" in words and "infer" in words
    for word in words:
        assert f"\n.TP\n\\fB{word}\\fR" in manual("neso-ctl")


@pytest.mark.parametrize("page", PAGES)
def test_language_of_pages(page):
    """Known macros, known escapes, no bare dash, and a heading of its own."""
    text = manual(page)
    assert re.search(f'^\\.TH {page.upper()} 1 "" "neso [0-9.]+" "Neso"$', text, re.M)
    assert text.index(".SH NAME\n") < text.index(".SH SYNOPSIS\n") < text.index(".SH DESCRIPTION\n")
    for line in text.splitlines():
        assert line and not line.startswith("'")
        if line.startswith("."):
            assert line.split()[0] in MACROS, line
        else:
            assert not re.search(r"\\(?!-|f[BIR]|&|e)", line), line
            assert not re.search(r"(?<!\\)-", line), line
            assert len(re.findall(r"\\f[BI]", line)) == len(re.findall(r"\\fR", line)), line


@pytest.mark.parametrize("page", PAGES)
def test_groff_has_no_complaint(page):
    if not shutil.which("groff"):
        pytest.skip("groff is not there")
    ended = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=manual(page).encode(),
                           capture_output=True, timeout=20, check=True)
    assert ended.stderr == b"" and b"SYNOPSIS" in re.sub(rb".\x08|\x1b\[[0-9;]*m", b"", ended.stdout)


def test_pages_that_are_not_there():
    pages = "manual [serve | check | ctl | bench | tune]"
    for words, usage, culprit in ((["manual", "version"], pages, "version"), (["manual", "ctl", "x"], pages, "x"),
                                  (["endpoints", "--jso"], "endpoints [--json]", "--jso"),
                                  (["endpoints", "--json", "x"], "endpoints [--json]", "x"),
                                  (["version", "x"], "version", "x"), (["--version", "x"], "version", "x"),
                                  (["completion", "zsh"], "completion", "zsh")):
        command = usage.split()[0]
        assert neso(*words) == (1, "", f"neso {command}: unexpected argument '{culprit}'\nUsage: neso {usage}\n")


def test_what_is_installed():
    reported = subprocess.run(["meson", "introspect", "--installed", BUILD], check=True,
                          capture_output=True, timeout=60).stdout
    installed = {source: place for source, place in json.loads(reported).items()
                 if "/share/" in source}
    places = [f"/share/man/man1/{page}.1" for page in PAGES] + \
        ["/share/bash-completion/completions/neso"]
    for place in places:
        [source] = [s for s, p in installed.items() if p.endswith(place)]
        name = place.rpartition("/")[2]
        expected = manual(name[:-2]) if name.endswith(".1") else neso("completion")[1]
        assert open(source, encoding="utf-8").read() == expected


# ---- completion ---------------------------------------------------------------------------------

ASK = r"""
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_neso
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(name="complete", scope="module")
def complete_fixture(tmp_path_factory):
    if not shutil.which("bash"):
        pytest.skip("bash is not there")
    script = tmp_path_factory.mktemp("completion") / "neso"
    script.write_text(neso("completion")[1])

    def complete(*words, cwd=None):
        """What bash offers for the last word; an equal sign is a word of its own for it."""
        ended = subprocess.run(["bash", "--norc", "-c", ASK, "bash", script, *words],
                               capture_output=True, timeout=20, check=True, cwd=cwd)
        assert ended.stderr == b""
        return ended.stdout.decode().split()
    return complete


@pytest.mark.parametrize("words, offered", [
    (["neso", "c"], ["check", "ctl"]),
    (["neso", "serve", "--log-fo"], ["--log-format="]),
    (["neso", "serve", "--model-st"], ["--model-store="]),
    (["neso", "serve", "--hel"], ["--help"]),
    (["/usr/bin/tritonserver", "--http-po"], ["--http-port="]),
    (["neso", "--http-po"], ["--http-port="]),
    (["neso", "serve", "--log-format", "="], ["default", "ISO8601", "json"]),
    (["neso", "serve", "--log-format", "=", "js"], ["json"]),
    (["neso", "serve", "--id", "=", "x", "--rate-limit", "=", "e"], ["execution_count"]),
    (["neso", "serve", "--model-control-mode", "ex"], ["explicit"]),
    (["tritonserver", "--grpc-infer-response-compression-level", "="],
     ["none", "low", "medium", "high"]),
    (["neso", "serve", "--allow-http", "=", "f"], ["false"]),
    (["neso", "serve", "--http-port", "="], []),
    (["neso", "serve", "--sagemaker-p"], ["--sagemaker-port="]),
    (["neso", "check", "--mod"], ["--model-config-name="]),
    (["neso", "ctl", "st"], ["stats", "stacks"]),
    (["neso", "ctl", "infer", "--z"], ["--zeros"]),
    (["neso", "ctl", "index", "--z"], []),
    (["neso", "ctl", "index", "--json", "--re"], ["--ready"]),
    (["neso", "bench", "--protocol", "="], ["http", "grpc"]),
    (["neso", "bench", "--trace"], []),
    (["neso", "version", "x"], []),
])
def test_completion(complete, words, offered):
    assert complete(*words) == offered


def test_completion_of_files(complete, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "more.json").touch()
    offered = complete("neso", "serve", "--model-repository", "=", "mo", cwd=tmp_path)
    assert sorted(offered) == ["models", "more.json"]
    assert complete("neso", "ctl", "load", "m", "--config", "mor", cwd=tmp_path) == ["more.json"]
    assert complete("neso", "check", "mo", cwd=tmp_path) == ["models"]


def test_every_option_is_completed(complete):
    names = {line.split("`")[1].split()[0] for line in neso("options")[1].splitlines()
             if line.startswith("| `--") and "*Not supported yet.*" not in line}
    offered = {name.rstrip("=") for name in complete("neso", "serve", "--")}
    assert len(offered) > 110 and offered == names


def test_completion_is_registered(complete, tmp_path):
    del complete  # only for bash to be there
    (tmp_path / "neso").write_text(neso("completion")[1])
    ended = subprocess.run(["bash", "--norc", "-c", "source ./neso; complete -p neso tritonserver"],
                           cwd=tmp_path, capture_output=True, timeout=20, check=True)
    assert ended.stdout == b"complete -F _neso neso\ncomplete -F _neso tritonserver\n"


# ---- output that is lost ------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("version",), ("--help",), ("help", "bench"), ("options",), ("manual", "ctl"),
                                       ("endpoints", "--json"), ("completion",)])
def test_output_that_cannot_be_written(arguments):
    """A script must not take a file that a full disk has cut for a whole one."""
    require_build(())
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([BUILD / "neso", *arguments], stdin=subprocess.DEVNULL, stdout=full,
                               stderr=subprocess.PIPE, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"neso: unable to write all of the output\n")
