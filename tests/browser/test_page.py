# SPDX-License-Identifier: BSD-3-Clause
"""What a person does with the dashboard: looks at models, loads and unloads them, infers, types a key."""
import hashlib
import json
import re
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zlib

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# A model of which the OpenAI endpoints ask: what comes in as text goes out as text.
ECHO = ('backend: "identity"\n'
        'input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }\n'
        'input { name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] optional: true }\n'
        'output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }\n')
NAME, STATE, RATE, MEAN, P50, P99, TOTAL, REASON = 0, 2, 3, 4, 5, 6, 11, 12


def config(dims="[ 2 ]", backend="identity", more=""):
    return (f'backend: "{backend}"\nmax_batch_size: 8\n'
            f'input {{ name: "INPUT0" data_type: TYPE_FP32 dims: {dims} }}\n'
            f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: {dims} }}\n{more}')


def step(model, source, target):
    return (f'step {{ model_name: "{model}" model_version: -1 '
            f'input_map {{ key: "INPUT0" value: "{source}" }} '
            f'output_map {{ key: "OUTPUT0" value: "{target}" }} }}')


ENSEMBLE = ('platform: "ensemble"\nmax_batch_size: 8\n'
            'input { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] }\n'
            'output { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] }\n'
            f'ensemble_scheduling {{ {step("plain", "IN", "MIDDLE")} {step("last", "MIDDLE", "OUT")} }}\n')
CHAINED = config(more='parameters { key: "next" value { string_value: "last" } }\n')
MODELS = {"plain": config(), "last": config(), "image": config("[ 3, 8, 8 ]"), "ensemble": ENSEMBLE,
          "chained": CHAINED, "sleeping": config(), "broken": config(backend="there_is_none"),
          "flat": config("[ 64 ]").replace("dims: [ 64 ] }\n", 'dims: [ 64 ] label_filename: "labels.txt" }\n')
          .replace('label_filename: "labels.txt" ', "", 1)}
LOADED = ("plain", "last", "image", "ensemble", "chained", "flat")


@pytest.fixture(scope="module")
def server(start):
    return start(MODELS, "--model-control-mode=explicit", *[f"--load-model={name}" for name in LOADED],
                 files={"flat/labels.txt": "".join(f"label {i}\n" for i in range(64))})


