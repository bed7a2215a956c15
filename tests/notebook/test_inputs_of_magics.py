"""`--inputs EXPR` of magics, and assertions in cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from IPython.core.error import UsageError

from tvmagic import notebook
from tvmagic.notebook.arguments import PARSERS
from tvmagic.notebook.completion import candidates
from tvmagic.notebook.magics import TensorMagics

CELL = """ptr: int32[m + 1]
col: int32[p]
x: float32[n]
assert ptr[0] == 0 and ptr[m] == p
assert ptr[i] <= ptr[i + 1]
assert 0 <= col[q] < n
for i in range(m): Y[i] = sum(x[col[q]] for q in range(ptr[i], ptr[i + 1]))"""
NAMES = ("check", "bench", "why", "tune", "auto", "passes")


def made(rng: np.random.Generator, m: int = 11, p: int = 30) -> dict[str, np.ndarray]:
    ptr = np.concatenate([[0], np.sort(rng.integers(0, p + 1, m - 1)), [p]]).astype("int32")
    return {"ptr": ptr, "col": rng.integers(0, 7, p, dtype="int32"), "x": rng.random(7, dtype="float32")}


@pytest.fixture
def rows(shell: Any) -> Any:
    shell.run_cell_magic("tensor", "rows -q", CELL)
    shell.user_ns.update(made=made, wrong={"ptr": np.array([0, 3, 2, 5], "int32"), "col": np.zeros(5, "int32")})
    return shell


def test_checks_take_inputs(rows: Any) -> None:
    table = rows.run_line_magic("check", "rows --inputs made")
    assert "equal to NumPy" in table.title and table.rows[0][0] == "11"
    table = rows.run_line_magic("check", "rows --inputs 'lambda rng: made(rng, m=5)'")
    assert table.rows[0][0] == "5"
    assert rows.run_line_magic("check", "rows --size 20").rows[0][0] == "20"  # assertions alone
    rows.user_ns["rows"].example_inputs = made
    assert rows.run_line_magic("check", "rows").rows[0][0] == "11"
    assert rows.run_line_magic("check", "rows --inputs 'lambda rng: made(rng, m=6)'").rows[0][0] == "6"  # it wins


def test_times_and_explanations_take_inputs(rows: Any) -> None:
    table = rows.run_line_magic("bench", "rows --inputs made --seconds 0.001 --check")
    assert "equal to NumPy" in table.text() and "rows: time" in table.text()
    assert rows.run_line_magic("why", "rows --inputs made").seconds


def test_instant_schedules_take_inputs(rows: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows.run_line_magic("auto", "rows -q --check --inputs made")
    assert "equal to NumPy" in capsys.readouterr().out
    with pytest.raises(UsageError, match="`--inputs`.*`--check`.*`--time`"):
        rows.run_line_magic("auto", "rows --inputs made")


def test_pages_take_inputs(rows: Any, tmp_path: Any) -> None:
    rows.run_line_magic("passes", f"rows --html {tmp_path / 'rows.html'} --inputs made")
    assert (tmp_path / "rows.html").exists()
    with pytest.raises(UsageError, match="`--inputs`.*`--html`"):
        rows.run_line_magic("passes", "rows --inputs made")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mad", "name 'mad' is not defined; did you mean `made`"),
        ("1/0", "ZeroDivisionError"),
        ("'made('", "SyntaxError"),
        ("3", "`--inputs 3`"),
        ("wrong", "`ptr[i] <= ptr[i + 1]`"),
    ],
)
def test_wrong_inputs_are_told_at_the_argument(rows: Any, text: str, message: str) -> None:
    with pytest.raises(Exception, match=".") as caught:
        rows.run_line_magic("check", f"rows --inputs {text}")
    assert message in str(caught.value)


def test_inputs_are_in_help_and_completed(rows: Any) -> None:
    magics = TensorMagics(rows)
    for name in NAMES:
        assert "--inputs EXPR" in PARSERS[name].doc
        assert candidates(f"%{name} rows --inputs ma", magics) == ["made"]
    assert "rows" not in candidates("%check rows --inputs ", magics)


def test_plain_functions_take_inputs(rows: Any) -> None:
    op = rows.user_ns["rows"]
    assert "equal" in notebook.check_result(op.version(), inputs=made).title
    assert notebook.bench(op, seconds=1e-3, inputs=made).result.rows


def test_violations_show_their_line(rows: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows.run_cell(
        "import numpy as np\nrows(np.array([0, 3, 2, 5], 'int32'), np.zeros(5, 'int32'), np.zeros(3, 'float32'))"
    )
    out = capsys.readouterr().out
    assert "`ptr[i] <= ptr[i + 1]` does not hold at `i = 1`: 3 <= 2" in out and "6 | assert ptr[i] <= ptr[i + 1]" in out
    assert "Traceback" not in out
