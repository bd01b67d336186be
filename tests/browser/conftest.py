# SPDX-License-Identifier: BSD-3-Clause
"""A real browser on the dashboard of a real server: `make browser`.

One Chromium serves all tests. After each test its console is read: an error, or a violation of the
page's Content-Security-Policy, fails the test. Requests that a test means to be refused are named with
Page.refused(). Screenshots go to build/screenshots.
"""
import importlib.util
import json
import os
import pathlib
import sys

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("NESO_BROWSER_SECONDS", "60"))  # a loaded machine is slow

sys.path.insert(0, str(ROOT / "tests" / "e2e"))


def load_e2e():
    """The module of the end-to-end tests that starts servers; its name is that of this one."""
    spec = importlib.util.spec_from_file_location("e2e_conftest", ROOT / "tests" / "e2e" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


e2e = load_e2e()
SCREENSHOTS = e2e.BUILD / "screenshots"
FAKE_GPUS = e2e.BUILD / "tests" / "gpu"


@pytest.fixture(scope="session")
def chromium():
    options = webdriver.ChromeOptions()
    # Tests run as root in containers, where Chromium's own sandbox and /dev/shm do not work.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--window-size=1280,1000", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_page_load_timeout(SECONDS)
    driver.set_script_timeout(SECONDS)
    yield driver
    driver.quit()


class Page:
    """The dashboard of a server."""

    def __init__(self, driver):
        self.driver = driver
        self.refusals = set()
        self.scripts = []

    def open(self, server, ready=True):
        self.driver.get(f"http://127.0.0.1:{server.http_port}/dashboard")
        if ready:
            self.wait(lambda: self.text("connection") == "live", "the page is live")
        return self

    def first_run(self, script):
        """Runs the script in pages that are opened from now on, before their own ones."""
        self.scripts.append(self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script}))

    def end(self):
        for script in self.scripts:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

    def wait(self, condition, what):
        def holds(_):
            return condition()
        return WebDriverWait(self.driver, SECONDS, 0.1).until(holds, f"never: {what}")

    def id(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        # Hidden texts, too, and whole ones.
        return self.driver.execute_script(
            "const e = document.getElementById(arguments[0]); return e ? e.textContent : null", name)

    def click(self, name):
        # Not a click at a position, which a row that moves meanwhile would get.
        self.driver.execute_script("document.getElementById(arguments[0]).click()", name)

    def cell(self, model, column):
        """The text of a model's row; None without a row. `column` counts from 0."""
        return self.driver.execute_script(
            "const row = document.querySelector(`tr[data-model=\"${arguments[0]}\"]`);"
            "return row ? row.children[arguments[1]].textContent : null", model, column)

    def state(self, model):
        return self.driver.execute_script(
            "return [...document.querySelectorAll(`tr[data-model=\"${arguments[0]}\"]`)]"
            ".map(row => row.children[2].textContent)", model)

    def choose(self, model):
        self.wait(lambda: self.cell(model, 0) is not None, f"{model} has a row")
        self.driver.execute_script(
            "document.querySelector(`tr[data-model=\"${arguments[0]}\"] button`).click()", model)
        self.wait(lambda: self.text("detail-title").startswith(model), f"{model} is shown")

    def screenshot(self, name):
        SCREENSHOTS.mkdir(exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def size(self, width, height, is_phone=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone})

    def scheme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": name}]})

    def refused(self, *statuses):
        self.refusals.update(statuses)

    def faults(self):
        """Errors of the console since the last call, without the refusals that the test wants."""
        wanted = [f"status of {status}" for status in self.refusals]
        return [entry for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING")
                and not (entry["source"] == "network" and any(w in entry["message"] for w in wanted))]


@pytest.fixture
def page(chromium):
    chromium.get("about:blank")
    chromium.get_log("browser")
    page = Page(chromium)
    page.size(1280, 1000)
    page.scheme("light")
    yield page
    page.end()
    faults = page.faults()
    chromium.get("about:blank")
    assert faults == [], json.dumps(faults, indent=1)


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """start(models, options..., files={path: text}, gpu_values=file) gives a server, which ends with the session. With
    gpu_values it is on stand-ins of GPUs (tests/gpu/README.md), whose readings the file has."""
    servers = []

    def start_one(models, *options, files=None, gpu_values=None):
        e2e.require_build(("identity",))
        folder = tmp_path_factory.mktemp("models")
        e2e.write_repository(folder, models)
        for path, text in (files or {}).items():
            (folder / path).write_text(text)
        under = ("env", f"LD_LIBRARY_PATH={FAKE_GPUS}", f"NESO_FAKE_NVML_FILE={gpu_values}") if gpu_values else ()
        servers.append(e2e.Server(folder, options, under=under))
        return servers[-1]

    yield start_one
    for server in servers:
        server.stop()