def post(server, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def get(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=60) as answer:
        return json.load(answer)


def infer(server, model, name="INPUT0"):
    post(server, f"/v2/models/{model}/infer",
         {"inputs": [{"name": name, "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})


class Load:
    """One client that sends requests while the block runs."""

    def __init__(self, server, *calls):
        self.server, self.calls = server, calls
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ends.wait(0.002):
            for call in self.calls:
                infer(self.server, *call)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def number(text):
    """Of "1.2 k" or "312"."""
    match = re.match(r"([\d.]+)( k| M)?$", text)
    return float(match.group(1)) * {None: 1, " k": 1e3, " M": 1e6}[match.group(2)] if match else 0


# ---- models ----


def test_the_models_are_listed_with_their_states(server, page):
    page.open(server)
    page.wait(lambda: page.state("plain") == ["READY"], "plain is ready")
    assert page.state("sleeping") == ["not loaded"]
    assert page.text("model-count") == "6 ready, 2 not loaded"
    assert "1 loop" in page.text("tiles") or "loops" in page.text("tiles")


def test_load_and_unload_by_clicks(server, page):
    page.open(server)
    page.choose("sleeping")
    assert page.id("with-dependents").accessible_name == "Unload also the models that only it needs"
    assert page.text("infer-none") == "Load the model to try it."
    page.click("act-load")
    page.wait(lambda: page.text("act-message") == "Load: done", "the load is done")
    page.wait(lambda: page.text("infer-none") == "", "there is a form")
    page.wait(lambda: page.state("sleeping") == ["READY"], "it is ready")
    page.wait(lambda: page.text("act-load") == "Reload", "the button reloads now")
    page.driver.execute_script("document.querySelector('#inputs fieldset').className = 'old'")
    page.click("act-load")
    page.wait(lambda: page.text("act-message") == "Reload: done", "the reload is done")
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#inputs fieldset:not(.old)"), "there is a new form")
    page.click("act-unload")
    page.wait(lambda: page.text("act-message") == "Unload: done", "the unload is done")
    page.wait(lambda: page.state("sleeping") == ["UNAVAILABLE"], "it is gone")
    # On purpose, and so not in the colour of failures; the focus is where it was.
    assert re.match(r"6 ready, (1 not loaded, )?1 unloaded", page.text("model-count"))
    assert colour(page, "tr[data-model=sleeping] .state") == colour(page, "#model-count")
    assert page.text("infer-none") == "Load the model to try it."
    assert get(server, "/v2/models/stats")["model_stats"]
    assert "sleeping" not in [m["name"] for m in get(server, "/v2/models/stats")["model_stats"]]


def colour(page, selector):
    return page.driver.execute_script(
        "return getComputedStyle(document.querySelector(arguments[0])).color", selector)


def focused(page):
    return page.driver.switch_to.active_element.get_attribute("id")


def test_an_unload_keeps_the_focus(server, page):
    post(server, "/v2/repository/models/sleeping/load", {})
    page.open(server)
    page.choose("sleeping")
    page.wait(lambda: page.id("act-unload").get_attribute("aria-disabled") == "false", "it can be unloaded")
    page.id("act-unload").send_keys(Keys.ENTER)
    page.wait(lambda: page.text("act-message") == "Unload: done", "the unload is done")
    assert focused(page) == "act-unload"
    page.wait(lambda: page.id("act-unload").get_attribute("aria-disabled") == "true", "once only")
    page.id("act-unload").send_keys(Keys.ENTER)
    assert page.text("act-message") == "Unload: done"


def test_an_unload_of_a_model_in_use_takes_a_second_step(server, page):
    page.open(server)
    page.choose("last")
    assert page.text("detail-title") == "last, version 1"
    question = page.id("unload-question")
    with Load(server, ("last",)):
        page.wait(lambda: number(page.cell("last", RATE)) > 1, "there is a rate")
        page.id("act-unload").send_keys(Keys.ENTER)
        assert question.is_displayed() and focused(page) == "unload-not"
        assert re.match(r"last gets [\d.]+( k)? requests/s. Unload anyway\?$", page.text("unload-rate"))
        page.id("unload-not").send_keys(Keys.ESCAPE)
        assert not question.is_displayed() and page.id("detail").is_displayed() and focused(page) == "act-unload"
        page.id("act-unload").send_keys(Keys.ENTER)
        page.id("unload-not").send_keys(Keys.ENTER)
        assert not question.is_displayed() and page.state("last") == ["READY"]
    page.click("act-unload")
    page.id("unload-anyway").send_keys(Keys.ENTER)
    page.wait(lambda: page.text("act-message") == "Unload: done", "the unload is done")
    assert focused(page) == "act-unload"
    post(server, "/v2/repository/models/last/load", {})


def lines_beside(page):
    """The number of the file's line beside each line of the configuration, "" for none."""
    return dict(page.driver.execute_script(
        "return [...document.querySelectorAll('#config .line')].map("
        "line => [line.nextSibling.textContent.trim(), line.dataset.line])"))


def test_a_load_with_parameters_changes_the_configuration(server, page):
    page.open(server)
    page.choose("image")
    page.wait(lambda: '"max_batch_size": 8' in page.text("config"), "the configuration is shown")
    assert page.text("config-source") == "Numbers are lines of config.pbtxt; what has none was filled in."
    beside, text = lines_beside(page), config("[ 3, 8, 8 ]").splitlines()
    assert "max_batch_size: 8" in text[int(beside['"max_batch_size": 8,']) - 1]
    assert "INPUT0" in text[int(beside['"name": "INPUT0",']) - 1]
    assert beside['"default_model_filename": "",'] == ""
    changed = {"backend": "identity", "max_batch_size": 3,
               "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [3, 8, 8]}],
               "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [3, 8, 8]}]}
    page.driver.execute_script("document.getElementById('load-parameters').value = arguments[0]",
                               json.dumps({"config": changed}))
    page.click("act-load-parameters")
    page.wait(lambda: page.text("act-message") == "Reload: done", "the load is done")
    page.wait(lambda: '"max_batch_size": 3' in page.text("config"), "the new configuration is shown")
    assert page.text("config-source") == "It came with a load request, or was made without a file."
    assert lines_beside(page)['"max_batch_size": 3,'] == ""
    page.driver.execute_script("document.getElementById('load-parameters').value = '{'")
    page.click("act-load-parameters")
    assert page.text("act-message").startswith("The parameters are not JSON: ")


def test_a_model_that_fails_to_load_shows_its_reason(server, page):
    page.refused(400, 500)
    page.open(server)
    page.choose("broken")
    page.click("act-load")
    page.wait(lambda: page.id("act-message").get_attribute("class") == "message bad", "the error")
    assert "broken" in page.text("act-message")
    page.wait(lambda: "there_is_none" in " ".join(page.driver.execute_script(
        "return [...document.querySelectorAll('tr[data-model=broken]')].map(r => r.textContent)")),
        "the reason stands in the row")
    page.wait(lambda: page.text("detail-state") == "UNAVAILABLE", "the reason is shown once")
    assert "there_is_none" in page.text("act-message")
    assert colour(page, "tr[data-model=broken] .state") == colour(page, "#act-message") != colour(page, "#model-count")
    assert colour(page, "tr[data-model=broken] .reason") == colour(page, "#act-message")
    assert page.text("model-count").endswith("1 failed")
    assert page.driver.execute_script(
        "return getComputedStyle(document.getElementById('act-message')).whiteSpace") == "pre-line"
    page.wait(lambda: "there_is_none" in page.text("log"), "the log has the error")
    page.screenshot("failed-load")


def test_a_line_of_the_log_is_shown_once(server, page):
    """An action asks for news while the page's own question is under way: both answers have the line."""
    with pytest.raises(urllib.error.HTTPError):
        post(server, "/v2/repository/models/broken/load", {})
    page.open(server)
    read = "return [...document.querySelectorAll('#log li')].map(e => e.textContent)"
    page.wait(lambda: page.driver.execute_script(read), "there is a line")
    lines = page.driver.execute_script(read)
    page.driver.execute_script("""
        const ask = window.fetch;
        window.looks = 0;
        window.fetch = (at, how) => {
          window.looks += String(at).includes("since=");
          return ask(String(at).replace(/log=\\d+/, "log=0"), how);
        };""")
    page.wait(lambda: page.driver.execute_script("return window.looks > 2"), "the page has asked again")
    assert page.driver.execute_script(read) == lines


def test_a_model_is_loaded_by_its_name(server, page):
    page.refused(500)
    page.open(server)
    page.id("load-name").send_keys("none_such", Keys.ENTER)
    page.wait(lambda: page.text("models-message").startswith("Load none_such: failed"), "the error")
    known = page.driver.execute_script(
        "return [...document.querySelectorAll('#known-models option')].map(option => option.value)")
    assert known == sorted(MODELS)
    page.id("load-name").send_keys(Keys.CONTROL, "a")
    page.id("load-name").send_keys(" ", Keys.ENTER)
    assert page.text("models-message") == "type a name" and focused(page) == "load-name"


def test_a_load_in_progress_is_shown(server, page):
    page.open(server)
    page.choose("image")
    page.driver.execute_script("""
        window.states = [];
        new MutationObserver(() => window.states.push(document.getElementById("detail-state").textContent))
            .observe(document.getElementById("detail-state"), {childList: true});""")
    page.click("act-load")
    page.wait(lambda: page.text("act-message") == "Reload: done", "the load is done")
    page.wait(lambda: page.text("detail-state") == "READY", "the state is shown again")
    assert page.driver.execute_script("return window.states")[0] == "Reloading …"


# ---- numbers ----


def test_rates_are_live_while_a_load_runs(server, page):
    page.open(server)
    with Load(server, ("plain",), ("ensemble", "IN")):
        page.choose("plain")
        page.wait(lambda: number(page.cell("plain", RATE)) > 1, "there is a rate")
        page.wait(lambda: page.cell("plain", P50) != "–", "there is a latency")
        page.wait(lambda: re.search(r"requests/s [1-9]", page.id("plot-rate").get_attribute("aria-label")),
                  "the plot has it")
        first = number(page.cell("plain", TOTAL))
        page.wait(lambda: number(page.cell("plain", TOTAL)) > first, "the total grows")
        phases = page.driver.execute_script(
            "return [...document.querySelectorAll('#phases td:nth-child(2)')].map(e => e.textContent)")
        assert "from buckets: right to a factor of two" in page.text("detail")
        assert len(phases) == 5 and re.match(r"[\d.]+ (µs|ms|s)$", phases[0])
        page.wait(lambda: re.match(r"(<10 µs|≈[\d.]+ (µs|ms|s))$", page.cell("plain", P99)), "from buckets: about")
        page.wait(lambda: re.match(r"[\d.]+ (µs|ms|s)$", page.cell("plain", MEAN)), "the mean is exact")
        page.click("detail-close")
        for _ in range(5):
            seen = page.cell("plain", TOTAL)
            page.wait(lambda: page.cell("plain", TOTAL) != seen, "time passes")
        page.driver.execute_script("window.scrollTo(0, 0)")
        page.screenshot("desktop")
    page.wait(lambda: page.cell("plain", RATE) == "0", "the rate ends")
    assert page.cell("plain", P50) == "–"


def test_a_page_that_is_opened_late_has_the_history(server, page):
    for _ in range(20):
        infer(server, "last")

    def has_sample():
        samples = get(server, "/v2/dashboard?history=last&version=1")["samples"]
        return any(sample and sample[0] >= 20 for sample in samples)

    page.wait(has_sample, "the sampler has taken a sample")
    page.open(server)
    page.wait(lambda: page.cell("last", RATE) == "0", "nothing runs now")
    page.choose("last")
    page.wait(lambda: re.search(r"requests/s 0.0, highest [1-9]",
                                page.id("plot-model-rate").get_attribute("aria-label") or ""),
              "the plot has the requests of before")


def test_a_latency_without_requests_is_a_gap(server, page):
    page.first_run("""
        let made;
        window.plots = {};
        Object.defineProperty(window, "uPlot", {get: () => made, set: kind => {
            made = class extends kind {
                constructor(options, data, box) {
                    super(options, data, box);
                    window.plots[box.id] = this;
                }
            };
        }});""")
    infer(server, "last")
    page.open(server)
    page.choose("last")
    page.wait(lambda: page.driver.execute_script("return Boolean(window.plots['plot-model-latency'])"),
              "there is a plot")
    page.wait(lambda: page.driver.execute_script(
        "return window.plots['plot-model-latency'].data[1].slice(-1)[0] === null"), "a gap, not zero")
    assert "50 % none" in page.id("plot-model-latency").get_attribute("aria-label")
    keys = page.driver.execute_script(
        "return [...document.querySelectorAll('figcaption .key')].map(e => e.textContent)")
    assert keys == ["cores", "MiB", "50 %", "95 %", "99 %"]
    labels = page.driver.execute_script("return window.plots['plot-rate'].axes[0]._values")
    assert len(set(labels)) == len(labels)
    assert labels and all(re.match(r"\d+:\d\d(:\d\d)?$", label) for label in labels), labels


# ---- inference ----


def set_input(page, name, value):
    page.driver.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event('change'))", name, value)


def is_in_view(page, name):
    return page.driver.execute_script(
        "const {top, bottom, height} = document.getElementById(arguments[0]).getBoundingClientRect();"
        "return height > 0 && top >= 0 && bottom <= window.innerHeight", name)


def infer_by_form(page):
    page.click("infer")
    page.wait(lambda: page.text("infer-time").startswith("answered in"), "there is an answer")
    return json.loads(page.text("answer"))


def open_form(page, server, model):
    page.open(server)
    page.choose(model)
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#inputs fieldset"), "there is a form")


def test_an_inference_by_form_and_its_two_copies(server, page):
    open_form(page, server, "plain")
    assert infer_by_form(page)["outputs"][0]["data"] == [0, 0]
    set_input(page, "in-INPUT0-way", "json")
    set_input(page, "in-INPUT0-json", "[1.5, -2]")
    assert infer_by_form(page)["outputs"][0]["data"] == [1.5, -2]
    by_curl = subprocess.run(["sh", "-c", page.text("as-curl")], check=True, capture_output=True).stdout
    assert json.loads(by_curl)["outputs"][0]["data"] == [1.5, -2]
    by_python = subprocess.run([sys.executable, "-c", page.text("as-python")], check=True, text=True,
                               capture_output=True).stdout
    assert by_python == "OUTPUT0 [1, 2] [1.5, -2.0]\n"
    set_input(page, "in-INPUT0-way", "random")
    values = infer_by_form(page)["outputs"][0]["data"]
    assert len(values) == 2 and all(0 <= value < 1 for value in values)


def test_a_wrong_input_is_reported(server, page):
    page.refused(400)
    open_form(page, server, "plain")
    set_input(page, "in-INPUT0-shape", "1,x")
    page.click("infer")
    page.wait(lambda: page.text("infer-error") == "the shape of INPUT0 is not a list of sizes", "the mistake")
    set_input(page, "in-INPUT0-shape", "1,2")
    page.size(1280, 400)
    page.driver.execute_script("window.scrollTo(0, 0)")
    assert not is_in_view(page, "highest")
    page.id("infer").send_keys(Keys.ENTER)
    page.wait(lambda: page.text("infer-time").startswith("answered in"), "there is an answer")
    assert is_in_view(page, "highest") and focused(page) == "infer"
    assert page.id("infer-result").is_displayed() and page.text("infer-error") == ""
    set_input(page, "in-INPUT0-shape", "1,3")
    page.click("infer")
    page.wait(lambda: "unexpected shape for input 'INPUT0'" in page.text("infer-error"), "the server's reason")
    assert page.text("infer-error").startswith("Refused (400): ") and is_in_view(page, "infer-error")
    assert not page.id("infer-result").is_displayed() and page.text("infer-time") == ""
    assert colour(page, "#infer-error") != colour(page, "#detail")
    set_input(page, "in-INPUT0-way", "json")
    page.click("infer")
    page.wait(lambda: page.text("infer-error") == "INPUT0: type 3 values", "nothing was typed")
    assert page.id("in-INPUT0-json").get_attribute("placeholder") == "3 values: [0, 0, …]"


def test_random_numbers_are_of_a_range(server, page):
    open_form(page, server, "plain")
    set_input(page, "in-INPUT0-way", "random")
    set_input(page, "in-INPUT0-from", "-8")
    set_input(page, "in-INPUT0-to", "-7")
    values = infer_by_form(page)["outputs"][0]["data"]
    assert len(values) == 2 and all(-8 <= value <= -7 for value in values)


def test_the_highest_number_is_named(server, page):
    open_form(page, server, "plain")
    set_input(page, "in-INPUT0-way", "json")
    set_input(page, "in-INPUT0-json", "[0.25, 0.16349]")
    infer_by_form(page)
    assert page.text("highest") == "highest: OUTPUT0[0] = 0.25"


def test_numbers_that_javascript_does_not_hold_are_shown(server, page):
    """The server writes NaN as the reference server does, which is no JSON; 2^53 + 1 would be shown as 2^53."""
    open_form(page, server, "plain")
    set_input(page, "in-INPUT0-way", "json")
    set_input(page, "in-INPUT0-json", "[NaN, 9007199254740993]")
    page.click("infer")
    page.wait(lambda: page.text("infer-time").startswith("answered in"), "there is an answer")
    assert "[NaN, 9007199000000000]" in page.text("answer")  # the digits of an FP32
    assert '"data":[NaN,9007199254740993]' in page.text("as-curl")
    page.driver.execute_script("""
        const ask = window.fetch, answer = arguments[0];
        window.fetch = (at, how) => String(at).endsWith("/infer") ? Promise.resolve(new Response(answer)) : ask(at, how);
        """, '{"outputs":[{"name":"A","datatype":"FP32","shape":[1,4],"data":[NaN,-Infinity,2.5,1.0]},'
             '{"name":"B","datatype":"INT64","shape":[1,2],"data":[9007199254740993,-9007199254740993]},'
             '{"name":"C","datatype":"BYTES","shape":[1],"data":["NaN, \\"12345678901234567890"]}]}')
    page.click("infer")
    page.wait(lambda: "highest: A" in page.text("highest"), "there is another answer")
    shown = page.text("answer")
    assert "[NaN, -Infinity, 2.5, 1]" in shown
    assert "[9007199254740993, -9007199254740993]" in shown
    assert '["NaN, \\"12345678901234567890"]' in shown
    assert "highest: A[2] = 2.5" in page.text("highest")


def picture_option(page):
    return page.driver.execute_script(
        "const option = document.getElementById('in-INPUT0-way').lastChild;"
        "return [option.textContent, option.disabled]")


def test_a_picture_becomes_a_row_of_numbers(server, page, tmp_path):
    (tmp_path / "dark.png").write_bytes(png(20, 10, (51, 51, 51)))
    open_form(page, server, "plain")
    assert picture_option(page) == ["a picture (needs height x width x channels)", True]
    open_form(page, server, "flat")
    assert picture_option(page) == ["a picture, as 8 x 8 grey", False]
    page.driver.find_element(By.CSS_SELECTOR, ".drop input[type=file]").send_keys(str(tmp_path / "dark.png"))
    wait_for_picture(page)
    set_input(page, "in-INPUT0-max", "16")
    assert infer_by_form(page)["outputs"][0]["data"] == pytest.approx([16 * 0.8] * 64, abs=0.01)
    assert page.text("highest") == 'highest: OUTPUT0[0] = 12.8, "label 0"'
    page.click("in-INPUT0-dark")
    assert infer_by_form(page)["outputs"][0]["data"] == pytest.approx([16 * 0.2] * 64, abs=0.01)


def png(width, height, rgb):
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content
                + struct.pack(">I", zlib.crc32(kind + content)))
    rows = (b"\0" + bytes(rgb) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def wait_for_picture(page):
    page.wait(lambda: page.driver.execute_script(
        "const i = document.querySelector('.drop img'); return i && i.complete && i.naturalWidth"),
        "the picture is read")


def test_a_picture_becomes_a_tensor(server, page, tmp_path):
    (tmp_path / "red.png").write_bytes(png(20, 10, (255, 0, 51)))
    open_form(page, server, "image")
    page.driver.find_element(By.CSS_SELECTOR, ".drop input[type=file]").send_keys(str(tmp_path / "red.png"))
    wait_for_picture(page)
    values = infer_by_form(page)["outputs"][0]["data"]
    assert values == pytest.approx([1] * 64 + [0] * 64 + [0.2] * 64, abs=0.01)


def test_a_picture_is_dropped(server, page):
    open_form(page, server, "image")
    page.driver.execute_script("""
        const transfer = new DataTransfer(), bytes = Uint8Array.from(arguments[0]);
        transfer.items.add(new File([bytes], "green.png", {type: "image/png"}));
        document.querySelector(".drop").dispatchEvent(
            new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
        """, list(png(4, 4, (0, 255, 0))))
    wait_for_picture(page)
    values = infer_by_form(page)["outputs"][0]["data"]
    assert values == pytest.approx([0] * 64 + [1] * 64 + [0] * 64, abs=0.01)


# ---- steps ----


def boxes(page):
    return page.driver.execute_script(
        "return [...document.querySelectorAll('#graph g')].map(g => [...g.querySelectorAll('text')]"
        ".map(t => t.textContent))")


def test_the_steps_of_an_ensemble_are_a_graph_with_times(server, page):
    infer(server, "ensemble", "IN")
    page.open(server)
    page.choose("ensemble")
    page.wait(lambda: len(boxes(page)) == 4, "there are two steps and both ends")
    names = [box[0] for box in boxes(page)]
    assert names == ["request", "plain", "last", "response"]
    for box in boxes(page)[1:3]:
        assert re.match(r"[\d.]+ (µs|ms|s) (now|mean)$", box[1])
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#graph path[marker-end]")) == 3
    page.screenshot("graph")


def test_the_stages_of_a_chain_are_a_graph(server, page):
    page.open(server)
    page.choose("chained")
    page.wait(lambda: [box[0] for box in boxes(page)] == ["request", "chained", "last", "response"],
              "the chain is drawn")


# ---- keys ----


def test_the_page_asks_for_a_key_and_keeps_it_in_memory(start, page, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"me {hashlib.sha256(b'open sesame').hexdigest()} *\n")
    keys.chmod(0o600)
    server = start({"plain": config()}, f"--api-key-file={keys}")
    page.refused(401)
    page.open(server, ready=False)
    dialog = page.id("key-dialog")
    page.wait(dialog.is_displayed, "the page asks")
    assert page.text("key-reason") == "an API key that grants 'metadata' is required"
    page.id("key-value").send_keys("wrong", Keys.ENTER)
    page.wait(lambda: page.text("key-reason") == "the API key is unknown", "a wrong key is refused")
    page.wait(dialog.is_displayed, "the page asks again")
    page.screenshot("key")
    page.id("key-value").send_keys(Keys.CONTROL, "a")
    page.id("key-value").send_keys("open sesame", Keys.ENTER)
    page.wait(lambda: page.text("connection") == "live", "the right key opens it")
    page.choose("plain")
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#inputs fieldset"), "there is a form")
    infer_by_form(page)
    assert "$KEY" in page.text("as-curl") and "open sesame" not in page.driver.page_source
    kept = page.driver.execute_script("return [Object.keys(localStorage).length,"
                                      "Object.keys(sessionStorage).length, document.cookie, location.href]")
    assert kept[:3] == [0, 0, ""] and "sesame" not in kept[3]
    page.driver.refresh()
    page.wait(page.id("key-dialog").is_displayed, "a new page asks again")


def test_a_restricted_api_is_opened_with_its_header(start, page):
    server = start({"plain": config()}, "--http-restricted-api=metadata:x-admin=sesame")
    page.refused(403)
    page.open(server, ready=False)
    page.wait(page.id("key-dialog").is_displayed, "the page asks")
    assert page.id("header-name").get_attribute("value") == "x-admin"
    page.id("header-value").send_keys("sesame", Keys.ENTER)
    page.wait(lambda: page.text("connection") == "live", "the header opens it")


# ---- the page itself ----


def test_a_violation_of_the_policy_is_noticed(server, page):
    page.open(server)
    page.driver.execute_script("""
        const script = document.createElement("script");
        script.textContent = "window.hasRun = true";
        document.head.append(script);""")
    assert page.driver.execute_script("return window.hasRun") is None
    faults = page.faults()
    assert len(faults) == 1 and "Content Security Policy" in faults[0]["message"]


def test_it_is_used_by_keyboard(server, page):
    page.open(server)
    page.wait(lambda: page.cell("chained", NAME), "there are rows")
    body = page.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    seen = []
    for _ in range(60):
        element = page.driver.switch_to.active_element
        seen.append(element.text or element.get_attribute("id"))
        outline = page.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", element)
        assert outline != "none", seen
        if element.get_attribute("class") == "name":
            break
        element.send_keys(Keys.TAB)
    assert seen[0] == "Skip to the models" and "API key" in seen and "filter" in seen
    model = page.driver.switch_to.active_element.text
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait(lambda: page.text("detail-title").startswith(model), "Enter opens the model")
    assert page.driver.switch_to.active_element.get_attribute("id") == "detail"
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait(lambda: not page.id("detail").is_displayed(), "Escape closes it")
    assert page.driver.switch_to.active_element.text == model


def test_every_control_has_a_name(server, page):
    page.open(server)
    page.choose("image")
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#inputs fieldset"), "there is a form")
    for control in page.driver.find_elements(By.CSS_SELECTOR, "button, input, select, textarea, [role]"):
        if page.driver.execute_script("return arguments[0].checkVisibility()", control):
            assert control.accessible_name or control.get_attribute("role") == "status", \
                control.get_attribute("outerHTML")


def test_dark_is_dark(server, page):
    page.open(server)
    colours = {}
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        colour = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        colours[scheme] = sum(int(n) for n in re.findall(r"\d+", colour))
        page.screenshot(scheme)
    assert colours["light"] > 600 and colours["dark"] < 150


def test_a_phone_needs_no_horizontal_scrolling(server, page):
    page.size(390, 844, is_phone=True)
    page.open(server)
    page.wait(lambda: page.cell("plain", NAME), "there are rows")
    with Load(server, ("plain",)):
        page.wait(lambda: number(page.cell("plain", RATE)) > 1, "there is a rate")
        # Rate and times are there without a swipe, and the head stands over its column when rows are swiped.
        right = page.driver.execute_script(
            "return document.querySelectorAll('#heads th')[arguments[0]].getBoundingClientRect().right", P99)
        assert right <= 390
        shown = page.driver.execute_script(
            "return [...document.querySelectorAll('#heads th')].filter(e => e.checkVisibility()).map(e => e.textContent)")
        assert shown == ["Model", "Req/s", "Time 50 %", "Time 99 %", "Queue", "Fail/s"]
        assert page.driver.execute_script(
            "const e = document.querySelector('#heads th'), box = document.querySelector('#models .scroll');"
            "box.scrollLeft = 500; const at = e.getBoundingClientRect().left; box.scrollLeft = 0;"
            "return at >= 0 && getComputedStyle(e).zIndex") == "2"
        assert page.driver.execute_script(
            "return getComputedStyle(document.querySelector('tr[data-model=plain] td'), '::after').content") == '"READY"'
        page.driver.execute_script("document.querySelector('#models .scroll').scrollIntoView({block: 'center'})")
        page.screenshot("phone")
    for model in ("ensemble", "image"):
        page.choose(model)
        page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#inputs fieldset"), "there is a form")
        widths = page.driver.execute_script(
            "return [document.documentElement.scrollWidth, document.body.scrollWidth, window.innerWidth]")
        assert widths == [390, 390, 390]
    page.screenshot("phone-model")


def test_a_server_that_starts_again_is_noticed(start, page):
    first = start({"before": config()})
    page.open(first)
    page.wait(lambda: page.cell("before", NAME), "the model is there")
    page.driver.execute_script("window.isSame = true")
    port = first.http_port
    first.stop()
    page.driver.get_log("browser")  # requests without an answer
    start({"after": config()}, f"--http-port={port}", "--reuse-http-port=true")
    page.wait(lambda: page.cell("after", NAME), "the new model is there")
    assert page.cell("before", NAME) is None
    assert page.driver.execute_script("return window.isSame") is True
    page.driver.get_log("browser")


# ---- many models ----


@pytest.fixture(scope="module")
def many(start):
    return start({f"model_{i:03}": config() for i in range(500)})


def test_language_models_have_a_table_once_they_were_asked(start, page):
    server = start({"echo": ECHO})
    page.open(server)
    assert not page.id("language").is_displayed()
    stop = threading.Event()

    def complete():
        while not stop.is_set():
            post(server, "/v1/completions", {"model": "echo", "prompt": "hello", "stream": True})

    load = threading.Thread(target=complete)
    load.start()
    try:
        page.driver.refresh()
        page.wait(lambda: page.id("language").is_displayed(), "the table")
        cells = page.id("language-rows").find_elements(By.TAG_NAME, "td")
        page.wait(lambda: float(cells[2].text) > 0, "a rate")
        page.wait(lambda: re.fullmatch(r"≈[0-9.]+ (µs|ms)", cells[7].text), "the time of the first token")
    finally:
        stop.set()
        load.join()
    assert [cells[i].text for i in (0, 1, 3, 4, 9, 11)] == ["echo", "1", "0", "0", "–", "0"]
    page.wait(lambda: cells[2].text == "0", "no rate")
    page.screenshot("language_models")


def test_gpus_have_a_table(start, page, tmp_path):
    values = tmp_path / "values"
    values.write_text("0.utilization=42\n0.power=75500\n1.utilization=fail\n")
    server = start({"echo": ECHO}, gpu_values=values)
    page.open(server)
    page.wait(lambda: page.id("gpus").is_displayed(), "the table")
    cells = page.id("gpus-rows").find_elements(By.TAG_NAME, "td")
    assert [cells[i].text for i in (0, 2, 3, 4, 5, 7, 9)] == ["0", "42", "1024", "64", "0", "76", "9.0"]
    assert [cells[i].text for i in (10, 12)] == ["1", ""]
    values.write_text("0.utilization=43\n")
    page.wait(lambda: cells[2].text == "43", "the new value")
    page.screenshot("gpus")


def test_no_gpus_no_table(many, page):
    page.open(many)
    page.wait(lambda: page.text("model-count") == "500 ready", "all are there")
    assert not page.id("gpus").is_displayed()


def test_500_models_are_filtered_and_sorted(many, page):
    page.open(many)
    page.wait(lambda: page.text("model-count") == "500 ready", "all are there")
    page.id("filter").send_keys("del_12")
    page.wait(lambda: page.text("model-count") == "500 ready, 10 shown", "ten are shown")
    infer(many, "model_127")
    page.wait(lambda: page.cell("model_127", TOTAL) == "1", "its request is counted")
    heads = page.driver.find_elements(By.CSS_SELECTOR, "#heads th")
    assert [heads[i].text for i in (MEAN, P50, P99)] == ["Time mean", "Time 50 %", "Time 99 %"]
    assert all(head.get_attribute("title") for head in heads)
    heads[TOTAL].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert heads[TOTAL].get_attribute("aria-sort") == "descending"
    assert page.driver.execute_script(
        "return document.querySelector('#rows tr').dataset.model") == "model_127"
    page.screenshot("500")


def test_a_second_without_changes_changes_no_row(many, page):
    page.open(many)
    page.wait(lambda: page.text("model-count").startswith("500 ready"), "all are there")
    page.wait(lambda: all(row[1] == 0 for row in get(many, "/v2/dashboard")["rows"]), "nothing runs")
    page.wait(lambda: page.driver.execute_script(
        "return [...document.querySelectorAll('#rows .rate')].every(cell => cell.textContent === '0')"), "the page has that")
    page.driver.execute_script("""
        window.changes = 0;
        new MutationObserver(list => { window.changes += list.length; }).observe(
            document.getElementById("table"), {subtree: true, childList: true, characterData: true, attributes: true});""")
    for _ in range(3):
        seen = page.text("uptime")
        page.wait(lambda: page.text("uptime") != seen, "a second passes")
    before = page.driver.execute_script("return window.changes")
    infer(many, "model_400")
    page.wait(lambda: page.driver.execute_script("return window.changes") > before, "a row changes")
    assert before == 0
