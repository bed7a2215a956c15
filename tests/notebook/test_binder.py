"""What Binder does with the folder `binder`, done here: an empty environment from exactly its files, the server, the first notebook.

The environment takes minutes and a package registry, so that test is one of `make soak`; the others are quick.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
# what the name of a package differs from the name that is imported
IMPORTED = {"scikit-learn": "sklearn", "ipython": "IPython"}


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=!~ ]", requirement)[0]


def imports_of(notebook: Path) -> set[str]:
    """The packages that the code cells of a notebook import."""
    found: set[str] = set()
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type != "code" or cell.source.startswith("%%"):
            continue
        code = "\n".join(line for line in cell.source.splitlines() if not line.lstrip().startswith("%"))
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def test_the_requirements_hold_all_that_the_notebooks_import() -> None:
    (line,) = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").split()
    assert line == ".[notebooks]"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert "tvmagic[demo]" in extras["notebooks"], "the demo's packages are among those of the notebooks"
    required = [name_of(r) for r in [*project["dependencies"], *extras["notebooks"], *extras["demo"]]]
    known = {"tvmagic", *(IMPORTED.get(name, name) for name in required)}
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        assert imports_of(notebook) <= known, notebook.name


def test_the_files_are_whole() -> None:
    folder = ROOT / "binder"
    version = (folder / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = project["requires-python"].removeprefix(">=")
    assert [int(n) for n in version.split(".")] >= [int(n) for n in least.split(".")]
    assert os.access(folder / "start", os.X_OK)
    subprocess.run(["bash", "-n", str(folder / "start")], check=True)
    opened = re.findall(r"/lab/tree/(\S+)", (folder / "start").read_text(encoding="utf-8"))
    assert opened and all((ROOT / path).exists() for path in opened)


# ---------------------------------------------------------------------------- the environment


def asked(port: int, path: str, data: bytes | None = None) -> Any:
    """What the server on this machine answers to a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data, {"Authorization": "token binder"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def waited_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and server.poll() is None:
        try:
            asked(port, "api")
            return
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
    raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")[-3000:])


@pytest.mark.soak
def test_an_environment_of_exactly_its_files_runs_the_first_notebook(tmp_path: Path) -> None:
    clone, home, env = tmp_path / "clone", tmp_path / "home", tmp_path / "env"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "VIRTUAL_ENV", "PYTHON"))}
    environment = {**kept, "PATH": f"{env / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}

    def run(*command: str, where: Path = clone) -> str:
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    run("pip", "install", "--quiet", "-r", "binder/requirements.txt")
    place = run("python", "-c", "import tvmagic; print(tvmagic.__file__)", where=home).strip()
    assert Path(place).is_relative_to(env), "the installed package, not a folder beside the notebooks"

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "server.log"
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=binder"]
    with log.open("wb") as output:
        command = [str(clone / "binder" / "start"), "jupyter", "lab", *options]
        server = subprocess.Popen(command, cwd=clone, env=environment, stdout=output, stderr=output)
        try:
            waited_for(server, port, log)
            assert "notebooks/01_first_steps.ipynb" in {
                f["path"] for f in asked(port, "api/contents/notebooks")["content"]
            }
            kernel = asked(port, "api/kernels", b"{}")
            assert kernel["name"] == "python3"
        finally:
            server.terminate()
            server.wait(30)

    run("jupyter", "execute", "--inplace", "notebooks/01_first_steps.ipynb")
    text = (clone / "notebooks" / "01_first_steps.ipynb").read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    assert "predicted classes equal to scikit-learn's: True" in text
    assert notebook.cells[-2].execution_count and text != (ROOT / "notebooks" / "01_first_steps.ipynb").read_text()
