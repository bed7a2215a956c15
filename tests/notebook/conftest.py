"""What the notebook's tests share: a terminal shell with the extension, and a browser with JupyterLab."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tools import BROWSER, TOOLS

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"


@pytest.fixture
def shell() -> Iterator[Any]:
    """An IPython with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    instance = InteractiveShell.instance(colors="nocolor", config=config)
    instance.run_line_magic("load_ext", "tvmagic")
    yield instance
    instance.run_line_magic("unload_ext", "tvmagic")
    atexit.unregister(instance.atexit_operations)
    with mock.patch("gc.collect"):  # IPython collects what a session left; here that is the heap of all tests
        instance.atexit_operations()
    InteractiveShell.clear_instance()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and a machine whose peaks are not measured."""
    from tvmagic.operators import peaks

    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks, "peak_flops", lambda target=None: 1e11)
    monkeypatch.setattr(peaks, "copy_bandwidth", lambda: 2e10)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A running browser. Firefox, as it is released, takes WebDriver BiDi."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package `playwright` is not installed")
    program = TOOLS[BROWSER].need()
    with sync_api.sync_playwright() as playwright:
        if BROWSER == "firefox":
            running = playwright.firefox.launch(executable_path=program, channel="moz-firefox")
        else:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            running = playwright.chromium.launch(executable_path=program, args=flags)
        yield running
        running.close()


class Server:
    """A Jupyter server on this machine alone, with a folder of notebooks."""

    token = "test"

    def __init__(self, folder: Path, command: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.command = folder, command
        settings = folder / ".settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        quiet = '{"fetchNews": "false", "checkForUpdates": false, "doNotDisturbMode": true}'
        (settings / "notification.jupyterlab-settings").write_text(quiet)
        tracker = folder / ".settings" / "@jupyterlab" / "notebook-extension"
        tracker.mkdir(exist_ok=True)
        # JupyterLab 4.2 takes cells that are out of sight out of the page; then nothing can be scrolled to.
        (tracker / "tracker.jupyterlab-settings").write_text('{"windowingMode": "defer"}')
        environment = {
            **os.environ,
            "JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings"),
            "JUPYTER_CONFIG_DIR": str(folder / ".config"),
            "JUPYTER_DATA_DIR": str(folder / ".data"),
            "IPYTHONDIR": str(folder / ".ipython"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        environment.pop("JUPYTER_TOKEN", None)
        arguments = [
            sys.executable, "-m", "jupyter", command, "--no-browser", "--allow-root", f"--port={self.port}", "--ip=127.0.0.1",
            f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={folder}", "--LabApp.extension_manager=readonly", "--LabApp.expose_app_in_browser=True",
            "--ServerApp.disable_check_xsrf=True", "--JupyterNotebookApp.expose_app_in_browser=True",
        ]  # fmt: skip
        self.log = open(folder / "server.log", "wb")
        self.process = subprocess.Popen(arguments, env=environment, stdout=self.log, stderr=self.log, cwd=folder)
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api?token={self.token}", timeout=2).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.3)
        raise RuntimeError((self.folder / "server.log").read_text()[-3000:])

    def url(self, page: str) -> str:
        return f"http://127.0.0.1:{self.port}/{page}?token={self.token}&reset"  # no tabs of an earlier test

    def kernels(self) -> list[dict[str, Any]]:
        import json

        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/kernels?token={self.token}") as answer:
            return json.load(answer)

    def stop_kernels(self) -> None:
        for kernel in self.kernels():
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}/api/kernels/{kernel['id']}?token={self.token}", method="DELETE"
            )
            urllib.request.urlopen(request).close()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def running(tmp_path_factory: pytest.TempPathFactory, command: str) -> Iterator[Server]:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    server = Server(tmp_path_factory.mktemp(command), command)
    yield server
    server.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running JupyterLab."""
    yield from running(tmp_path_factory, "lab")


@pytest.fixture(scope="session")
def classic(lab: Server) -> Server:
    """A running Notebook 7: the same server has both, at other addresses."""
    pytest.importorskip("notebook", reason="Notebook 7 is not installed")
    return lab


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page, whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    fresh = context.new_page()
    fresh.set_default_timeout(30_000)
    yield fresh
    context.close()


@pytest.fixture(scope="session")
def jupyters_files(browser: Any) -> Iterator[Any]:
    """The context of all pages of Jupyter, so that its scripts are fetched and compiled once."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield context
    context.close()


@pytest.fixture
def tab(jupyters_files: Any) -> Iterator[Any]:
    """A fresh page for an address of Jupyter."""
    fresh = jupyters_files.new_page()
    fresh.set_default_timeout(30_000)
    yield fresh
    fresh.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from its npm package."""
    cached = ROOT / ".cache" / "axe-core" / "package" / "axe.min.js"
    if not cached.exists():
        cached.parent.parent.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            [TOOLS["npm"].need(), "pack", "axe-core@4", "--silent"],
            cwd=cached.parent.parent,
            capture_output=True,
            text=True,
            timeout=180,
        )
        archives = sorted(cached.parent.parent.glob("axe-core-*.tgz"))
        if packed.returncode or not archives:
            pytest.skip("the npm package axe-core cannot be had here")
        shutil.unpack_archive(str(archives[-1]), cached.parent.parent)
    return cached.read_text()


@pytest.fixture
def screenshot() -> Any:
    """Saves a page (or an element) as build output."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def save(shown: Any, name: str) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        shown.screenshot(path=str(path))
        return path

    return save
