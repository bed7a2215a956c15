"""Odd values of options, odd names of files and indices, and arguments of any kind: shown or refused, never a defect."""

from __future__ import annotations

import importlib
import itertools
import keyword
import random
import re
from typing import Any

import numpy as np
import pytest
from IPython.core.error import UsageError

import tvmagic
import tvmagic.notebook.magics  # which declares the options
from tvmagic import notebook
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.ir.views import watch_views
from tvmagic.notebook import display
from tvmagic.notebook.arguments import PARSERS
from tvmagic.operators import operator

NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "1e308",
    "-1",
    "0",
    "9" * 30,
    "1e-308",
    "9" * 5000,
    "²",
    "٣",
    "''",
    "1.5",
    "0x10",
    str(2**63),
)
FILES = ("'a\0b'", "''", ".", "/nonexistent/x", "x" * 300, "\udcff/x", "/dev/full")
CELL = "%%tensor odd_values\nA: float32[n, 4]\nB[i, j] = A[i, j] + 1"


def _options() -> list[tuple[str, str, str]]:
    """The name of each magic that has an option with a number, the option, and its type."""
    found = []
    for magic, parser in sorted(PARSERS.items()):
        for names, options, _ in parser.declared:
            kind = getattr(options.get("type"), "__name__", "")
            if names[0].startswith("-") and kind in ("positive", "natural", "size", "duration", "int", "float"):
                found.append((magic, names[-1], kind))
    return found


def test_numbers_of_options_are_read_or_refused() -> None:
    assert {kind for *_, kind in _options()} == {"positive", "natural", "size", "duration"}
    for (magic, flag, kind), text in itertools.product(_options(), NUMBERS):
        try:
            read = PARSERS[magic].read(f"odd_values {flag} {text}")
        except UsageError:
            continue
        value = getattr(read, flag.lstrip("-").replace("-", "_"))
        limit = 365 * 86_400 if kind == "duration" else float("inf")
        assert value == 0 and kind == "natural" or 0 < value <= limit, (magic, flag, text, value)


@pytest.fixture
def odd(shell: Any) -> Any:
    assert shell.run_cell(CELL).success
    return shell


LINES = ["%tune odd_values --seconds 1e308", "%bench odd_values --seconds nan", f"%bench odd_values --size {10**30}",
         f"%check odd_values --size {2**40}", "%check odd_values --seed -1", f"%check odd_values --seed {2**70}",
         "%tune odd_values --seed -1", f"%tune odd_values --trials {'9' * 5000}"]  # fmt: skip
LINES += [f"%passes odd_values --html {name}" for name in FILES]
LINES += [f"%tune odd_values --from {name}" for name in FILES if name != "''"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[:40]))
def test_odd_values_end_in_no_defect(line: str, odd: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = odd.run_cell(line)
    error = result.error_in_exec
    assert error is None or isinstance(error, (TVMagicError, UsageError)) and not isinstance(error, DefectError), error
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said and "defect of tvmagic" not in said


def test_full_temporary_folder_is_told(
    odd: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tempfile

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device", "/tmp")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert not odd.run_cell("%tune odd_values --seconds 1").success
    said = "".join(capsys.readouterr())
    assert "hint" in said and "defect" not in said


# ---------------------------------------------------------------------------- names in the notation

# What generated code calls its own, and what Python and the notation know.
NAMES = ["_body_", "body", "body_", "_out", "out", "np", "T", "I", "te", "tir", "s", "self", "lambda_", "axis", "_", "__", "x_1", "i0",
         "__class__", "__builtins__", "print", "int", "float32", "exp", "max", "name", "args", "n_1", "layout", "result", "tvm"]  # fmt: skip
NAMES += [name for name in (*keyword.kwlist, *keyword.softkwlist) if name != "_"]


def _check_names(index: str, other: str, tensor: str, size: str) -> None:
    text = f"{tensor}: float32[{size}, 3]\nR0[{index}, {other}] = {tensor}[{index}, {other}] * 2 + 1"
    try:
        op = operator("odd", text)
    except TVMagicError as error:
        assert not isinstance(error, DefectError), (text, error)
        return
    data = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(op(data), data * 2 + 1)
    reduced = operator(
        "odd", f"{tensor}: float32[{size}, 3]\nR0[{index}] = sum({tensor}[{index}, {other}], over={other})"
    )
    np.testing.assert_allclose(reduced(data), data.sum(1))


@pytest.mark.parametrize("seed", range(3))
def test_names_of_generated_code_are_free(seed: int) -> None:
    rng = random.Random(seed)
    for name in NAMES[seed::3]:
        chosen = ["i", "j", "A", "n"]
        chosen[rng.randrange(4)] = name
        if len(set(chosen)) == 4:
            _check_names(*chosen)
    _check_names(*rng.sample([n for n in NAMES if re.fullmatch(r"[a-z]\w*", n)], 4))


@pytest.mark.parametrize("name", ["_body_", "body"])
def test_index_named_like_generated_code_computes(name: str) -> None:
    op = operator("odd", f"A: float32[4]\nB[{name}] = A[{name}] + 1")
    np.testing.assert_array_equal(op(np.zeros(4, "float32")), np.ones(4))


# ---------------------------------------------------------------------------- plain functions


def test_plain_functions_take_operators_and_versions_or_refuse() -> None:
    f, g = operator("f", "A: float32[4]\nB[i] = A[i] + 1"), operator("g", "A: float32[4]\nB[i] = A[i] * 2")
    values: list[Any] = [f, f.current, f.plain, "f", 3, None, f.to_prim_func(), tvmagic.nd.array(np.zeros(4))]
    for name in ("asm", "bounds", "graph", "llvm", "passes", "playground", "check_result", "bench"):
        for value in values:
            options = {"seconds": 1e-3} if name == "bench" else {}
            try:
                getattr(notebook, name)(value, **options)
            except TVMagicError as error:
                assert not isinstance(error, DefectError), (name, value)
            except TypeError as error:
                assert "argument" in str(error), (name, value, error)  # it takes other arguments
    for a, b in itertools.product(values, repeat=2):
        try:
            shown = notebook.compare(a, b)
        except TVMagicError as error:
            assert not isinstance(error, DefectError), (a, b)
        else:
            assert "diverge" in shown.title or "same program" in shown.title
    assert notebook.compare(f, g).title.startswith("f:")


def test_every_view_is_of_a_class_and_every_class_has_its_view() -> None:
    for package in ("ascend", "cinn", "explain.explanation", "operators.comparison", "operators.measure", "runtime"):
        importlib.import_module(f"tvmagic.{package}")
    used: set[str] = set()
    watch_views(lambda cls, view: used.add(view))()
    assert used == set(display.VIEWS)
