"""Pages of operators with example inputs or assertions: they carry inputs, test assertions, or say why they do not run."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic import notebook
from tvmagic.operators import Operator, operator

STATIC = Path(__file__).parents[2] / "tvmagic" / "notebook" / "static"
CSR = """ptr: int32[m + 1]
col: int32[p]
v: float32[p]
x: float32[n]
assert ptr[0] == 0 and ptr[m] == p
assert ptr[i] <= ptr[i + 1]
assert all(0 <= col[q] < n for q in range(ptr[i], ptr[i + 1]))
for i in range(m): Y[i] = sum(v[q] * x[col[q]] for q in range(ptr[i], ptr[i + 1]))"""
TYPES = """A: float16[n]
B: bfloat16[n]
C: bool[n]
D: int64[n]
E: float64[n]
P: int32[n]
Q: uint8[n, 3]
assert distinct(P[i], over=i) and distinct(Q[i, j], over=j)
assert 0 <= P[i] < n and sum(float64(D[i]), over=i) < 1e9
Y[i] = float32(A[i]) + float32(B[i]) + float32(D[P[i]]) + float32(E[i]) + (1.0 if C[i] else 0.0)
Z[i] = Q[i, 0]"""


def data_of(path: Path) -> dict[str, Any]:
    """What the script of a page is given."""
    for text in re.findall(r'unpack\("([\w+/=]+)"\)', path.read_text(encoding="utf-8")):
        found = zlib.decompress(base64.b64decode(text)).decode()
        if found.startswith("{"):
            return json.loads(found)
    raise AssertionError("the page has no data")


def page_of(op: Operator, path: Path, **options: Any) -> dict[str, Any]:
    """The data of an operator's page."""
    return data_of(notebook.page(op, path / "page.html", **options))


def run(data: dict[str, Any], change: dict[int, np.ndarray] | None = None) -> dict[str, Any]:
    """What a page says after Run, in Node; `change`: other arrays for some inputs."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    data = {**data, "params": [dict(param) for param in data["params"]]}
    for number, array in (change or {}).items():
        data["params"][number]["data"] = base64.b64encode(array.tobytes()).decode()
    variant = json.loads(zlib.decompress(base64.b64decode(data["variants"][0])))
    job = {
        **{k: data[k] for k in ("params", "plain", "bounds", "preconditions")},
        "kernel": variant["kernel"],
        "seed": 1,
    }
    script = f"""{(STATIC / "arithmetic.js").read_text()}
{(STATIC / "kernel.js").read_text().replace("BUDGET = 300", "BUDGET = 1")}
makeHost(makeArithmetic()).run({json.dumps(job)}).then((found) => found, (error) => ({{ error: error.message }})).then((found) => console.log(JSON.stringify(found)));
"""
    done = subprocess.run(
        ["node", "--input-type=module"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def made(rng: np.random.Generator) -> dict[str, np.ndarray]:
    ptr = np.concatenate([[0], np.sort(rng.integers(0, 31, 8)), [30]]).astype("int32")
    return {"ptr": ptr, "col": rng.integers(0, 7, 30, dtype="int32"), "x": rng.random(7, dtype="float32")}


@pytest.mark.parametrize("assertions", [True, False])
def test_pages_compute_on_example_inputs(assertions: bool, tmp_path: Path) -> None:
    op = operator("csr", CSR if assertions else "\n".join(x for x in CSR.split("\n") if "assert" not in x))
    op.example_inputs = made
    (output,) = run(page_of(op, tmp_path))["outputs"]
    assert (output["values"], output["wrong"], output["open"]) == (9, 0, 0)
    few = page_of(op, tmp_path, inputs=lambda rng: {**made(rng), "ptr": np.array([0, 2, 30], "int32")})
    (output,) = run(few)["outputs"]
    assert output["values"] == 2 and output["wrong"] == 0


@pytest.mark.parametrize("text", [CSR, TYPES], ids=["csr", "types"])
def test_pages_compute_on_random_inputs_that_satisfy_assertions(text: str, tmp_path: Path) -> None:
    found = run(page_of(operator("f", text), tmp_path, sizes=9))
    assert "error" not in found and all(o["values"] and not o["wrong"] for o in found["outputs"])


def test_scripts_of_pages_test_preconditions(tmp_path: Path) -> None:
    op = operator("csr", CSR)
    op.example_inputs = made
    page = page_of(op, tmp_path)
    wrong = {0: np.array([0, 3, 9, 8, 10, 11, 12, 13, 20, 30], "int32")}
    assert run(page, wrong)["error"] == "`ptr[i] <= ptr[i + 1]` does not hold at `i = 2` (line 7)"
    assert "`0 <= col[q] < n` does not hold at `i = " in run(page, {1: np.arange(30, dtype="int32") % 8})["error"]
    page = page_of(operator("f", TYPES), tmp_path, sizes=4)
    assert run(page, {5: np.array([0, 1, 2, 2], "int32")})["error"] == "`distinct(P[i], over=i)` does not hold (line 9)"
    rows = np.array([[1, 2, 3], [1, 2, 3], [1, 2, 1], [0, 1, 2]], "uint8")
    assert run(page, {6: rows})["error"] == "`distinct(Q[i, j], over=j)` does not hold (line 9)"


def test_pages_that_have_no_inputs_say_so(tmp_path: Path) -> None:
    large = operator("f", "X: float32[n]\nY[i] = X[i]")
    page = notebook.page(large, tmp_path / "x.html", inputs={"X": np.zeros(3 << 20, "float32")})
    assert "its inputs take 12.0 MiB, more than the 8 MiB that a page has" in data_of(page)["about"]
    unknown = operator("g", "X: float32[n]\nassert sum(X[i], over=i) == 12345\nY[i] = X[i]")
    data = data_of(notebook.page(unknown, tmp_path / "y.html"))
    assert "`g.example_inputs`" in data["about"]
    assert json.loads(zlib.decompress(base64.b64decode(data["variants"][0])))["kernel"] is None
    with refuses("operator.assertion_failed"):
        notebook.page(unknown, tmp_path / "z.html", inputs={"X": np.zeros(3, "float32")})
